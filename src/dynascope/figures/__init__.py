"""Figures: the style and the few shared forms that experiments draw with.

Measured curves are solid, theory is black and dashed, and a concept keeps its color. Importing this package does not
import matplotlib.
"""

from dynascope.figures.forms import concept_plane, legend_beside, panels, settings_colors
from dynascope.figures.phases import phase_map, phase_shares
from dynascope.figures.style import FAINT, HOUSE_STYLE, INK, PALETTE, THEORY
from dynascope.figures.trace import plot_trace, sparkline

__all__ = [
    "FAINT",
    "HOUSE_STYLE",
    "INK",
    "PALETTE",
    "THEORY",
    "concept_plane",
    "legend_beside",
    "panels",
    "phase_map",
    "phase_shares",
    "plot_trace",
    "settings_colors",
    "sparkline",
]
