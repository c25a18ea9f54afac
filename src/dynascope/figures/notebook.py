"""Figures that a notebook shows as the value of a cell, whether or not pyplot has been imported."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

RESOLUTION = 100


class NotebookFigure(Figure):
    """A figure without pyplot, which draws itself in a notebook."""

    def _repr_png_(self) -> bytes:
        """The picture, by IPython's protocol."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=RESOLUTION)
        return file.getvalue()
