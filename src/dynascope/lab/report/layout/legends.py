"""Legends of a figure that is laid out again: those that would hide the curves go below them."""

from __future__ import annotations

from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from dynascope.lab.report.layout.extents import extent, figure_of

MOST_COLUMNS = 6


def hides(legend: Legend, axes: Axes) -> bool:
    """Whether a legend lies outside its axes, or covers much of them."""
    figure = figure_of(axes)
    box, own = extent(figure, axes), extent(figure, legend)
    across, up = (own.left + own.right) / 2, (own.bottom + own.top) / 2
    outside = not (box.left <= across <= box.right and box.bottom <= up <= box.top)
    large = own.width * own.height > 0.3 * box.width * box.height
    return outside or large or own.width > 0.85 * box.width or own.height > 0.75 * box.height or covers(legend, axes)


def covers(legend: Legend, axes: Axes) -> bool:
    """Whether a legend lies over a fifth of the curves."""
    box = legend.get_window_extent()
    curves = [line for line in axes.lines if np.size(line.get_xydata()) > 4]
    crossed = [
        line for line in curves if line.get_transform().transform_path(line.get_path()).intersects_bbox(box, False)
    ]
    return len(crossed) > 0.2 * len(curves)


def in_columns(owner: Axes | Figure, legend: Legend, room: float, most_rows: int = 0) -> Legend | None:
    """The same legend in as many columns as fit into a width, at the upper center. None if not one column fits, or if
    it would have too many rows.

    Args:
        owner: The axes or the figure of the legend.
        legend: The legend, which is removed and made again.
        room: The width, in inches.
        most_rows: The most rows; 0 for any number.
    """
    texts = [text.get_text() for text in legend.get_texts()]
    handles = [handle for handle in legend.legend_handles if handle is not None]
    title = legend.get_title().get_text() or None
    size = legend.get_texts()[0].get_fontsize() if texts else None
    legend.remove()
    figure = cast("Figure", owner.get_figure(root=True))
    for columns in range(min(len(texts), MOST_COLUMNS), 0, -1):
        if most_rows and len(texts) > columns * most_rows:
            break
        made = owner.legend(
            handles,
            texts,
            ncols=columns,
            fontsize=size,
            title=title,
            title_fontsize=size,
            loc="upper center",
            columnspacing=1.0,
            handlelength=1.6,
            handletextpad=0.5,
            labelspacing=0.25,
            borderpad=0.1,
            borderaxespad=0.0,
        )
        if extent(figure, made).width <= room:
            return made
        made.remove()
    return None
