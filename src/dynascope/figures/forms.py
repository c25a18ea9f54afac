"""One look for all figures: measured curves are solid, theory is dashed and black, a concept keeps its color."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

CONCEPT_COLOURS = ("#d1495b", "#00798c", "#edae49", "#66508f")
"""One for each concept, weakest first in most figures."""
INK, FAINT = "#22272e", "#9aa4b2"
THEORY = {"color": "black", "linestyle": (0, (4, 2.5)), "linewidth": 1.1}


def panels(columns: int, rows: int = 1, size: tuple[float, float] = (4.4, 3.6), **options: Any) -> tuple[Figure, Any]:
    """A figure with a row (or grid) of axes; the axes as `Figure.subplots` gives them. The lab sets the style."""
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def legend_beside(axes: Axes) -> None:
    """A legend to the right of the axes, where it hides nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def settings_colors(count: int) -> list[Any]:
    """Colors for an ordered family of settings, dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0.05, 0.88, count)]


def concept_plane(axes: Axes, mu: Sequence[float], label: str = "test point") -> None:
    """Axes of a two-concept output: where training clusters and the test point lie."""
    axes.plot([0, mu[0]], [mu[1], 0], "o", color=FAINT, markersize=7, zorder=1, label="training clusters")
    axes.plot([mu[0]], [mu[1]], "*", color=INK, markersize=12, zorder=5, label=label)
    axes.set_xlabel("output, concept 1")
    axes.set_ylabel("output, concept 2")
