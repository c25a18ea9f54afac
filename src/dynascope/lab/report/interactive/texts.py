"""Texts of a figure in the HTML that Plotly reads, with simple formulas as symbols, subscripts and superscripts."""

from __future__ import annotations

import html
import re

from dynascope.lab.report.interactive.unknown import UnknownArtist

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω",
    "Delta": "Δ", "Sigma": "Σ", "times": "×", "cdot": "·", "infty": "∞", "leq": "≤", "geq": "≥", "approx": "≈",
    "pm": "±", "sqrt": "√", "mathdefault": "", "mathrm": "", "mathbf": "", "mathit": "",
}  # fmt: skip


def as_html(text: str) -> str:
    """A text of matplotlib in HTML. An `UnknownArtist` for a formula with other commands than symbols."""
    pieces = re.split(r"(?<!\\)\$", text)
    if len(pieces) % 2 == 0:  # a lone dollar sign
        pieces = [text]
    written = [
        _formula(piece) if number % 2 else html.escape(piece, quote=False) for number, piece in enumerate(pieces)
    ]
    return "".join(written).replace(r"\$", "$").replace("\n", "<br>")


def _formula(source: str) -> str:
    def symbol(match: re.Match[str]) -> str:
        if match[1] not in SYMBOLS:
            raise UnknownArtist(f"a formula with \\{match[1]}: {source!r}")
        return SYMBOLS[match[1]]

    text = re.sub(r"\\([A-Za-z]+)\s*", symbol, html.escape(source, quote=False)).replace("-", "−")
    for mark, tag in (("_", "sub"), ("^", "sup")):
        text = re.sub(re.escape(mark) + r"(?:\{([^{}]*)\}|(.))", rf"<{tag}>\1\2</{tag}>", text)
    return text.replace("{", "").replace("}", "")
