"""A matplotlib figure as Plotly data, to zoom and to hover: `plotly_figure`.

What cannot be converted faithfully is refused with an `UnknownArtist`, so that a page keeps the still instead.
"""

from dynascope.lab.report.interactive.convert import plotly_figure
from dynascope.lab.report.interactive.unknown import UnknownArtist

__all__ = ["UnknownArtist", "plotly_figure"]
