"""The room that the parts of a figure take, in inches."""

from __future__ import annotations

from typing import NamedTuple, cast

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox


class Box(NamedTuple):
    """Edges, measured from the figure's lower left corner."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def joined_with(self, other: Box) -> Box:
        """The box around both."""
        lows, highs = zip(self[:2], other[:2], strict=True), zip(self[2:], other[2:], strict=True)
        return Box(*map(min, lows), *map(max, highs))


def figure_of(axes: Axes) -> Figure:
    """The whole figure that axes are in."""
    return cast("Figure", axes.get_figure(root=True))


def extent(figure: Figure, *artists: Artist, tight: bool = False) -> Box:
    """The box around artists; if `tight`, with all that belongs to them, such as the labels of axes."""
    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    boxes = [part.get_tightbbox(renderer) if tight else part.get_window_extent(renderer) for part in artists]
    edges = Bbox.union([box for box in boxes if box is not None]).extents
    return Box(*(float(edge) / figure.dpi for edge in edges))
