"""Drawing an experiment's figures in the house style, and writing them as files: the same bytes for the same data."""

from __future__ import annotations

import io
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dynascope.lab.manifest import file_name

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure

Card = str | tuple[str, int]
"""The name of a figure, or its name and the number of one of its panels."""
DPI = 150
"""Pixels per inch of the PNG."""
MARGIN = 0.1
"""Inches around the figure."""
SMALLEST, LARGEST = 1e-200, 1e200
"""The range of a logarithmic axis: a tick may lie many decades beyond it, and has to be a number."""
_DRAWING = threading.Lock()  # matplotlib is not thread-safe
_KINDS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""The formats, and the metadata to leave out of each file so that its bytes do not depend on the date."""


def render_figures(draw: Callable[[], Mapping[str, Figure]], card: Card = "") -> dict[str, bytes]:
    """The figures that `draw` makes as files, in their order: the content of `figures/<name>.png` and `.svg`.

    Args:
        draw: Returns the figures by name.
        card: The figure that goes on the card of the report; a `ValueError` if there is none of this name.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    files: dict[str, bytes] = {}
    with open_figures(draw) as figures:
        if figures:
            card_panel(card, figures)
        for name, figure in figures.items():
            lay_out(figure)
            box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer()).padded(MARGIN)
            for kind, metadata in _KINDS.items():
                buffer = io.BytesIO()
                figure.savefig(buffer, format=kind, dpi=DPI, bbox_inches=box, metadata=metadata)
                files[f"figures/{name}.{kind}"] = buffer.getvalue()
    return files


@contextmanager
def open_figures(draw: Callable[[], Mapping[str, Figure]]) -> Iterator[Mapping[str, Figure]]:
    """The figures that `draw` makes, in the house style. While the block lasts, no other thread draws."""
    with drawing():
        figures = draw()
        if not isinstance(figures, Mapping):
            raise TypeError(f"draw returned {type(figures).__name__}, not a dict of figures by name")
        try:
            for name, figure in figures.items():
                try:
                    file_name(name)
                except ValueError as error:
                    raise ValueError(f"the name of a figure {error}") from None
                _keep_in_range(figure)
                _say_if_empty(figure)
            yield figures
        finally:
            if pyplot := sys.modules.get("matplotlib.pyplot"):
                for figure in figures.values():
                    pyplot.close(figure)


def lay_out(figure: Figure) -> None:
    """Lay out the parts of a figure, once for all files made from it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.dpi = DPI
    renderer = FigureCanvasAgg(figure).get_renderer()
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    figure.set_layout_engine(None)
    for axes in figure.axes:
        locator = axes.get_axes_locator()  # that of a color bar
        axes.apply_aspect(locator(axes, renderer) if locator else None)


def card_panel(card: Card, names: Iterable[str]) -> tuple[str, int]:
    """The figure that goes on the card, and the number of its panel: by default the first panel of the first figure."""
    names = list(names)
    name, number = card if isinstance(card, tuple) else (card, 0)
    if name and name not in names:
        raise ValueError(f"card names the figure {name!r}, which draw does not return; it returns {', '.join(names)}")
    return name or names[0], number


def spread(count: int, most: int) -> np.ndarray:
    """At most this many numbers below `count`, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


@contextmanager
def drawing() -> Iterator[None]:
    """While the block lasts, this thread draws in the house style, with the same bytes each time, and no other thread
    draws."""
    from matplotlib import rc_context

    from dynascope.figures import HOUSE_STYLE

    settings: dict[Any, Any] = {**HOUSE_STYLE, "svg.hashsalt": "dynascope", "svg.fonttype": "path"}
    with _DRAWING, rc_context(settings):
        yield


def _keep_in_range(figure: Figure) -> None:
    """Cut logarithmic axes off if a diverged run would take them out of the range of floating-point numbers."""
    for axes in figure.axes:
        for axis, change in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            with np.errstate(over="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Data has no positive values")  # the panel says so: see below
                low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and not (low >= SMALLEST and high <= LARGEST):
                change(max(low, SMALLEST), min(high, LARGEST))


def _say_if_empty(figure: Figure) -> None:
    """Say in a panel why it shows nothing: no number is finite, or none is positive on a logarithmic axis."""
    for axes in figure.axes:
        if axes.has_data() and not axes.texts:
            limits = axes.dataLim
            least = [limits.minposx] * (axes.get_xscale() == "log") + [limits.minposy] * (axes.get_yscale() == "log")
            finite, visible = np.isfinite(limits.get_points()).all(), np.isfinite(least).all()
            if not (finite and visible):
                why = "no positive value" if finite else "no finite value"
                axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color="gray")
