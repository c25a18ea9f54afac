"""Places in documents, such as "Figures 4.2, C.2-C.4", and the statements and experiments on one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from dynascope.lab.entry import Entry
from dynascope.ledger import Statement, statements


def experiments_on(place: str, entries: Iterable[Entry]) -> list[Entry]:
    """The entries whose source names a place such as "Figure 5" (also as part of "Figures 4-6", or by its panel 5a)."""
    return [entry for entry in entries if is_on(place, entry.place)]


def statements_on(place: str) -> list[Statement]:
    """The statements of the ledger at a place; if the text is no label such as "Figure 5", those whose place contains
    it. For a section that has no row of its own in a document, those whose numbers begin with its: Lemma A.2.1 is in
    Appendix A.2."""
    found = [row for row in statements() if is_on(place, row.place) or _contains(row.place, place)]
    there = {row.document for row in found}
    inside = [row for row in statements() if row.document not in there and _is_inside(row.place, place)]
    return [*found, *inside]


def is_on(wanted: str, place: str) -> bool:
    """Whether a place includes the wanted one, or is a panel or a part of it: 5a is on 5, and 4.2.1 on 4.2."""
    there = _labels(place)
    return any(_overlap(found, asked) for asked in _labels(wanted) for found in there)


@cache
def _labels(place: str) -> frozenset[tuple[str, str]]:
    """Its places; labels alone are those of figures, or, in parentheses, of equations."""
    bare = not re.search(r"[A-Za-z]{2}|§", place)
    return places_in(f"{'Equation' if '(' in place else 'Figure'} {place}" if bare else place)


def _is_inside(place: str, wanted: str) -> bool:
    sections = [label for kind, label in _labels(wanted) if kind == "section"]
    return any(label.startswith(f"{section}.") for section in sections for _, label in _labels(place))


def _contains(place: str, wanted: str) -> bool:
    return not _labels(wanted) and len(wanted) > 3 and wanted.casefold() in place.casefold()


def _overlap(found: tuple[str, str], asked: tuple[str, str]) -> bool:
    (kind, one), (other, two) = found, asked
    if kind != other:
        return False
    part = re.fullmatch(r"(\.\d+)+", one.removeprefix(two)) if kind == "section" and one.startswith(two) else None
    return one == two or part is not None or _is_panel(one, two) or _is_panel(two, one)


def _is_panel(one: str, of: str) -> bool:
    return one[:-1] == of and one[-1].islower()


_LABEL = r"(?:[A-Z]?\.?\d+(?:\.\d+)*[a-z]?|[A-Z]\b|[a-z]\b)"
_JOIN = r", and |, | and |-|–| to "
_JOINED = re.compile(rf"([A-Za-z]+?)s?\.? ((?:{_LABEL})(?:(?:{_JOIN})(?:{_LABEL}))*)")
_SHORT = {
    "alg": "algorithm",
    "app": "section",
    "appendice": "section",
    "appendix": "section",
    "cor": "corollary",
    "corollarie": "corollary",
    "def": "definition",
    "eq": "equation",
    "fig": "figure",
    "prop": "proposition",
    "sec": "section",
    "tab": "table",
    "thm": "theorem",
}


@cache
def places_in(text: str) -> frozenset[tuple[str, str]]:
    """The places a text names, as (kind, label): "Figures 4.2, C.2-C.4" names four figures, "Fig. 2 (b)" a panel. An
    appendix is a section."""
    places: set[tuple[str, str]] = set()
    text = re.sub(r"(?<=\d) ?\(([a-z])\)", r"\1", text.replace("§", "section ").replace("  ", " "))
    for word, labels in _JOINED.findall(_EQUATIONS.sub(_without_parentheses, text)):
        kind, last = str(word).lower(), ""
        kind = _SHORT.get(kind, kind)
        for join, label in re.findall(rf"({_JOIN}|^)({_LABEL})", labels):
            if re.fullmatch("[a-z]", label):  # a further panel, as in 5a and b
                places |= {(kind, f"{last.rstrip(_LETTERS)}{panel}") for panel in _panels(join, last, label)}
                continue
            places.add((kind, label))
            head, low = _split_number(last)
            other, high = _split_number(label)
            if join in ("-", "–", " to ") and head == other and low is not None and high is not None:
                places |= {(kind, f"{head}{number}") for number in range(low, high)}
            last = label
    return frozenset((kind, label) for kind, label in places if not re.fullmatch("[a-z]", label))


_NUMBER = r"\([A-Z]?\.?\d[\d.]*[a-z]?\)"
_EQUATIONS = re.compile(rf"(\b[Ee]q(?:uation)?s?\.? )?({_NUMBER}(?:(?:{_JOIN}){_NUMBER})*)")


def _without_parentheses(found: re.Match[str]) -> str:
    """Numbers in parentheses as those of equations: "(4.6)" is Equation 4.6, whatever comes before it."""
    return f"{found[1] or 'equation '}{re.sub('[()]', '', found[2])}"


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _panels(join: str, last: str, label: str) -> str:
    """The panels that "b" adds after "5a": all those between, if they are joined by a dash."""
    first = last[-1:] if join in ("-", "–", " to ") and last[-1:] in _LETTERS else label
    return _LETTERS[_LETTERS.index(first or label) : _LETTERS.index(label) + 1]


def _split_number(label: str) -> tuple[str, int | None]:
    """A label as its beginning and its last number: C.12 is ("C.", 12)."""
    parts = re.fullmatch(r"(.*?)(\d+)[a-z]?", label)
    return (parts[1], int(parts[2])) if parts else (label, None)
