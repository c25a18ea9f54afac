"""The verdict of a statement, computed from the verdicts on record of the claims that judge it.

`record.json` holds those: for each claim, the verdict at every size at which it was judged, the largest size last. A
size is `quick`, another preset, or `full`, the document's own. `make evidence` writes it from the project's evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from dynascope.ledger.statements import HERE, Statement

Verdict = Literal["holds as printed", "holds in a weaker form", "does not hold", "not tried"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The verdicts of statements."""
RECORD = HERE / "record.json"


@dataclass(frozen=True)
class Judgment:
    """A claim that speaks of a statement, with its verdicts on record."""

    claim: str
    """Its name, `experiment/claim`."""
    role: str
    """`as printed`, `instead`, `erratum` or `support`."""
    sizes: Mapping[str, str]
    """Its verdict at every size on record, the largest last; empty if it was never judged."""

    @property
    def verdict(self) -> str:
        """The verdict at the largest size; "not on record" if there is none."""
        return list(self.sizes.values())[-1] if self.sizes else "not on record"

    @property
    def size(self) -> str:
        """The largest size at which it was judged."""
        return list(self.sizes)[-1] if self.sizes else ""

    @property
    def is_divided(self) -> bool:
        """Whether sizes disagree."""
        return len(set(self.sizes.values())) > 1


def judgments(row: Statement) -> tuple[Judgment, ...]:
    """Everything that speaks of a statement: what judges it as printed, what holds instead, errata, support.

    Args:
        row: The statement.

    Returns:
        The claims with their verdicts on record, by role.
    """
    return (
        *_judgments(row.claims, "as printed"),
        *_judgments(row.errata, "erratum"),
        *_judgments(row.instead, "instead"),
        *_judgments(row.support, "support"),
    )


def verdict(row: Statement) -> Verdict:
    """The verdict of a statement as it is printed.

    It does not hold if one of its claims fails or an erratum refutes it, each at the largest size on record; if all
    claims that are made instead hold, it holds in a weaker form. So does one that nothing judges as printed. It was not
    tried if a claim that judges it never ran.

    Args:
        row: The statement.

    Returns:
        One of `VERDICTS`.
    """
    found = judgments(row)
    judges = [claim for claim in found if claim.role in ("as printed", "erratum")]
    instead = [claim.verdict == "holds" for claim in found if claim.role == "instead"]
    refuted = any(claim.verdict == ("fails" if claim.role == "as printed" else "erratum") for claim in judges)
    if refuted or not judges:
        if instead and all(instead):
            return "holds in a weaker form"
        return "does not hold" if refuted else "not tried"
    return "holds as printed" if all(claim.verdict == "holds" for claim in judges) else "not tried"


@cache
def record() -> dict[str, dict[str, str]]:
    """The verdicts on record: for each claim, by size, the largest last."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def _judgments(names: Iterable[str], role: str) -> Iterable[Judgment]:
    for name in names:
        experiment, _, claim = name.partition("/")
        id, _, preset = experiment.partition("@")
        sizes = record().get(f"{id}/{claim}", {})
        yield Judgment(name, role, {size: found for size, found in sizes.items() if preset in ("", size)})
