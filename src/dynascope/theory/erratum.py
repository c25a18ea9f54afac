"""The old form of errata. It goes: this file is deleted once catapult and linearity no longer import it.

The new form (see theory/edge/errata.py and experiments/edge/errata.py): a function of `theory/<system>/errata.py` returns
the numbers of one counter-example, a plain `dict[str, float]` whose keys are identifiers; no verdict, no printed words.
`measure` of the experiment collects them as a tree, `xr.DataTree.from_dict({id: xr.Dataset(function())})`; `judge` says
what is printed, where, and of which kind: `erratum(criterion(id, statement, number, limit), kind=..., printed=..., at=...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Evidence(NamedTuple):
    """The numbers of a counter-example, and whether they refute what is printed."""

    numbers: Mapping[str, float]
    refutes: bool


class Erratum(NamedTuple):
    """A statement that does not hold as printed."""

    id: str
    where: str
    printed: str
    holds: str
    evidence: Callable[[], Evidence]
