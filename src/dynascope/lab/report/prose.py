"""Sentences of experiments as HTML: code, emphasis and simple formulas are rendered, everything else is escaped."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from dynascope.lab.report.interactive.texts import as_html
from dynascope.lab.report.interactive.unknown import UnknownArtist

CODE = re.compile(r"(`[^`\n]+(?:\n[^`\n]+)?`|(?<!\\)\$[^$\n]+\$)")
"""Text between backticks, over at most one line break; and formulas between dollar signs."""
STRONG = re.compile(r"\*\*(?=\S)([^*]+?)(?<=\S)\*\*")
EMPHASIS = re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])")
BELOW = re.compile(r"(?<![\w/.])([A-Za-zΑ-ω])_(?:\{([^{}]{1,12})\}|([A-Za-z0-9]{1,4})(?![\w(]))")
"""A letter with a subscript: λ_max, W_QK."""
ABOVE = re.compile(r"(?<=[\w)\]])\^(?:\{([^{}]{1,12})\}|([-−]?[A-Za-z0-9]+))")


def prose(text: str) -> Markup:
    """A text as HTML; HTML in it is escaped."""
    pieces = [_piece(piece) for piece in CODE.split(text)]
    return Markup("").join(pieces)


def plain(text: str) -> str:
    """A text without the marks of code and emphasis, for titles and alternative texts."""
    without = re.sub(r"`([^`\n]+)`", r"\1", text)
    return EMPHASIS.sub(r"\1", STRONG.sub(r"\1", without))


def _piece(piece: str) -> Markup:
    if len(piece) > 2 and piece[0] == piece[-1] == "`":
        return Markup("<code>{}</code>").format(" ".join(piece[1:-1].split()))
    if len(piece) > 2 and piece[0] == piece[-1] == "$":
        try:
            return Markup("<i>{}</i>").format(Markup(as_html(piece)))  # as_html escapes
        except UnknownArtist:
            return escape(piece)
    safe = str(escape(piece))
    for pattern, tag in ((STRONG, "strong"), (EMPHASIS, "em")):
        safe = pattern.sub(rf"<{tag}>\1</{tag}>", safe)
    safe = BELOW.sub(r"\1<sub>\2\3</sub>", safe)
    return Markup(ABOVE.sub(r"<sup>\1\2</sup>", safe))
