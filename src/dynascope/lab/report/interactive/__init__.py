"""A matplotlib figure as Plotly data, to zoom and to hover: `plotly_figure`.

An artist that cannot be converted faithfully raises an `UnknownArtist`, so that a page shows the still image instead.
"""

from dynascope.lab.report.interactive.convert import plotly_figure
from dynascope.lab.report.interactive.unknown import UnknownArtist

__all__ = ["UnknownArtist", "plotly_figure"]
