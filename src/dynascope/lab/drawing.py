"""An experiment's figures as files, in the house style: the same bytes for the same data."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_DRAWING = threading.Lock()  # matplotlib is not thread-safe
_KINDS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""The formats, and the metadata to leave out of each file so that its bytes do not depend on the date."""


def render_figures(draw: Callable[[], Mapping[str, Any]], card: Any = "") -> dict[str, bytes]:
    """The figures that `draw` makes, in the house style, as `figures/<name>.png` and `.svg`, in its order; and for the
    report in `figures/web/`, with the panel that goes on the `card`."""
    from matplotlib import pyplot

    from dynascope.figures.pictures import chosen_panel, keep_in_range

    files: dict[str, bytes] = {}
    with drawing():
        figures = draw()
        if not isinstance(figures, Mapping):
            raise TypeError(f"draw returned {type(figures).__name__}, not a dict of figures by name")
        try:
            chosen, panel = chosen_panel(card, figures) if figures else ("", 0)
            for name, figure in figures.items():
                if "/" in name or name.startswith("."):
                    raise ValueError(f"a figure's name is a file name without a leading dot; got {name!r}")
                keep_in_range(figure)
                for kind, metadata in _KINDS.items():
                    buffer = io.BytesIO()
                    figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
                    files[f"figures/{name}.{kind}"] = buffer.getvalue()
                web = _for_web(name, figure, name == next(iter(figures)), panel if name == chosen else None)
                files |= {f"figures/web/{file}": data for file, data in web.items()}
        finally:
            for figure in figures.values():
                pyplot.close(figure)
    return files


def _for_web(name: str, figure: Any, main: bool, panel: int | None) -> dict[str, bytes]:
    from dynascope.figures.pictures import web_files

    try:
        return web_files(name, figure, main=main, panel=panel)
    except Exception as error:  # a figure of a kind that we have not met must not cost the run
        warnings.warn(f"the figure {name!r} cannot be laid out for the report ({error}): its page shows the PNG")
        return {}


@contextmanager
def drawing() -> Iterator[None]:
    """While the block lasts, this thread draws in the house style, and no other thread draws."""
    with _DRAWING, house_style():
        yield


@contextmanager
def house_style() -> Iterator[None]:
    """The style of the figures, and what makes their bytes the same each time."""
    from matplotlib import rc_context

    from dynascope.figures import HOUSE_STYLE

    settings: dict[Any, Any] = {**HOUSE_STYLE, "svg.hashsalt": "dynascope", "svg.fonttype": "path"}
    with rc_context(settings):
        yield
