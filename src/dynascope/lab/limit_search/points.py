"""Points of a search: the outcomes of the seeds at a point, as one number that is positive if the claim holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynascope.lab.claims import wilson_interval
from dynascope.lab.limit_search.claim_names import MAIN
from dynascope.lab.limit_search.margin import is_step, margin_of
from dynascope.lab.limit_search.question import Values

GAP, NOT_JUDGED = "gap", "not judged"


@dataclass(frozen=True)
class Outcome:
    """The outcome of the claim in one run."""

    verdict: str
    """`holds`, `fails` or `erratum`; `gap` if the run did not finish, `not judged` if it does not make the claim."""
    margin: float | None = None
    smooth: bool = False
    """Whether a limit can be looked for at the zero of the margin."""

    @property
    def holds(self) -> bool | None:
        """Whether the claim holds; None if it was not judged."""
        return None if self.verdict in (GAP, NOT_JUDGED) else self.verdict != "fails"


def outcome_of(claims: Sequence[Mapping[str, object]], claim: str) -> Outcome:
    """The outcome of one claim, from the claims of a run as plain values.

    Args:
        claims: The claims, the main one first.
        claim: The id of a claim, or `main`.
    """
    for made in claims[:1] if claim == MAIN else [made for made in claims if made["id"] == claim]:
        margin = margin_of(made)
        return Outcome(str(made["verdict"]), margin, margin is not None and not is_step(made))
    return Outcome(NOT_JUDGED)


@dataclass
class Point:
    """A setting and the outcomes of its seeds 0, 1, ..."""

    values: Values
    place: tuple[float, ...]
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def judged(self) -> list[bool]:
        """Whether the claim holds, of the seeds at which it was judged."""
        return [outcome.holds for outcome in self.outcomes if outcome.holds is not None]

    @property
    def share(self) -> float:
        """The share of seeds in which the claim holds; NaN if none was judged."""
        return sum(self.judged) / len(self.judged) if self.judged else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of the share."""
        return wilson_interval(sum(self.judged), len(self.judged))

    @property
    def margin(self) -> float:
        """The median margin over seeds; NaN if a seed that was judged has none."""
        found = [outcome.margin for outcome in self.outcomes if outcome.holds is not None]
        known = [margin for margin in found if margin is not None]
        return float(np.median(known)) if known and len(known) == len(found) else math.nan

    @property
    def smooth(self) -> bool:
        """Whether a limit can be looked for at the zero of the margin."""
        return bool(self.judged) and all(outcome.smooth for outcome in self.outcomes if outcome.holds is not None)

    @property
    def disagree(self) -> bool:
        """Whether seeds have different verdicts."""
        return 0 < self.share < 1

    @property
    def holds(self) -> bool | None:
        """Whether it holds in most seeds, or by the median margin if in half of them; None if none was judged."""
        if not self.judged:
            return None
        return self.share > 0.5 or (self.share == 0.5 and self.margin > 0)

    @property
    def value(self) -> float:
        """The margin if it agrees with the verdict of most seeds, else 1 or -1; 0 if none was judged."""
        if self.holds is None:
            return 0.0
        sign = 1.0 if self.holds else -1.0
        return self.margin if self.margin * sign > 0 else sign
