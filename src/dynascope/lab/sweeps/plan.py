"""The runs of a sweep, all checked before the first one is executed, and their estimated cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path

from dynascope.checks import whole
from dynascope.lab.arguments import by_field, check_flags, check_text, experiment_class, listed, store_of
from dynascope.lab.errors import UsageError
from dynascope.lab.execute import stored_run
from dynascope.lab.experiment import Experiment
from dynascope.lab.field_types import format_value
from dynascope.lab.fields import MOST_RUNS, build, shown
from dynascope.lab.json_text import canonical
from dynascope.lab.setting import Setting, format_command, set_options
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.sweeps.gathering import OWN


@dataclass(frozen=True)
class Plan:
    """A grid of settings and seeds. Run number k is seed k % seeds at point k // seeds; the last key is the fastest."""

    kind: type[Experiment]
    grid: Mapping[str, Sequence[object]]
    base: Mapping[str, object]
    preset: str | None
    control: bool
    seeds: int
    store: Store
    force: bool
    part: tuple[int, int] | None = None

    def only(self, part: tuple[int, int] | None) -> Plan:
        """The K-th of N parts of it, as (K, N); all of it for None."""
        if part is None:
            return self
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise UsageError(f"part must be a pair such as (3, 100), the third of a hundred; got {shown(part)}")
        part = whole("part", part[0], at_least=1), whole("part", part[1], at_least=1)
        if part[0] > part[1]:
            raise UsageError(f"part must be one from 1/{part[1]} to {part[1]}/{part[1]}; got {part[0]}/{part[1]}")
        return replace(self, part=part)

    @property
    def question(self) -> dict[str, object]:
        """The sweep in plain values: its summary is stored under the digest of this."""
        grid = {key: list(values) for key, values in self.grid.items()}
        control: dict[str, object] = {"control": True} if self.control else {}
        question = {"id": self.kind.id, "grid": grid, "fields": dict(self.base), "preset": self.preset}
        return {**question, "seeds": self.seeds, **control}

    @property
    def command(self) -> str:
        """The command that repeats it."""
        options = [("--grid", f"{key}={','.join(map(format_value, values))}") for key, values in self.grid.items()]
        options += set_options(self.base) + ([("--seeds", str(self.seeds))] if self.seeds > 1 else [])
        return format_command(self.kind, "sweep", self.preset, self.control, options)

    @property
    def total(self) -> int:
        """The number of runs of the whole sweep."""
        return self.seeds * prod(map(len, self.grid.values()))

    @property
    def numbers(self) -> range:
        """The runs of this part: every n-th one, so that parts cost about the same."""
        first, step = (self.part[0] - 1, self.part[1]) if self.part else (0, 1)
        return range(first, self.total, step)

    @cached_property
    def missing(self) -> list[int]:
        """The runs of this part that are not stored yet or are to be repeated."""
        return list(self.numbers) if self.force else [k for k, found in self._looked_up() if found is None]

    def seconds(self, jobs: int = 1) -> float | None:
        """The estimated seconds of the missing runs, by the experiment's cost; None if that is not known."""
        cost = self.kind.cost.get(self.preset or "full")
        return None if cost is None else len(self.missing) * cost / jobs

    def point(self, number: int) -> dict[str, object]:
        """The values of the grid's keys in a run."""
        place, at = [], number // self.seeds
        for values in reversed(list(self.grid.values())):
            at, k = divmod(at, len(values))
            place.append(values[k])
        return dict(zip(self.grid, reversed(place), strict=True))

    def setting(self, number: int) -> Setting:
        """The setting of a run."""
        changes, seed = {**self.base, **self.point(number)}, self.seed(number)
        options = {"preset": self.preset, "control": self.control}
        return Setting.parse(self.kind, **options, changes=changes, seed=seed, sweep=True)

    def seed(self, number: int) -> int:
        """The seed of a run."""
        return number % self.seeds

    def name(self, number: int) -> str:
        """A run in words: dim=4, seed 1."""
        texts = {
            key: value if isinstance(value, str) else canonical(value) for key, value in self.point(number).items()
        }
        return ", ".join([*(f"{key}={text}" for key, text in texts.items()), f"seed {self.seed(number)}"])

    def stored(self) -> Iterator[tuple[int, StoredRun]]:
        """The runs of this part that are stored already, by their numbers."""
        return ((k, found) for k, found in self._looked_up() if found is not None)

    def _looked_up(self) -> Iterator[tuple[int, StoredRun | None]]:
        return ((k, stored_run(self.setting(k), self.store)) for k in self.numbers)


def plan(
    kind: type[Experiment] | str,
    grid: Mapping[str, Sequence[object]],
    *,
    base: Mapping[str, object] | None = None,
    preset: str | None = None,
    control: bool = False,
    seeds: int = 1,
    store: Store | Path | str | None = None,
    force: bool = False,
) -> Plan:
    """The plan of a sweep, with every point checked; a `UsageError` if one is invalid."""
    kind, base = experiment_class(kind), by_field("base", base, "a value")
    check_text(preset="" if preset is None else preset)
    check_flags(control=control, force=force)
    grid = {key: listed(f"grid {key}", values) for key, values in by_field("grid", grid, "a list of values").items()}
    if not grid or any(len(values) == 0 for values in grid.values()):
        raise UsageError(f"grid must have at least one key, and at least one value for each; got {dict(grid)}")
    if taken := sorted(grid.keys() & set(OWN)):
        raise UsageError(f"grid {taken[0]}: the sweep itself has a variable of this name")
    seeds = whole("seeds", seeds, at_least=1)
    total = seeds * prod(map(len, grid.values()))
    if total > MOST_RUNS:
        raise UsageError(
            f"a sweep must have at most {MOST_RUNS:,} runs; got {total:,}, with {seeds:,} seeds at each point"
        )
    if double := grid.keys() & base.keys():
        raise UsageError(f"{sorted(double)[0]} is in the grid and among the changed fields")
    checked: dict[str, dict[str, object]] = {key: {} for key in grid}
    for point in product(*grid.values()):
        given = dict(zip(grid, point, strict=True))
        fields = build(kind, {**base, **given}, preset, control).model_dump(mode="json")
        for key, value in given.items():
            checked[key].setdefault(canonical(value), fields[key])
    axes = {key: [checked[key][canonical(value)] for value in values] for key, values in grid.items()}
    for key, values in axes.items():
        text, times = Counter(map(canonical, values)).most_common(1)[0]
        if times > 1:
            raise UsageError(f"grid {key}: {text} is given twice")
    return Plan(kind, axes, base, preset, control, seeds, store_of(store), force)
