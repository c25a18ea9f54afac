"""Many runs of one experiment over a grid of settings and seeds, as one dataset.

Each point and seed is a stored run, without figures. A sweep that is cut short continues where it stopped. The runs are
executed by anything with the interface of `concurrent.futures`: this process (all points of one shape then share their
compiled programs), a pool of processes, or a cluster's executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from dynascope.lab.arguments import check_calls
from dynascope.lab.errors import LabError, StoreError, one_line
from dynascope.lab.experiment import Experiment
from dynascope.lab.monitor import Progress
from dynascope.lab.store import Store
from dynascope.lab.sweeps.gathering import Gathering
from dynascope.lab.sweeps.plan import Plan, plan
from dynascope.lab.sweeps.points import results_of, run_points
from dynascope.lab.sweeps.summary import write_summary
from dynascope.lab.workers.executors import InProcess


@dataclass(frozen=True)
class Sweep:
    """A finished sweep: its dataset, a line for each run that is a gap, and the folder with its summary (None for a
    part of a sweep)."""

    data: xr.Dataset
    gaps: Sequence[str]
    folder: Path | None


def sweep(
    kind: type[Experiment] | str,
    grid: Mapping[str, Sequence[object]],
    *,
    base: Mapping[str, object] | None = None,
    preset: str | None = None,
    control: bool = False,
    seeds: int = 1,
    store: Store | Path | str | None = None,
    executor: Executor | None = None,
    force: bool = False,
    part: tuple[int, int] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Run an experiment at every point of a grid, for several seeds, and store the result.

    A run that crashes leaves a gap (the verdict `gap`, NaN) and does not end the sweep; the attribute `gaps` has the
    reasons. Every point is checked before the first one runs, and stored runs are not repeated.

    Args:
        kind: The experiment, its class or its id.
        grid: The values of each field that is varied.
        base: Values of other fields.
        preset: A preset of the experiment; its defaults if None.
        control: Whether to apply the control on top of the preset.
        seeds: Number of seeds, from 0 on.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        executor: Anything with the interface of `concurrent.futures`. Default: this process.
        force: Whether to repeat stored runs.
        part: `(3, 100)` runs every hundredth point from the third on. The same call without it joins stored parts.
        on_progress: Called after each run.

    Returns:
        A dataset over the grid's fields, `seed` and `claim`: `verdict`, `holds` (1 or 0), `measured`, the `share` of
        seeds in which a claim holds with its interval `low` to `high`, and the variables of `reduced`.
    """
    check_calls(executor, on_progress)
    asked = plan(kind, grid, base=base, preset=preset, control=control, seeds=seeds, store=store, force=force)
    done = carry_out(asked.only(part), executor, on_progress=on_progress)
    return done.data.assign_attrs(gaps=list(done.gaps), folder=str(done.folder or ""))


def carry_out(
    asked: Plan,
    executor: Executor | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_gap: Callable[[str, BaseException], None] | None = None,
) -> Sweep:
    """Execute a plan. `on_gap` is called with the line and the exception of each run that did not finish.

    A cluster that is lost and a store that cannot be written end the sweep with their error; finished runs stay stored.
    Runs that another process is working on are waited for.
    """
    work = _Work(asked, executor or InProcess(), on_progress, on_gap)
    work.take_stored()
    work.run_missing()
    gaps = dict(sorted(work.gaps.items()))
    data = work.gathered.dataset().assign_attrs(_about(asked, work.gathered))
    folder = write_summary(asked, data, gaps) if asked.part is None else None
    return Sweep(data, list(gaps.values()), folder)


def _about(asked: Plan, gathered: Gathering) -> dict[str, object]:
    return {
        "experiment": asked.kind.id,
        "title": asked.kind.title(),
        "preset": asked.preset or "",
        "fields": dict(asked.base),
        "control": asked.control,
        "left_out": gathered.left_out(),
    }


class _Work:
    """The runs of a sweep on their way into a dataset."""

    def __init__(
        self,
        asked: Plan,
        executor: Executor,
        on_progress: Callable[[Progress], None] | None,
        on_gap: Callable[[str, BaseException], None] | None,
    ):
        self.asked, self.executor, self.on_progress, self.on_gap = asked, executor, on_progress, on_gap
        self.gathered = Gathering(asked.grid, asked.seeds)
        self.gaps: dict[int, str] = {}
        self.missing: Sequence[int] = asked.numbers
        self.began, self.done, self.taken = time.monotonic(), 0, 0

    def take_stored(self) -> None:
        """Put the stored runs in their places; a damaged one is left to `run`, which reports it."""
        if self.asked.force:
            return
        missing = set(self.asked.numbers)
        for number, stored in self.asked.stored():
            try:
                self.gathered.add(number, *results_of(stored.verify()))
            except StoreError:
                continue
            missing.discard(number)
            self.taken += 1
            self._report()
        self.missing = sorted(missing)
        self.began = time.monotonic()

    def run_missing(self) -> None:
        """Carry out the rest."""
        asked = self.asked
        for number, result in run_points(self.missing, asked.setting, asked.store, self.executor, force=asked.force):
            if isinstance(result, Exception):
                text = str(result) if isinstance(result, LabError) else one_line(result)
                self.gaps[number] = f"{asked.name(number)}: {text}"
                if self.on_gap:
                    self.on_gap(self.gaps[number], result)
            else:
                self.gathered.add(number, *result)
            self._report()

    def _report(self) -> None:
        self.done += 1
        if self.on_progress:
            total, ran = len(self.asked.numbers), self.done - self.taken
            rate = ran / max(time.monotonic() - self.began, 1e-9)
            left = (total - self.done) / rate if ran else float("inf")
            self.on_progress(Progress("runs", self.done, total, rate, left))
