"""Claims: sentences that a measurement could have refuted, and the statistics behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

Verdict = Literal["holds", "fails", "erratum"]


class Claim(BaseModel):
    """One falsifiable sentence, what was measured, what was expected, and the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    statement: str
    source: str
    measured: JsonValue
    expected: JsonValue
    verdict: Verdict
    seeds: int
    diagnosis: str = ""
    """Why it came out this way, where that needs an explanation: always for a claim that is known to fail."""


def claim(
    id: str,
    statement: str,
    *,
    source: str,
    measured: Any,
    expected: Any,
    holds: object,
    seeds: int = 1,
    diagnosis: str = "",
) -> Claim:
    """A claim that holds or fails."""
    return Claim(
        id=id,
        statement=statement,
        source=source,
        measured=plain(measured),
        expected=plain(expected),
        verdict="holds" if bool(holds) else "fails",
        seeds=int(seeds),
        diagnosis=diagnosis,
    )


def erratum(
    id: str,
    statement: str,
    *,
    source: str,
    measured: Any,
    expected: Any,
    refuted: object,
    seeds: int = 1,
    diagnosis: str = "",
) -> Claim:
    """Something printed that measurement or mathematics refutes. `statement` says what is wrong and what is right.
    Like any claim it fails when the counter-example does not come out."""
    made = claim(id, statement, source=source, measured=measured, expected=expected, holds=refuted, seeds=seeds,
                 diagnosis=diagnosis)  # fmt: skip
    return made.model_copy(update={"verdict": "erratum"}) if made.verdict == "holds" else made


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: arrays become lists, numbers keep six significant digits, NaN becomes a word."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    value = getattr(value, "values", value)  # of a labeled array
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else str(number)


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson score interval of a share (95 % by default)."""
    if trials <= 0:
        return 0.0, 1.0
    share = successes / trials
    center = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, center - half), min(1.0, center + half)


def share_of(outcomes: Iterable[Any]) -> dict[str, Any]:
    """How many of the outcomes are true: the share, its Wilson interval, and the counts, for `Claim.measured`."""
    values = [bool(outcome) for outcome in outcomes]
    low, high = wilson_interval(sum(values), len(values))
    share = sum(values) / len(values) if values else 0.0
    return {"share": round(share, 4), "interval": [round(low, 4), round(high, 4)], "of": len(values)}


def shares_agree(successes: int, trials: int, other_share: float, other_trials: int, z: float = 2.576) -> bool:
    """Whether two observed shares are compatible at 99 %: the score test of equal proportions."""
    pooled = (successes + other_share * other_trials) / (trials + other_trials)
    spread = math.sqrt(max(pooled * (1 - pooled), 0.25 / (trials + other_trials)) * (1 / trials + 1 / other_trials))
    return abs(successes / trials - other_share) <= z * spread
