"""Formulas of the pages as MathML, which browsers typeset without scripts, fonts or a network.

The pages write formulas in LaTeX, `$...$` in a line and `$$...$$` on lines of their own, as code hosts show them. The
builder marks each as an element of class `arithmatex`; `typeset` replaces these elements in a finished page. It knows
the part of LaTeX that the pages use. Anything else is an error, so that no formula is typeset in part.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Never

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ",
    "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ", "infty": "∞",
}  # fmt: skip
OPERATORS = {
    "cdot": "·", "times": "×", "odot": "⊙", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈", "sim": "∼", "propto": "∝",
    "in": "∈", "to": "→", "mapsto": "↦", "succeq": "⪰", "preceq": "⪯", "pm": "±", "nabla": "∇", "partial": "∂",
    "ldots": "…", "leftarrow": "←", "top": "⊤", "mid": "∣",
}  # fmt: skip
FENCES = {"lVert": "‖", "rVert": "‖", "lvert": "|", "rvert": "|", "langle": "⟨", "rangle": "⟩", "{": "{", "}": "}"}
LARGE = {"sum": "∑", "prod": "∏"}
NAMES = ("log", "ln", "exp", "sinh", "cosh", "tanh", "max", "min", "tr", "sign")
ACCENTS = {"hat": "^", "bar": "¯", "tilde": "~", "dot": "˙"}
SPACES = {",": "0.17em", ";": "0.28em", "quad": "1em", "qquad": "2em"}
ALPHABETS = {"mathbb": {"R": "ℝ", "E": "𝔼", "N": "ℕ"}, "mathcal": {"L": "ℒ", "M": "ℳ", "N": "𝒩", "O": "𝒪"}}
TOKEN = re.compile(r"\\(?:text|mathrm|mathbb|mathcal|begin|end)\{[^{}]*\}|\\(?:[A-Za-z]+|.)|\d+(?:[.,]\d+)*|\S")
"""A command, with the words in braces after it if they are not a formula; a number; any other character."""
NEW_LINE = "\\\\"
PRIMES = {1: "′", 2: "″", 3: "‴", 4: "⁗"}
ELEMENT = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)

CODE = re.compile(r"<(pre|code|script)\b.*?</\1>|<annotation.*?</annotation>", re.DOTALL)


class FormulaError(ValueError):
    """A formula that is not in the part of LaTeX that is known here."""


def typeset(page: str) -> str:
    """A page of HTML with its formulas as MathML.

    Args:
        page: The page as the builder writes it.

    Returns:
        The page with a `math` element for each element of class `arithmatex`.
    """

    def replace(found: re.Match[str]) -> str:
        latex = unescape(found[2]).strip()
        inner = re.fullmatch(r"\\[(\[](.*)\\[)\]]", latex, re.DOTALL)
        if inner is None:
            raise FormulaError(f"no formula: {latex}")
        return mathml(inner[1], display=found[1] == "div")

    typeset = ELEMENT.sub(replace, page)
    if lost := re.search(r"\$\$.{,60}", CODE.sub("", typeset), re.DOTALL):
        raise FormulaError(f"a formula that the builder has not seen (in a list, indent it by four): {lost[0]}")
    return typeset


def mathml(latex: str, *, display: bool = False) -> str:
    """A formula in LaTeX as a `math` element.

    Args:
        latex: The formula, without dollar signs.
        display: Whether it stands on a line of its own.

    Returns:
        The element, with the LaTeX as its annotation.
    """
    parser = _Parser(latex, display)
    body = parser.row()
    if parser.here:
        parser.fail("a closing bracket without an opening one")
    source = f'<annotation encoding="application/x-tex">{escape(latex.strip())}</annotation>'
    style = ' display="block"' if display else ""
    return f"<math{style}><semantics>{body}{source}</semantics></math>"


class _Parser:
    """Reads a formula from left to right."""

    def __init__(self, latex: str, display: bool) -> None:
        self.latex, self.display = latex, display
        self.tokens = TOKEN.findall(latex)
        self.place = 0

    @property
    def here(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def next(self) -> str:
        token = self.here
        self.place += 1
        return token

    def fail(self, why: str) -> Never:
        raise FormulaError(f"{why}: {self.latex.strip()}")

    def row(self, *ends: str) -> str:
        """What stands up to one of these tokens, or to the end."""
        parts = []
        while self.here and self.here not in ends and self.here != "}":
            parts.append(self.scripted())
        return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"

    def group(self) -> str:
        """An argument: what is in braces, or one symbol."""
        if self.here != "{":
            return self.atom()
        self.next()
        inner = self.row()
        if self.next() != "}":
            self.fail("a brace is not closed")
        return inner

    def scripted(self) -> str:
        """A symbol with what is above and below it."""
        limits = self.display and self.here[1:] in LARGE
        base, below, above, primes = self.atom(), "", "", 0
        while self.here in ("^", "_", "'"):
            mark = self.next()
            if mark == "'":
                primes += 1
            elif mark == "_":
                below = self.group()
            else:
                above = self.group()
        if primes:
            base = f'<mrow>{base}<mo lspace="0" rspace="0">{PRIMES[primes]}</mo></mrow>'  # fonts raise the sign already
        under, over = ("munder", "mover") if limits else ("msub", "msup")
        if below and above:
            return f"<{under}{over[1:]}>{base}{below}{above}</{under}{over[1:]}>"
        if below:
            return f"<{under}>{base}{below}</{under}>"
        return f"<{over}>{base}{above}</{over}>" if above else base

    def atom(self) -> str:
        token = self.here
        if token == "{":
            return self.group()
        self.next()
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isascii() and token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "()[]|":
            return f'<mo stretchy="false">{token}</mo>'
        if token in "+-=<>,.;:/!*∗":
            return f"<mo>{escape(token.replace('-', '−'))}</mo>"
        return self.fail(f"{token!r} is not known")

    def command(self, name: str) -> str:
        if name in GREEK:
            upright = ' mathvariant="normal"' if name[0].isupper() else ""
            return f"<mi{upright}>{GREEK[name]}</mi>"
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name in OPERATORS:
            return f"<mo>{OPERATORS[name]}</mo>"
        if name in FENCES:
            return f'<mo stretchy="false">{FENCES[name]}</mo>'
        if name in LARGE:
            return f"<mo>{LARGE[name]}</mo>"
        if name in NAMES:
            return f"<mi>{name}</mi><mo>&#8289;</mo>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.group()}<mo>{ACCENTS[name]}</mo></mover>'
        if name == "frac":
            return f"<mfrac>{self.group()}{self.group()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.group()}</msqrt>"
        if name == "left":
            return self.fenced()
        if name == "begin{aligned}":
            return self.table()
        word, _, letters = name.removesuffix("}").partition("{")
        if word in ("mathrm", "text"):
            return f"<mtext>{escape(letters)}</mtext>"
        if letters in ALPHABETS.get(word, ()):
            return f"<mi>{ALPHABETS[word][letters]}</mi>"
        return self.fail(f"\\{name} is not known")

    def fenced(self) -> str:
        opening = self.delimiter()
        inner = self.row("\\right")
        if self.next() != "\\right":
            self.fail("\\left has no \\right")
        return f"<mrow>{opening}{inner}{self.delimiter()}</mrow>"

    def delimiter(self) -> str:
        token = self.next().removeprefix("\\")
        return "" if token == "." else f'<mo stretchy="true" fence="true">{FENCES.get(token, token)}</mo>'

    def table(self) -> str:
        """Lines that are aligned at `&`."""
        end = "\\end{aligned}"
        rows: list[list[str]] = [[]]
        mark = "&"
        while mark != end:
            rows[-1].append(f"<mtd>{self.row('&', NEW_LINE, end)}</mtd>")
            mark = self.next()
            if mark == NEW_LINE:
                rows.append([])
            elif mark not in ("&", end):
                self.fail("aligned is not ended")
        lines = "".join(f"<mtr>{''.join(cells)}</mtr>" for cells in rows)
        return f'<mtable displaystyle="true" class="aligned">{lines}</mtable>'
