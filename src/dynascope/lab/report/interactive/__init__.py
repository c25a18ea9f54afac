"""A matplotlib figure as Plotly data, to zoom and to hover: `convert.plotly_figure`.

An artist that cannot be converted faithfully raises an `UnknownArtist`, so that a page shows the still image instead.
"""
