"""Forms that several figures share: rows of panels, a legend outside, colors of settings, the plane of two concepts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynascope.figures.style import FAINT, INK

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 15.0
"""The widest row of panels, in inches; in a wider one the letters would be too small to read on a page."""
MOST_PANELS = 100
"""The most panels in a row or a column."""


def check_axes(axes: Any) -> None:
    """Check that these are axes of matplotlib.

    Args:
        axes: The argument to check.
    """
    from matplotlib.axes import Axes

    from dynascope import checks  # it imports jax

    if not isinstance(axes, Axes):
        raise TypeError(f"axes must be the axes of a matplotlib figure; got {checks.shown(axes)}")


def panels(columns: int, rows: int = 1, size: tuple[float, float] = (4.4, 3.6), **options: Any) -> tuple[Figure, Any]:
    """A figure with a row or a grid of axes. The lab applies `HOUSE_STYLE` while an experiment draws.

    A single row that is wider than `WIDEST` is broken into several.

    Args:
        columns: Number of columns.
        rows: Number of rows.
        size: Width and height of one panel, in inches.
        **options: For `Figure.subplots`.

    Returns:
        The figure, and its axes as `Figure.subplots` returns them.
    """
    from matplotlib.figure import Figure

    from dynascope import checks

    for name, count in (("columns", columns), ("rows", rows)):
        checks.whole(name, count, at_least=1, at_most=MOST_PANELS)
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise ValueError(f"size must be the width and the height of a panel, in inches; got {checks.shown(size)}")
    for side in size:
        checks.real("each of size", side, above=0, at_most=100)
    allowed = [name for name in inspect.signature(Figure.subplots).parameters if name not in ("self", "nrows", "ncols")]
    for name in options:
        checks.one_of("each of options", name, allowed)
    broken = math.ceil(columns * size[0] / WIDEST) if rows == 1 else 1
    across = math.ceil(columns / broken)
    figure = Figure(figsize=(size[0] * across, size[1] * rows * broken), layout="constrained")
    if broken == 1:
        return figure, figure.subplots(rows, columns, **options)
    squeeze = options.pop("squeeze", True)
    grid = figure.subplots(broken, across, squeeze=False, **options).ravel()
    for spare in grid[columns:]:
        spare.remove()
    return figure, grid[:columns] if squeeze else grid[None, :columns]


def legend_beside(axes: Axes) -> None:
    """Put the legend to the right of the axes, where it hides no curve.

    Args:
        axes: Axes with labeled artists.
    """
    check_axes(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def settings_colors(count: int) -> list[Any]:
    """Colors for an ordered family of settings, dark to light.

    Args:
        count: Number of colors.

    Returns:
        The colors, as matplotlib takes them.
    """
    from matplotlib import colormaps

    from dynascope import checks

    checks.whole("count", count, at_least=0, at_most=10_000)
    return [colormaps["viridis"](x) for x in np.linspace(0.05, 0.88, count)]


def concept_plane(axes: Axes, mu: Sequence[float], label: str = "test point") -> None:
    """Draw the training clusters and the test point into the plane of a two-concept output.

    Args:
        axes: The axes.
        mu: The signals of the two concepts.
        label: The name of the test point in the legend.
    """
    from dynascope import checks

    check_axes(axes)
    checks.array("mu", mu, ndim=1)
    if len(mu) != 2 or not np.all(np.isfinite(np.asarray(mu, float))):
        raise ValueError(f"mu must be two finite signals; got {checks.shown(mu)}")
    checks.texts("label", [label], "the name of the test point, a string")
    axes.plot([0, mu[0]], [mu[1], 0], "o", color=FAINT, markersize=7, zorder=1, label="training clusters")
    axes.plot([mu[0]], [mu[1]], "*", color=INK, markersize=12, zorder=5, label=label)
    axes.set_xlabel("output, concept 1")
    axes.set_ylabel("output, concept 2")
