"""Figures as small files: WebP for wide and narrow screens and for cards, and the data of the interactive version.

Figures have few colors, so 16 of them in a lossless WebP are a fraction of a PNG's bytes.
"""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from dynascope.lab.report.interactive.convert import plotly_figure
from dynascope.lab.report.interactive.unknown import UnknownArtist
from dynascope.lab.report.layout import alone, find_panels, stack

FEW, MANY = 16, 48
"""The colors of a picture: many, if few would change them by more than `SEEN`, a mean over its pixels."""
SEEN = 4.0
NARROW_DPI, CARD_DPI = 108, 165


def wide(png: Path) -> bytes:
    """The stored PNG of a figure, converted to a small file."""
    with Image.open(png) as image:
        return _compress(image.convert("RGB"))


def small_files(figure: Figure, panel: int | None) -> dict[str, bytes]:
    """The pictures of a figure for narrow screens and, if there is a `panel`, for the card, by their endings. The
    figure is laid out again."""
    files: dict[str, bytes] = {}
    if find_panels(figure):
        figure.dpi = NARROW_DPI  # measured and drawn in the same pixels, a formula is set once
        stack(figure)
        files["narrow.webp"] = _draw(figure)
        if panel is not None:
            figure.dpi = CARD_DPI
            alone(figure, panel)
            files["card.webp"] = _draw(figure)
    return files


def interactive_script(figure: Figure) -> str | None:
    """A script that holds the interactive version of a figure: the property `figure` of its element. None if the figure
    cannot be converted: the page keeps the still image."""
    with suppress(UnknownArtist):
        data = json.dumps(plotly_figure(figure), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return f"document.currentScript.figure = {data};\n"
    return None


def _draw(figure: Figure) -> bytes:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return _compress(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))


def _compress(picture: Image.Image) -> bytes:
    """A picture as a lossless WebP of few colors."""
    few = _quantize(picture, FEW)
    if np.abs(np.asarray(picture, np.int16) - np.asarray(few, np.int16)).max(-1).mean() > SEEN:
        few = _quantize(picture, MANY)
    file = io.BytesIO()
    few.save(file, format="WEBP", lossless=True, quality=75, method=4)  # 100: twice as long for 3 % fewer bytes
    return file.getvalue()


def _quantize(picture: Image.Image, colors: int) -> Image.Image:
    return picture.quantize(colors, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).convert("RGB")
