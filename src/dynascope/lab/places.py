"""Places in documents, such as "Figures 4.2, C.2-C.4", and the experiments on one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dynascope.lab.entry import Entry
from dynascope.lab.errors import UsageError


def experiments_on(place: str, entries: Iterable[Entry]) -> list[Entry]:
    """The entries whose source names a place such as "Figure 5" (also as part of "Figures 4-6", or by its panel 5a)."""
    wanted = places_in(place if re.match(r"[A-Za-z]+\.? *[A-Z]?[.\d]", place) else f"Figure {place}")
    if not wanted:
        raise UsageError(f"--figure must be a place in a document, such as 'Figure 5' or 'Theorem 4.1'; got {place!r}")
    panels = [(kind, re.compile(re.escape(label) + "[a-z]?")) for kind, label in wanted]
    hits = [
        entry
        for entry in entries
        if any(
            kind == other and label.fullmatch(name) for kind, label in panels for other, name in places_in(entry.place)
        )
    ]
    if not hits:
        raise UsageError(f"no experiment is on {place!r}; `dynascope list` shows the source of each")
    return hits


_LABEL = r"(?:[A-Z]?\.?\d+(?:\.\d+)*[a-z]?|[A-Z]\b)"
_JOINED = re.compile(rf"([A-Za-z]+?)s? ((?:{_LABEL})(?:(?:, | and |, and |-|–| to )(?:{_LABEL}))*)")


def places_in(text: str) -> set[tuple[str, str]]:
    """The places a text names, as (kind, label): "Figures 4.2, C.2-C.4" names four figures."""
    places: set[tuple[str, str]] = set()
    for word, labels in _JOINED.findall(text):
        kind, last = word.lower().replace("appendice", "appendix"), ""
        for join, label in re.findall(rf"(, and |, | and |-|–| to |^)({_LABEL})", labels):
            places.add((kind, label))
            head, low = _split_number(last)
            other, high = _split_number(label)
            if join in ("-", "–", " to ") and head == other and low is not None and high is not None:
                places |= {(kind, f"{head}{number}") for number in range(low, high)}
            last = label
    return places


def _split_number(label: str) -> tuple[str, int | None]:
    """A label as its beginning and its last number: C.12 is ("C.", 12)."""
    parts = re.fullmatch(r"(.*?)(\d+)[a-z]?", label)
    return (parts[1], int(parts[2])) if parts else (label, None)
