"""The two arrangements: a stack of panels in one column, and one panel alone."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from dynascope.lab.report.layout.extents import Box, extent, figure_of
from dynascope.lab.report.layout.legends import hides, in_columns
from dynascope.lab.report.layout.lettering import resize_text, wrap_text
from dynascope.lab.report.layout.panels import Panel, find_panels

NARROW = 4.2
"""The width of a stack. Shown 350 px wide, an inch is 83 px, and 8 points are 9 px."""
CARD = (3.35, 2.2)
"""The size of a card. Shown 335 px wide, an inch is 100 px, and 6.5 points are 9 px."""
SMALLEST_IN_STACK, SMALLEST_ON_CARD = 8.0, 6.5
CARD_SCALE = 0.75
PAD = 0.07
GAP = 0.28
FLATTEST, STEEPEST = 0.5, 1.15
"""The smallest and the largest height of a panel in a stack, relative to its width."""
MOST_ROWS = 2
"""A legend of more rows is left out of a card."""


def stack(figure: Figure) -> None:
    """Lay the panels of a figure out in one column, `NARROW` inches wide, each with its own labels."""
    panels = _prepare(figure, 1.0, SMALLEST_IN_STACK)
    room = NARROW - 2 * PAD
    shapes = [extent(figure, panel.axes) for panel in panels]
    placed: list[tuple[Panel, Box, float, float]] = []
    for panel, shape in zip(panels, shapes, strict=True):
        ratio = min(max(shape.height / shape.width, FLATTEST), STEEPEST)
        width, around = 0.82 * NARROW, Box(0, 0, 0, 0)
        for _ in range(2):
            around = _margins(panel, width, ratio * width)
            width = max(room - around.left - around.right, 0.35 * NARROW)
        placed.append((panel, around, width, ratio * width))
    title = next((text for text in figure.texts if text.get_text() and text.get_text() == figure.get_suptitle()), None)
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
    """Show only one panel of a figure, in the size of a card, with letters that are legible there.

    Args:
        figure: The figure, laid out again in place.
        number: The number of the panel; the last one if the figure has fewer.
    """
    panels = _prepare(figure, CARD_SCALE, SMALLEST_ON_CARD)
    panel = panels[min(number, len(panels) - 1)]
    for other in figure.axes:
        other.set_visible(other in panel.parts)
    for part in (*figure.texts, *figure.legends):
        part.set_visible(False)
    if figure.get_suptitle():
        figure.suptitle("")
    across, up = CARD
    width, height, around = 0.82 * across, 0.7 * up, Box(0, 0, 0, 0)
    for _ in range(2):
        around = _margins(panel, width, height, MOST_ROWS)
        width = max(across - 2 * PAD - around.left - around.right, 0.3 * across)
        height = max(up - 2 * PAD - around.bottom - around.top, 0.3 * up)
    figure.set_size_inches(across, up)
    panel.place(PAD + around.left, PAD + around.bottom, width, height)


def _prepare(figure: Figure, scale: float, smallest: float) -> list[Panel]:
    """Free the layout of a figure, give each panel all of its labels, and return the panels."""
    figure.set_layout_engine(None)
    panels = find_panels(figure)
    for panel in panels:
        _label_apart(panel.axes)
    figure.supxlabel("")
    figure.supylabel("")
    resize_text(figure, scale, smallest)
    return panels


def _label_apart(axes: Axes) -> None:
    """Give axes the labels that they shared with neighboring axes."""
    figure = figure_of(axes)
    shared = {"x": axes.get_shared_x_axes(), "y": axes.get_shared_y_axes()}
    for name, axis, side in (("x", axes.xaxis, "labelbottom"), ("y", axes.yaxis, "labelleft")):
        others = [other for other in shared[name].get_siblings(axes) if other is not axes]
        if others and axes.axison:
            axis.set_tick_params(which="both", **{side: True})  # pyright: ignore[reportArgumentType]
        texts = [other.get_xlabel() if name == "x" else other.get_ylabel() for other in others]
        whole = figure.get_supxlabel() if name == "x" else figure.get_supylabel()
        if not axis.get_label_text():
            axis.set_label_text(next((text for text in [*texts, whole] if text), ""))


def _margins(panel: Panel, width: float, height: float, most_rows: int = 0) -> Box:
    """The room that labels, titles and legends take around a box of this size.

    Texts are wrapped to it. A legend that lies outside, or would hide much, goes below it; if it does not fit, or has
    more than `most_rows`, it is left out. On a card, which has `most_rows`, there are no footnotes.
    """
    figure, axes = figure_of(panel.axes), panel.axes
    panel.place(1.0, 1.0, width, height)
    for title in (part for part in axes.get_children() if isinstance(part, Text) and part not in axes.texts):
        wrap_text(figure, title, 1.1 * width)
    for each in panel.plots:
        wrap_text(figure, each.xaxis.label, 1.15 * width)
        wrap_text(figure, each.yaxis.label, 1.15 * height)
    below: list[Text | Legend] = [text for text in axes.texts if _is_footnote(text)]
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
    box, around = extent(figure, axes), extent(figure, *panel.parts, tight=True)
    for part in (part for part in below if part.get_visible()):
        at = (around.bottom - 0.05 - box.bottom) / box.height
        if isinstance(part, Text):
            part.set(y=at, va="top", clip_on=False)
        else:
            part.set_bbox_to_anchor((0.5, at), axes.transAxes)
        part.set_in_layout(True)
        around = around.joined_with(extent(figure, part))
    pairs = ((box.left, around.left), (box.bottom, around.bottom), (around.right, box.right), (around.top, box.top))
    return Box(*(max(outer - inner, 0.0) for outer, inner in pairs))


def _is_footnote(text: Text) -> bool:
    """Whether a text lies below its axes."""
    return text.axes is not None and text.get_transform() == text.axes.transAxes and text.get_position()[1] < 0
