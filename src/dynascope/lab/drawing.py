"""Draws an experiment's figures in the house style, as PNG and SVG: the same bytes for the same data."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from typing import Any

from dynascope.figures import HOUSE_STYLE
from dynascope.lab.experiment import Experiment

RC: dict[Any, Any] = {**HOUSE_STYLE, "svg.hashsalt": "dynascope", "svg.fonttype": "path"}
_DRAWING = threading.Lock()  # matplotlib is not thread-safe
_KINDS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""The formats, and the metadata to leave out of each file so that its bytes do not depend on the date."""


def drawn(experiment: Experiment, measured: Any, predicted: Any, reduced: Any) -> dict[str, bytes]:
    """The experiment's figures as files, `figures/<name>.png` and `.svg`, in its order."""
    from matplotlib import pyplot, rc_context

    files: dict[str, bytes] = {}
    with _DRAWING, rc_context(RC):
        figures = experiment.draw(measured, predicted, reduced)
        if not isinstance(figures, Mapping):
            raise TypeError(f"draw returned {type(figures).__name__}, not a dict of figures by name")
        try:
            for name, figure in figures.items():
                if "/" in name or name.startswith("."):
                    raise ValueError(f"a figure's name is a file name without a leading dot; got {name!r}")
                for kind, metadata in _KINDS.items():
                    buffer = io.BytesIO()
                    figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
                    files[f"figures/{name}.{kind}"] = buffer.getvalue()
        finally:
            for figure in figures.values():
                pyplot.close(figure)
    return files
