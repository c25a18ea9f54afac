"""The text of a figure that is laid out again: font sizes, and wrapping to the available room."""

from __future__ import annotations

import textwrap

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from dynascope.lab.report.layout.extents import extent

MOST_LINES = 3


def resize_text(figure: Figure, scale: float, smallest: float) -> None:
    """Scale all text of a figure, with no font below `smallest` points."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for which in ("major", "minor"):
                now = axis.get_tick_params(which=which).get("labelsize")
                size = float(now) if isinstance(now, int | float) else _size_of_ticks(axis)
                axis.set_tick_params(which=which, labelsize=max(smallest, scale * size))
            axis.label.set_fontsize(max(smallest, scale * float(axis.label.get_fontsize())))
            axis.get_offset_text().set_fontsize(smallest)
    ticks = {
        id(part)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for part in (axis.label, axis.get_offset_text(), *axis.findobj(Text))
    }
    for text in figure.findobj(Text):
        if id(text) not in ticks:
            text.set_fontsize(max(smallest, scale * float(text.get_fontsize())))


def _size_of_ticks(axis: Axis) -> float:
    labels = axis.get_ticklabels()
    return float(labels[0].get_fontsize()) if labels else 10.0


def wrap_text(figure: Figure, text: Text, room: float) -> None:
    """Break a text into lines that fit into a width (a height, if it is turned). Formulas are left whole."""
    words = " ".join(text.get_text().split())
    if not words or "$" in words or not text.get_visible():
        return
    text.set_text(words)
    turned = text.get_rotation() in (90, 270)
    box = extent(figure, text)
    length = box.height if turned else box.width
    if length <= room:
        return
    lines = textwrap.wrap(words, max(int(len(words) * room / length), 8), break_long_words=False)
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "…"]
        lines[MOST_LINES - 1 :] = [lines[MOST_LINES - 1] + " …"]
    text.set_text("\n".join(lines))
