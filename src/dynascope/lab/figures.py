"""An experiment's figures, drawn in the house style and written as PNG and SVG: the same bytes for the same data."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from typing import Any

from dynascope.figures.style import HOUSE_STYLE
from dynascope.lab.errors import StoreError
from dynascope.lab.experiment import Experiment
from dynascope.lab.store import Draft

RC: dict[Any, Any] = {**HOUSE_STYLE, "svg.hashsalt": "dynascope", "svg.fonttype": "path"}
_DRAWING = threading.Lock()  # matplotlib knows no threads
_KINDS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""The formats, and what to leave out of each file so that it does not depend on the day."""


def draw_into(draft: Draft, experiment: Experiment, measured: Any, predicted: Any) -> list[str]:
    """Draw, write `figures/<name>.png` and `.svg` into the draft, and return the names in order."""
    from matplotlib import pyplot, rc_context

    with _DRAWING, rc_context(RC):
        figures = experiment.draw(measured, predicted)
        if not isinstance(figures, Mapping):
            raise TypeError(f"draw returned {type(figures).__name__}, not a dict of figures by name")
        try:
            for name, figure in figures.items():
                if "/" in name or name.startswith("."):
                    raise StoreError(f"{draft.id}: {name!r} cannot be the name of a figure")
                for kind, metadata in _KINDS.items():
                    buffer = io.BytesIO()
                    figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
                    draft.write(f"figures/{name}.{kind}", buffer.getvalue())
        finally:
            for figure in figures.values():
                pyplot.close(figure)
    return list(figures)
