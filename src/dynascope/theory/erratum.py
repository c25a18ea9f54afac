"""A statement that does not hold as printed, with the counter-example that shows it."""

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
