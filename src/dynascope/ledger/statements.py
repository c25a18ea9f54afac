"""The ledger: a row for each thing that a document asserts, with the claims that judge it or the reason why none does.

The rows stand in the TOML files beside this one, one file for each document or chapter:

    document = "Transformers learn through gradual rank increase"   # its title in experiments.documents
    part = ""                                                       # "Chapter 3", if the file is for one chapter
    covers = ["rank.*"]             # experiments whose every claim on record has a row; once all rows are there

    [[statement]]
    place = "Figure 2"              # as a reader would type it, with panels: "Figure 6b", "Theorem 4.1", "Section 5.2"
    kind = "figure"                 # one of KINDS
    printed = "..."                 # the assertion in the document's words, or in one sentence
    claims = ["rank.weights/main"]  # the claims that judge it as printed; "experiment-id/claim-id"
    instead = []                    # claims that say what is true instead, if it does not hold as printed
    errata = []                     # errata whose counter-example refutes it
    support = []                    # claims that check the measurement or say more than is printed, and do not judge it
    nothing_instead = ""            # why nothing is true instead, if a claim is known to fail and `instead` is empty
    not_judged = ""                 # the reason, if there are no claims and no errata

A claim that exists in one preset only is named `"experiment-id@preset/claim-id"`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal[
    "figure", "table", "theorem", "proposition", "corollary", "lemma", "equation", "remark", "setting", "text"
]
KINDS = get_args(Kind)
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One thing that a document asserts."""

    document: str
    """The title of the document."""
    place: str
    """The figure, table, theorem or section, such as `"Figure 6b"`."""
    kind: Kind
    """`"figure"`, `"theorem"` or another of `KINDS`."""
    printed: str
    """The assertion, in the document's words or in one sentence."""
    part: str = ""
    """The chapter, in a document whose chapters have their own file."""
    claims: tuple[str, ...] = ()
    """The claims that judge it as printed, each `experiment/claim`."""
    instead: tuple[str, ...] = ()
    """The claims that say what is true instead."""
    errata: tuple[str, ...] = ()
    """The errata whose counter-example refutes it."""
    support: tuple[str, ...] = ()
    """The claims that check its measurement or say more than it does; they do not judge it."""
    nothing_instead: str = ""
    """Why nothing is true instead, if it fails and no claim says what is."""
    not_judged: str = ""
    """The reason why nothing judges it."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Everything that speaks of it: claims, restated claims and errata."""
        return (*self.claims, *self.instead, *self.errata)

    @property
    def experiments(self) -> set[str]:
        """The ids of the experiments whose claims speak of it."""
        return {name.partition("/")[0].partition("@")[0] for name in (*self.judges, *self.support)}


@cache
def statements() -> tuple[Statement, ...]:
    """Every statement of the ledger, in the order of the documents.

    Returns:
        The statements of all files, each file in its own order.

    Raises:
        ValueError: If a row has an unknown or missing key, an unknown kind, or neither a judge nor a reason.
    """
    return tuple(row for path in sorted(HERE.glob("*.toml")) for row in _read(path))


def documents() -> tuple[str, ...]:
    """The titles of the documents that the ledger has rows of.

    Returns:
        Each title once.
    """
    return tuple(dict.fromkeys(row.document for row in statements()))


def _read(path: Path) -> Iterator[Statement]:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    head: dict[str, Any] = {"document": content["document"], "part": content.get("part", "")}
    for number, row in enumerate(content.get("statement", []), 1):
        yield _statement(row, head, f"{path.name}, statement {number}")


def _statement(row: dict[str, Any], head: dict[str, Any], where: str) -> Statement:
    known = {field.name for field in fields(Statement)}
    if unknown := sorted(row.keys() - known):
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; allowed: {', '.join(sorted(known))}")
    if missing := [key for key in ("place", "kind", "printed") if not row.get(key)]:
        raise ValueError(f"{where}: {missing[0]!r} is missing")
    if row["kind"] not in KINDS:
        raise ValueError(f"{where}: kind must be one of {', '.join(KINDS)}; got {row['kind']!r}")
    lists: dict[str, Any] = {key: tuple(row.get(key, ())) for key in ("claims", "instead", "errata", "support")}
    found = Statement(**head | row | lists)
    if bool(found.judges) == bool(found.not_judged):
        raise ValueError(f"{where} ({found.place}): give either claims or errata, or the reason in not_judged")
    return found
