"""A figure laid out again: its panels in one column for a narrow screen, or one panel alone for a card.

Both change the figure that they are given, so save what it was first. All lengths are inches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dynascope.figures.extents import Box, extent, figure_of
from dynascope.figures.legends import hides, in_columns
from dynascope.figures.lettering import resize_text, wrap_text

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NARROW = 4.2
"""The width of a stack. Shown 350 px wide, an inch is 83 px, and 8 points are 9 px."""
CARD = (3.35, 2.2)
"""The size of a card. Shown 335 px wide, an inch is 100 px, and 6.5 points are 9 px."""
SMALLEST_IN_STACK, SMALLEST_ON_CARD = 8.0, 6.5
CARD_SCALE = 0.75
PAD = 0.07
GAP = 0.28
FLATTEST, STEEPEST = 0.5, 1.15
"""The least and the largest height of a panel in a stack, in its widths."""
MOST_ROWS = 2
"""A legend of more rows is left out of a card."""


@dataclass
class Panel:
    """One plot: its axes, those that lie over them (twins), and the color bars beside them."""

    axes: Axes
    over: list[Axes] = field(default_factory=list)
    bars: list[Axes] = field(default_factory=list)

    @property
    def plots(self) -> list[Axes]:
        return [self.axes, *self.over]

    def place(self, left: float, bottom: float, width: float, height: float) -> None:
        """Put the axes into this box of the figure, and the color bars to the right of it."""
        across, up = figure_of(self.axes).get_size_inches()
        for axes in self.plots:
            axes.set_position((left / across, bottom / up, width / across, height / up))
        for number, bar in enumerate(self.bars):
            at = left + width + 0.12 + 0.75 * number
            bar.set_box_aspect(None)
            bar.set_position((at / across, bottom / up, 0.13 / across, height / up))


def find_panels(figure: Figure) -> list[Panel]:
    """The panels of a figure in the order of its axes. What is hidden or empty is left out."""
    found: list[Panel] = []
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    for axes in figure.axes:
        if axes in bars or not axes.get_visible() or not _shows_something(axes):
            continue
        under = next((panel for panel in found if _same_place(panel.axes, axes)), None)
        if under:
            under.over.append(axes)
        else:
            found.append(Panel(axes))
    for bar in bars:
        owners = [panel for panel in found if bar in _bars_of(panel.axes)]
        if found:
            (owners or found)[-1].bars.append(bar)
    return found


def stack(figure: Figure) -> None:
    """Lay the panels of a figure out in one column, `NARROW` inches wide, each with its own labels."""
    found = _prepared(figure, 1.0, SMALLEST_IN_STACK)
    room = NARROW - 2 * PAD
    shapes = [extent(figure, panel.axes) for panel in found]
    placed: list[tuple[Panel, Box, float, float]] = []
    for panel, shape in zip(found, shapes, strict=True):
        ratio = min(max(shape.height / shape.width, FLATTEST), STEEPEST)
        width, around = 0.82 * NARROW, Box(0, 0, 0, 0)
        for _ in range(2):
            around = _margins(panel, width, ratio * width)
            width = max(room - around.left - around.right, 0.35 * NARROW)
        placed.append((panel, around, width, ratio * width))
    title: Any = figure._suptitle if figure.get_suptitle() else None  # pyright: ignore[reportAttributeAccessIssue]
    if title:
        wrap_text(figure, title, room)
    legends = [made for legend in list(figure.legends) if (made := in_columns(figure, legend, 1.05 * room))]
    head = extent(figure, title).height + GAP / 2 if title else 0.0
    heights = [around.bottom + height + around.top + GAP for _, around, _, height in placed]
    feet = [extent(figure, legend).height + GAP / 2 for legend in legends]
    total = 2 * PAD + head + sum(heights) - GAP + sum(feet)
    figure.set_size_inches(NARROW, total)
    top = total - PAD
    if title:
        title.set(x=PAD / NARROW, y=top / total, ha="left", va="top")
        top -= head
    for (panel, around, width, height), whole in zip(placed, heights, strict=True):
        panel.place(PAD + around.left, top - around.top - height, width, height)
        top -= whole
    top += GAP / 2
    for legend, foot in zip(legends, feet, strict=True):
        legend.set_bbox_to_anchor((0.5, top / total), figure.transFigure)  # pyright: ignore[reportArgumentType]
        top -= foot


def alone(figure: Figure, number: int = 0) -> None:
    """Show one panel of a figure only, in the size of a card, with letters that can be read there."""
    found = _prepared(figure, CARD_SCALE, SMALLEST_ON_CARD)
    if not 0 <= number < len(found):
        raise IndexError(f"the figure has the panels 0 to {len(found) - 1}; got {number}")
    panel = found[number]
    for other in figure.axes:
        other.set_visible(other in panel.plots or other in panel.bars)
    for part in (*figure.texts, *figure.legends):
        part.set_visible(False)
    if figure.get_suptitle():
        figure.suptitle("")
    across, up = CARD
    width, height, around = 0.82 * across, 0.7 * up, Box(0, 0, 0, 0)
    for _ in range(3):
        around = _margins(panel, width, height, MOST_ROWS)
        width = max(across - 2 * PAD - around.left - around.right, 0.3 * across)
        height = max(up - 2 * PAD - around.bottom - around.top, 0.3 * up)
    figure.set_size_inches(across, up)
    panel.place(PAD + around.left, PAD + around.bottom, width, height)


def _prepared(figure: Figure, scale: float, smallest: float) -> list[Panel]:
    """The panels of a figure whose layout is free, each with all of its labels."""
    figure.set_layout_engine("none")
    found = find_panels(figure)
    for panel in found:
        _label_apart(panel.axes)
    figure.supxlabel("")
    figure.supylabel("")
    resize_text(figure, scale, smallest)
    return found


def _label_apart(axes: Axes) -> None:
    """Give axes the labels that they had only through others beside them."""
    figure = figure_of(axes)
    shared = {"x": axes.get_shared_x_axes(), "y": axes.get_shared_y_axes()}
    for name, axis, side in (("x", axes.xaxis, "labelbottom"), ("y", axes.yaxis, "labelleft")):
        others = [other for other in shared[name].get_siblings(axes) if other is not axes]
        if others and axes.axison:
            axis.set_tick_params(which="both", **{side: True})  # pyright: ignore[reportArgumentType]
        texts = [getattr(other, f"get_{name}label")() for other in others]
        whole = figure.get_supxlabel() if name == "x" else figure.get_supylabel()
        if not axis.get_label_text():
            axis.set_label_text(next((text for text in [*texts, whole] if text), ""))


def _margins(panel: Panel, width: float, height: float, most_rows: int = 0) -> Box:
    """What labels, titles and legends take around a box of this size. Texts are wrapped to it; a legend that lies
    outside, or would hide much, goes below it, and away where it does not fit or has more than `most_rows`. On a card,
    which has `most_rows`, there are no footnotes."""
    from matplotlib.text import Text

    figure, axes = figure_of(panel.axes), panel.axes
    panel.place(1.0, 1.0, width, height)
    titles: Any = (axes.title, axes._left_title, axes._right_title)  # pyright: ignore[reportAttributeAccessIssue]
    for title in titles:
        wrap_text(figure, title, 1.1 * width)
    for each in panel.plots:
        wrap_text(figure, each.xaxis.label, 1.15 * width)
        wrap_text(figure, each.yaxis.label, 1.15 * height)
    below: list[Any] = [text for text in axes.texts if _is_footnote(text)]
    for text in below:
        text.set(in_layout=False, visible=not most_rows)
    for each in panel.plots:
        legend = each.get_legend()
        if legend and (legend.get_gid() == "below" or hides(legend, each)):
            made = in_columns(each, legend, 1.2 * width, most_rows)
            if made:
                made.set_gid("below")
                made.set_in_layout(False)
                below.append(made)
        elif legend:
            legend.set_frame_on(True)
            legend.get_frame().set(facecolor="white", edgecolor="none", alpha=0.7)
    parts = [*panel.plots, *panel.bars]
    for part in below:
        box, around = extent(figure, axes), extent(figure, *parts, tight=True)
        at = (around.bottom - 0.05 - box.bottom) / box.height
        if isinstance(part, Text):
            part.set(y=at, va="top", clip_on=False)
        else:
            part.set_bbox_to_anchor((0.5, at), axes.transAxes)
        part.set_in_layout(True)
    box, around = extent(figure, axes), extent(figure, *parts, tight=True)
    pairs = (
        (box.left, around.left),
        (box.bottom, around.bottom),
        (around.right, box.right),
        (around.top, box.top),
    )
    return Box(*(max(outer - inner, 0.0) for outer, inner in pairs))


def _shows_something(axes: Axes) -> bool:
    return axes.axison or axes.has_data() or bool(axes.texts or axes.artists or axes.get_legend())


def _is_footnote(text: Any) -> bool:
    """Whether a text lies below its axes."""
    return text.get_transform() == text.axes.transAxes and text.get_position()[1] < 0


def _same_place(one: Axes, other: Axes) -> bool:
    edges = [np.asarray(axes.get_position(True).extents) for axes in (one, other)]
    return bool(np.allclose(*edges, atol=1e-6))


def _bars_of(axes: Axes) -> list[Axes]:
    """The color bars of what axes show."""
    shown: list[Any] = [*axes.images, *axes.collections]
    return [artist.colorbar.ax for artist in shown if artist.colorbar is not None]
