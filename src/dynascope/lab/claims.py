"""Claims: sentences that a measurement could have refuted, and the statistics behind them.

Most claims are made by the functions of `lab.criteria`, in which one threshold gives the verdict, the expected and the
measured value. `claim` is for those that fit none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue

Verdict = Literal["holds", "fails", "erratum"]
Kind = Literal["error", "gap", "misprint", "program"]
"""`error`: a statement that is false as meant. `gap`: a step of a proof that fails while its result stands. `misprint`:
a slip that the document repairs elsewhere, or that harms nothing. `program`: a finding on the authors' published
program."""
LONGEST = 16
"""The most labels under which the values of a labeled array are written out."""


def flowed(text: str) -> str:
    """The text with single spaces for line breaks and indentation, as strings over several lines of code have them."""
    return " ".join(text.split())


Sentence = Annotated[str, AfterValidator(flowed)]


class Claim(BaseModel):
    """One falsifiable sentence, the measured and the expected value, and the verdict.

    Made by the functions of `lab.criteria`, by `claim` or by `erratum`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Its name within the experiment."""
    statement: Sentence
    """The sentence that is judged."""
    source: str
    """The place in the document; the lab fills in the experiment's."""
    measured: JsonValue
    """The measured number, numbers by name, or list of numbers."""
    expected: JsonValue
    """The number or text with which it is compared."""
    verdict: Verdict
    """`holds`, `fails` or `erratum`."""
    seeds: int
    """The number of random repetitions behind it; the lab fills in the experiment's."""
    post_hoc: Sentence = ""
    """The threshold, setting or statistic that was chosen after seeing results, and why."""
    known: Sentence = ""
    """Why the claim fails, if that is on record in the experiment's `known_failures`."""
    kind: Kind | None = None
    """The kind of an erratum; None for other claims."""
    printed: str = ""
    """The words of the document that the claim judges, or that an erratum refutes."""

    @property
    def is_news(self) -> bool:
        """Whether the verdict differs from the record: it fails and is not known to, or is known to fail and holds."""
        return (self.verdict == "fails") != bool(self.known)

    @property
    def mark(self) -> str:
        """The mark of the claim on pages: `news` if its verdict differs from the record, `known` if it fails as
        recorded, else its verdict."""
        if self.is_news:
            return "news"
        return "known" if self.verdict == "fails" else self.verdict


def claim(
    id: str,
    statement: str,
    *,
    measured: object,
    expected: object,
    holds: object,
    source: str = "",
    seeds: int = 0,
    post_hoc: str = "",
    printed: str = "",
    shown: Mapping[str, object] | None = None,
) -> Claim:
    """A claim that holds or fails.

    Args:
        id: A short name, unique in the experiment, such as `"signal-first"`.
        statement: The sentence that is judged.
        measured: The number, array (labeled or not) or mapping that was measured. Numbers keep six significant digits.
        expected: The number or text to compare it with, such as `"> 0.9"`.
        holds: The verdict: whether the statement is true.
        source: The place in the document. Default: the experiment's.
        seeds: The number of random repetitions behind it. Default: the experiment's.
        post_hoc: The threshold, setting or statistic that was chosen after seeing results, and why.
        printed: The words of the document that the claim judges, if it judges them as they stand.
        shown: Further numbers by name, added to `measured` for the reader.
    """
    numbers = plain(measured)
    if shown:
        numbers = {**(numbers if isinstance(numbers, dict) else {"measured": numbers}), **plain(dict(shown))}
    return Claim(
        id=id,
        statement=statement,
        source=source,
        measured=numbers,
        expected=plain(expected),
        verdict="holds" if bool(holds) else "fails",
        seeds=int(seeds),
        post_hoc=post_hoc,
        printed=flowed(printed),
    )


def erratum(counter: Claim, *, kind: Kind, printed: str, at: str) -> Claim:
    """The claim that something printed is refuted by measurement or mathematics, from the claim that is its
    counter-example. Its verdict is `"erratum"` if the counter-example holds and `"fails"` otherwise.

    Args:
        counter: The counter-example; its statement says what is wrong, and what is right instead.
        kind: `"error"`, `"gap"`, `"misprint"` or `"program"`.
        printed: The words of the document.
        at: The place of these words: a page, section or equation, or a file of the published program.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}")
    verdict = "erratum" if counter.verdict == "holds" else "fails"
    return counter.model_copy(update={"verdict": verdict, "kind": kind, "printed": printed, "source": at})


def plain(value: Any) -> Any:
    """The value as JSON can hold it: arrays become lists, short labeled ones mappings (except over seeds), numbers keep
    six significant digits, NaN becomes a word."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    dims = getattr(value, "dims", ())
    if len(dims) == 1 and dims[0] != "seed" and dims[0] in value.coords and 1 < value.size <= LONGEST:
        labels = [label if isinstance(label, str) else f"{label:g}" for label in value[dims[0]].values.tolist()]
        return dict(zip(labels, plain(value.values), strict=True))
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
    """The Wilson score interval of a share, between 0 and 1; (0, 1) without trials.

    At 95 % it covers that often on average over all shares, and at least 82 % of the time for any one: the fewest for
    shares so near 0 or 1 that the rarer outcome is mostly not seen at all.

    Args:
        successes: The number of successes.
        trials: The number of trials.
        z: The quantile of the normal distribution. Default: 1.96, for 95 %.
    """
    if trials <= 0:
        return 0.0, 1.0
    share = successes / trials
    center = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, center - half), min(1.0, center + half)


def share_of(outcomes: Iterable[object]) -> dict[str, JsonValue]:
    """The share of outcomes that are true, as a claim's `measured` holds it: `share`, its 95 % Wilson `interval`, and
    `of`, the number of outcomes.

    Args:
        outcomes: Booleans, or values taken as such.
    """
    values = [bool(outcome) for outcome in outcomes]
    low, high = wilson_interval(sum(values), len(values))
    share = sum(values) / len(values) if values else 0.0
    return {"share": round(share, 4), "interval": [round(low, 4), round(high, 4)], "of": len(values)}


def shares_agree(successes: int, trials: int, other_share: float, other_trials: int, z: float = 2.576) -> bool:
    """Whether two observed shares differ by at most `z` standard errors: the score test of equal proportions.

    Args:
        successes: Successes of the first sample.
        trials: Size of the first sample.
        other_share: Share of successes in the second sample, from 0 to 1.
        other_trials: Size of the second sample.
        z: The quantile of the normal distribution. Default: 2.576, for 99 %.
    """
    pooled = (successes + other_share * other_trials) / (trials + other_trials)
    spread = math.sqrt(max(pooled * (1 - pooled), 0.25 / (trials + other_trials)) * (1 / trials + 1 / other_trials))
    return abs(successes / trials - other_share) <= z * spread
