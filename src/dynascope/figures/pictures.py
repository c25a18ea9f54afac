"""Figures as the pages of a report show them: small files for a wide screen, a narrow one, and a card.

Figures have few colors, so 20 of them in a lossless WebP are a fraction of a PNG's bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dynascope.figures.interactive import UnknownArtist, plotly_figure
from dynascope.figures.layout import alone, find_panels, stack

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure
    from PIL import Image

Card = str | tuple[str, int]
"""The name of a figure, or that and the number of one of its panels."""
FEW, MANY = 16, 48
"""The colors of a picture: many, where few would change them by more than `SEEN`, a mean over its pixels."""
SEEN = 4.0
SMALLEST, LARGEST = 1e-200, 1e200
"""The range of a logarithmic axis: a tick may lie many decades beyond it, and has to be a number."""
DPI = {"wide": 105, "narrow": 108, "card": 165}


def chosen_panel(card: Card, figures: Mapping[str, Figure]) -> tuple[str, int]:
    """The figure and the panel that go on the card: by default the first of the first. Where the settings leave fewer
    panels, the last one."""
    name, number = card if isinstance(card, tuple) else (card, 0)
    name = name or next(iter(figures))
    if name not in figures:
        raise ValueError(f"card names the figure {name!r}, which draw does not return; it returns {', '.join(figures)}")
    return name, min(number, max(0, len(find_panels(figures[name])) - 1))


def keep_in_range(figure: Figure) -> None:
    """Cut logarithmic axes off where a diverged run would take them out of the range of floating-point numbers."""
    for axes in figure.axes:
        for axis, change in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
            with np.errstate(over="ignore"):
                low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and not (low >= SMALLEST and high <= LARGEST):
                change(max(low, SMALLEST), min(high, LARGEST))


def web_files(name: str, figure: Figure, *, main: bool, panel: int | None) -> dict[str, bytes]:
    """The files of one figure for the web: the interactive version of the `main` one, and the card where a `panel`
    goes on it. The figure is laid out again, so save it first."""
    figure.set_layout_engine("none")  # it is laid out, and need not be again
    files = {f"{name}.wide.webp": compressed(figure, DPI["wide"], bbox_inches="tight")}
    if main:
        with suppress(UnknownArtist):  # the page keeps the still
            shown = json.dumps(plotly_figure(figure), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            files[f"{name}.plotly.json"] = shown.encode()
    if find_panels(figure):
        stack(figure)
        files[f"{name}.narrow.webp"] = compressed(figure, DPI["narrow"])
        if panel is not None:
            alone(figure, panel)
            files[f"{name}.card.webp"] = compressed(figure, DPI["card"])
    return files


def compressed(figure: Figure, dpi: int, **options: Any) -> bytes:
    """A figure as a WebP of few colors."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, pil_kwargs={"compress_level": 1}, **options)
    picture = Image.open(buffer).convert("RGB")
    few = _with_colors(picture, FEW)
    if np.abs(np.asarray(picture, np.int16) - np.asarray(few, np.int16)).max(-1).mean() > SEEN:
        few = _with_colors(picture, MANY)
    out = io.BytesIO()
    few.save(out, format="WEBP", lossless=True, quality=100, method=4)  # 6: fifty times as long for 1 % fewer bytes
    return out.getvalue()


def _with_colors(picture: Image.Image, count: int) -> Image.Image:
    from PIL import Image

    return picture.quantize(count, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).convert("RGB")
