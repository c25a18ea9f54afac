"""The figure of a search: over one field the margin with its limits, over two the region in which the claim holds, over
more the points in each plane of two fields."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab import formatting
from dynascope.lab.drawing import drawing
from dynascope.lab.limit_search.answer import Answer
from dynascope.lab.limit_search.crossings import judged_within
from dynascope.lab.limit_search.points import Point
from dynascope.lab.limit_search.ranges import Range
from dynascope.lab.limit_search.search import few_integers
from dynascope.lab.sweeps.figures import POINTS_PER_INCH, RenderedFigure

HOLDS, FAILS = PALETTE[1], PALETTE[0]
PIXELS = 300
LINEAR = 1e-2
"""Margins below this share of the largest are drawn to a linear scale, larger ones to a logarithmic one."""


def draw(answer: Answer) -> Iterator[RenderedFigure]:
    """The figure of an answer, rendered.

    Args:
        answer: The result of the search.
    """
    with drawing():
        figure = make_figure(answer)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        width, height = (round(POINTS_PER_INCH * inches) for inches in figure.get_size_inches())
    yield RenderedFigure("limits", _title(answer), buffer.getvalue(), width, height)


def make_figure(answer: Answer) -> Figure:
    """The figure of an answer.

    Args:
        answer: The result of the search.
    """
    ranges = answer.question.ranges
    if len(ranges) == 1:
        figure = _over_one(answer)
    elif len(ranges) == 2:
        figure, axes = panels(1, size=(8.0, 5.2))
        _region(axes, answer)
        _plane(axes, answer, (0, 1))
        _limits(axes, answer)
        figure.legend(loc="outside right center")
    else:
        figure = _over_more(answer)
    figure.suptitle("\n".join(textwrap.wrap(_title(answer), 78)), fontsize=11, x=0.01, ha="left", weight="bold")
    return figure


def _title(answer: Answer) -> str:
    return answer.lines[0].partition(", ")[2]


def _over_one(answer: Answer) -> Figure:
    """The margin (or the share of seeds, if the claim has no margin) over the field."""
    figure, axes = panels(1, size=(8.0, 3.8))
    span, points = answer.question.ranges[0], answer.points
    margins = np.array([point.margin for point in points])
    numeric = bool(np.isfinite(margins).all()) and len(points) > 0
    y = margins if numeric else np.array([point.share for point in points])
    x = np.array([point.values[0] for point in points], float)
    axes.plot(x, y, color=FAINT, linewidth=1, zorder=1)
    _points(axes, points, x, y)
    if numeric:
        axes.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
        if np.abs(margins).max() > 100 * np.median(np.abs(margins)):
            axes.set_yscale("symlog", linthresh=float(max(LINEAR * np.median(np.abs(margins)), 1e-12)))
    for number, each in enumerate(answer.crossings):
        at = each.place[0]
        sides = [_value(span, float(np.clip(at + sign * each.uncertainty, 0, 1))) for sign in (-1, 1)]
        axes.axvspan(*sides, color=INK, alpha=0.2, linewidth=0, label="" if number else "limit")
        axes.axvline(_value(span, at), color=INK, linewidth=1)
    for number, line in enumerate(answer.theory):
        axes.axvline(_value(span, float(line[0, 0])), **(THEORY | {"label": "" if number else "theory"}))
    if answer.origin.values:
        axes.plot(answer.origin.values[0], y[x == answer.origin.values[0]][0], **_STAR)
    axes.set(xlabel=_label(span), ylabel="margin of the claim" if numeric else "share of seeds in which it holds")
    axes.set_xscale("log" if span.log else "linear")
    figure.legend(loc="outside right center")
    return figure


def _over_more(answer: Answer) -> Figure:
    pairs = list(combinations(range(len(answer.question.ranges)), 2))
    figure, axes = panels(3, -(-len(pairs) // 3), size=(4.2, 3.6), squeeze=False)
    for pair, panel in zip(pairs, axes.flat, strict=False):
        _plane(panel, answer, pair)
    for panel in axes.flat[len(pairs) :]:
        panel.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    return figure


def _plane(axes: Axes, answer: Answer, pair: tuple[int, int]) -> None:
    """The points over two of the fields, the default setting, and the way to the nearest limit."""
    across, up = (answer.question.ranges[number] for number in pair)
    x, y = (np.array([point.values[number] for point in answer.points], float) for number in pair)
    _points(axes, answer.points, x, y)
    if answer.origin.values:
        start = (answer.origin.values[pair[0]], answer.origin.values[pair[1]])
        if answer.change:
            end = (_value(across, answer.change.place[pair[0]]), _value(up, answer.change.place[pair[1]]))
            axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "linewidth": 1.4}, zorder=5)
        axes.plot(*start, **_STAR)
    axes.set(xlabel=_label(across), ylabel=_label(up))
    axes.set_xscale("log" if across.log else "linear")
    axes.set_yscale("log" if up.log else "linear")


def _region(axes: Axes, answer: Answer) -> None:
    """The region in which the claim holds, by straight lines through the margins between neighboring points."""
    ranges = answer.question.ranges
    counts = [round(1 / span.step) + 1 if span.step else PIXELS for span in ranges]
    middles = [
        (np.arange(count) + 0.5) / count if not span.step else np.linspace(0, 1, count)
        for count, span in zip(counts, ranges, strict=True)
    ]
    edges = [_edges(span, count) for span, count in zip(ranges, counts, strict=True)]
    signs = np.sign(_interpolate(answer, np.stack(np.meshgrid(*middles, indexing="ij"), -1)))
    colors = ListedColormap([FAILS, "#ffffff", HOLDS])
    shown = np.ma.masked_invalid(signs.T)
    axes.pcolormesh(*edges, shown, cmap=colors, vmin=-1, vmax=1, alpha=0.22, linewidth=0, rasterized=True, zorder=0)
    axes.grid(False)


def _interpolate(answer: Answer, places: np.ndarray) -> np.ndarray:
    """The value of points between them, along each integer by itself if there are few."""
    from scipy.interpolate import LinearNDInterpolator

    ranges = answer.question.ranges
    judged = judged_within(answer.points)
    known = np.array([point.place for point in judged]).reshape(-1, 2)
    values = np.array([np.clip(point.value, -1e12, 1e12) for point in judged])
    fixed = few_integers([span.step for span in ranges])
    if not fixed:
        return LinearNDInterpolator(known, values)(places) if len(judged) > 2 else np.full(places.shape[:2], np.nan)
    found, free = np.full(places.shape[:2], np.nan), 1 - fixed[0]
    for at in np.unique(known[:, fixed[0]]):
        line, here = np.isclose(known[:, fixed[0]], at), np.isclose(places[..., fixed[0]], at)
        order = np.argsort(known[line, free])
        found[here] = np.interp(places[..., free][here], known[line, free][order], values[line][order])
    return found


def _limits(axes: Axes, answer: Answer) -> None:
    """The limits with their uncertainty, and theory's lines."""
    ranges = answer.question.ranges
    for number, each in enumerate(answer.crossings):
        ends = np.array([each.holds.place, each.fails.place])
        drawn = [[_value(span, float(at)) for at in ends[:, k]] for k, span in enumerate(ranges)]
        axes.plot(*drawn, color=INK, linewidth=1.1, alpha=0.55, label="" if number else "between these: the limit")
    for number, line in enumerate(answer.theory):
        drawn = [[_value(span, float(at)) for at in line[:, k]] for k, span in enumerate(ranges)]
        axes.plot(*drawn, **(THEORY | {"label": "" if number else "theory", "zorder": 4}))


def _points(axes: Axes, points: Sequence[Point], x: np.ndarray, y: np.ndarray) -> None:
    """Every point by its verdict, in both colors if seeds disagree."""
    kinds: dict[str, tuple[list[bool], dict[str, Any]]] = {
        "holds": ([p.holds is True and not p.disagree for p in points], {"color": HOLDS, "marker": "o"}),
        "fails": ([p.holds is False and not p.disagree for p in points], {"color": FAILS, "marker": "s"}),
        "seeds disagree": ([p.disagree for p in points], {"color": PALETTE[2], "marker": "D"}),
        "not judged": ([p.holds is None for p in points], {"color": FAINT, "marker": "x"}),
    }
    for label, (flags, style) in kinds.items():
        here = np.array(flags, bool)
        if here.any():
            axes.plot(x[here], y[here], linestyle="", markersize=4, label=label, zorder=3, **style)


def _edges(span: Range, count: int) -> np.ndarray:
    """The values at the edges of the pixels of a range."""
    half = span.step / 2
    return np.array([_value(span, float(at)) for at in np.linspace(-half, 1 + half, count + 1)])


def _value(span: Range, at: float) -> float:
    return span.low * (span.high / span.low) ** at if span.log else span.low + at * (span.high - span.low)


def _label(span: Range) -> str:
    return formatting.label(span.name)


_STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 13,
    "color": INK,
    "markeredgecolor": "white",
    "linestyle": "",
    "label": "default",
    "zorder": 6,
}
