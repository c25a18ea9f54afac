"""The style of all figures: colors, curves of theory, and the matplotlib settings while an experiment draws."""

from __future__ import annotations

from typing import Any

PALETTE = ("#d1495b", "#00798c", "#edae49", "#66508f")
"""Colors, one for each category; in figures of concepts usually the weakest first."""
INK = "#22272e"
"""The color of text and of emphasized curves."""
FAINT = "#9aa4b2"
"""The color of guides and of curves in the background."""
THEORY: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 2.5)), "linewidth": 1.1}
"""The style of a curve from theory: `axes.plot(x, y, **THEORY)`."""

HOUSE_STYLE: dict[str, Any] = {
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
    "axes.prop_cycle": f"cycler('color', {[*PALETTE, INK, FAINT]})",
    "xtick.color": "#4a525c",
    "ytick.color": "#4a525c",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
"""The matplotlib settings while an experiment draws."""
