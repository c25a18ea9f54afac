"""Figures as the pages of a report show them: small files for a wide screen, a narrow one, and a card.

Figures have few colors, so 40 of them in a lossless WebP are a fifth of a PNG's bytes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynascope.figures.layout import alone, find_panels, stack

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure

Card = str | tuple[str, int]
"""The name of a figure, or that and the number of one of its panels."""
COLORS = 40
DPI = {"wide": 120, "narrow": 130, "card": 190}


def chosen_panel(card: Card, figures: Mapping[str, Figure]) -> tuple[str, int]:
    """The figure and the panel that go on the card: by default the first of the first."""
    name, number = card if isinstance(card, tuple) else (card, 0)
    name = name or next(iter(figures))
    if name not in figures:
        raise ValueError(f"card names the figure {name!r}, which draw does not return; it returns {', '.join(figures)}")
    count = len(find_panels(figures[name]))
    if count and not 0 <= number < count:
        raise ValueError(f"card names the panel {number} of the figure {name!r}, which has the panels 0 to {count - 1}")
    return name, number


def narrow(figure: Figure) -> bytes:
    """The panels in one column. Changes the figure."""
    stack(figure)
    return compressed(figure, DPI["narrow"])


def card(figure: Figure, number: int) -> bytes:
    """One panel alone. Changes the figure."""
    alone(figure, number)
    return compressed(figure, DPI["card"])


def compressed(figure: Figure, dpi: int, **options: Any) -> bytes:
    """A figure as a WebP of few colors."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, pil_kwargs={"compress_level": 1}, **options)
    picture = Image.open(buffer).convert("RGB")
    few = picture.quantize(COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).convert("RGB")
    out = io.BytesIO()
    few.save(out, format="WEBP", lossless=True, quality=70, method=4)
    return out.getvalue()
