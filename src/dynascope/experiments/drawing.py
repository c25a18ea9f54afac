"""One look for all figures: measured curves are solid, theory is dashed and black, a concept keeps its colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

CONCEPT_COLOURS = ("#d1495b", "#00798c", "#edae49", "#66508f")
"""One for each concept, weakest first in most figures."""
INK, FAINT = "#22272e", "#9aa4b2"
THEORY = {"color": "black", "linestyle": (0, (4, 2.5)), "linewidth": 1.1}

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#6b7480",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e9ee",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "xtick.color": "#4a525c",
    "ytick.color": "#4a525c",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def panels(columns: int, rows: int = 1, size: tuple[float, float] = (4.4, 3.6), **options: Any) -> tuple[Figure, Any]:
    """A figure with a row (or grid) of axes in the house style; the axes as `Figure.subplots` gives them."""
    with rc_context(_STYLE):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def settings_colours(count: int) -> list[Any]:
    """Colours for an ordered family of settings, dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0.05, 0.88, count)]


def concept_plane(axes: Axes, mu: Sequence[float], label: str = "test point") -> None:
    """Axes of a two-concept output: where training clusters and the test point lie."""
    axes.plot([0, mu[0]], [mu[1], 0], "o", color=FAINT, markersize=7, zorder=1, label="training clusters")
    axes.plot([mu[0]], [mu[1]], "*", color=INK, markersize=12, zorder=5, label=label)
    axes.set_xlabel("output, concept 1")
    axes.set_ylabel("output, concept 2")
