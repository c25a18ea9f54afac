"""The question about a claim: the ranges, the number of runs, and the setting of every run; checked first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path

from dynascope.checks import whole
from dynascope.lab.arguments import by_field, check_flags, check_text, experiment_class, store_of
from dynascope.lab.errors import UsageError
from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import build, shown
from dynascope.lab.limit_search.claim_names import check_claim
from dynascope.lab.limit_search.ranges import Range, Span, parse_range
from dynascope.lab.setting import Setting, format_command, set_options
from dynascope.lab.store import Store

MOST_FIELDS = 4
"""The corners of the ranges come first: 2 to the number of fields."""
MOST = 100_000
"""The most runs, and the most seeds or places at once."""
Values = tuple[float | int, ...]
"""The values of the fields at a point, in the order of the ranges."""


@dataclass(frozen=True)
class Effort:
    """How much is spent on the answer."""

    runs: int = 300
    """The most runs."""
    seeds: int = 3
    """The most seeds at a point. Two are run first, and the others if these disagree."""
    resolution: float = 0.01
    """How near the limit is to be known, as a share of each range; it is looked for no closer."""
    round: int = 4
    """The number of points that are placed, and run side by side, before the next ones are chosen."""

    def __post_init__(self) -> None:
        for name, value in (("points", self.runs), ("seeds", self.seeds), ("at_once", self.round)):
            if whole(name, value, at_least=1) > MOST:
                raise UsageError(f"{name} must be at most {MOST:,}; got {value:,}")
        if not isinstance(self.resolution, Real) or not 0 < self.resolution < 1:
            raise UsageError(
                f"resolution must be a share of the range, above 0 and below 1; got {shown(self.resolution)}"
            )


@dataclass(frozen=True)
class Question:
    """A question: at which values in some ranges does a claim stop being true? `ask` makes and checks one."""

    kind: type[Experiment]
    claim: str
    ranges: tuple[Range, ...]
    base: Mapping[str, object]
    preset: str | None
    control: bool
    effort: Effort
    store: Store

    @property
    def default(self) -> Setting:
        """The setting whose changes are looked at."""
        return self.setting((), 0)

    def setting(self, values: Values, seed: int) -> Setting:
        """The setting of a run at a point; without values that of the default."""
        fields = dict(self.base)
        if values:
            known = self._plain
            for span, value in zip(self.ranges, values, strict=True):
                fields[span.field] = known[span.field] = span.change(known, value)
        options = {"preset": self.preset, "control": self.control}
        return Setting.parse(self.kind, **options, changes=fields, seed=seed, sweep=True)

    def values(self, place: tuple[float, ...]) -> Values:
        """The values of the fields at a place."""
        return tuple(span.value(at) for span, at in zip(self.ranges, place, strict=True))

    def place(self, values: Values) -> tuple[float, ...]:
        """The coordinates of values."""
        return tuple(span.coordinate(value) for span, value in zip(self.ranges, values, strict=True))

    @property
    def start(self) -> Values | None:
        """The values that the default setting has; None if one of them is not a number."""
        found = [span.current(self._plain) for span in self.ranges]
        return None if None in found else tuple(value for value in found if value is not None)

    @cached_property
    def _fields(self) -> dict[str, object]:
        return build(self.kind, self.base, self.preset, self.control).model_dump(mode="json")

    @property
    def _plain(self) -> dict[str, object]:
        """The fields of the default setting in plain values, a copy."""
        return dict(self._fields)

    @property
    def plain(self) -> dict[str, object]:
        """The question in plain values: its result is stored under the digest of this."""
        effort = {"points": self.effort.runs, "seeds": self.effort.seeds, "resolution": self.effort.resolution}
        about = {"id": self.kind.id, "claim": self.claim, "over": [span.text for span in self.ranges]}
        setting = {"fields": dict(self.base), "preset": self.preset, "control": self.control}
        return {**about, **setting, **effort, "at_once": self.effort.round}

    @property
    def command(self) -> str:
        """The command that repeats it."""
        standard, effort = Effort(), self.effort
        options = [] if self.claim == "main" else [("--claim", self.claim)]
        options += [("--over", span.text) for span in self.ranges]
        for name, value, usual in (
            ("--points", effort.runs, standard.runs),
            ("--seeds", effort.seeds, standard.seeds),
            ("--resolution", effort.resolution, standard.resolution),
            ("--at-once", effort.round, standard.round),
        ):
            options += [(name, f"{value:g}" if isinstance(value, float) else str(value))] if value != usual else []
        return format_command(self.kind, "limits", self.preset, self.control, [*options, *set_options(self.base)])


def ask(
    kind: type[Experiment] | str,
    over: Mapping[str, Span],
    *,
    claim: str = "main",
    base: Mapping[str, object] | None = None,
    preset: str | None = None,
    control: bool = False,
    effort: Effort | None = None,
    store: Store | Path | str | None = None,
) -> Question:
    """The question, checked: its fields, ranges and claim exist, and the experiment takes every corner of the ranges.

    Args:
        kind: The experiment, its class or its id.
        over: The range of each field.
        claim: The id of a claim, or `main`.
        base: Values of other fields.
        preset: A preset of the experiment; its defaults if None.
        control: Whether to apply the control on top of the preset.
        effort: How much is spent on it.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.

    Raises:
        UsageError: One line on what is wrong.
    """
    kind, base = experiment_class(kind), by_field("base", base, "a value")
    check_text(claim=claim, preset="" if preset is None else preset)
    check_flags(control=control)
    experiment, over = build(kind, base, preset, control), by_field("over", over, "a range")
    if not over:
        raise UsageError("over must name at least one field")
    if len(over) > MOST_FIELDS:
        raise UsageError(f"over takes at most {MOST_FIELDS} fields; got {len(over)}")
    ranges = tuple(parse_range(experiment, name, span) for name, span in over.items())
    if double := {span.field for span in ranges if span.item is None} & base.keys():
        raise UsageError(f"{sorted(double)[0]} is given by a range and by a value")
    check_claim(kind, claim)
    question = Question(kind, claim, ranges, base, preset, control, effort or Effort(), store_of(store))
    for corner in range(2 ** len(ranges)):
        place = tuple(float(corner >> number & 1) for number in range(len(ranges)))
        question.setting(question.values(place), 0)
    return question
