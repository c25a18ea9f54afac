"""Many runs of one experiment over a grid of settings and seeds, with a summary of its claims.

Each point and seed is a stored run like any other, but without figures. A sweep that is cut short continues where it
stopped. The runs are carried out by anything with the interface of `concurrent.futures`: this process (all points of
one shape then share their compiled programs), a pool of processes, or a cluster's executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from dynascope.checks import whole
from dynascope.lab.errors import ClusterLost, LabError, UsageError, one_line
from dynascope.lab.executors import InProcess, is_far
from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import MOST_RUNS, build
from dynascope.lab.monitor import Progress
from dynascope.lab.parcels import place_of
from dynascope.lab.point import run_point
from dynascope.lab.registry import entry_of
from dynascope.lab.store import Store
from dynascope.lab.summary import Cell, keep_summary


@dataclass(frozen=True)
class Sweep:
    """A finished sweep and the folder with its summary."""

    id: str
    grid: Mapping[str, Sequence[Any]]
    cells: list[Cell]
    folder: Path

    @property
    def errors(self) -> list[str]:
        """A line for each run that crashed."""
        return [cell.error for cell in self.cells if cell.error]


def sweep(
    kind: type[Experiment],
    grid: Mapping[str, Sequence[Any]],
    *,
    base: Mapping[str, Any] | None = None,
    preset: str | None = None,
    seeds: int = 1,
    store: Store | None = None,
    executor: Executor | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Run `kind` at every point of `grid` with seeds 0 to seeds - 1, on top of a preset and `base`; store a summary.

    Every point is checked before the first one runs. `on_progress` is called after each run. A run that
    crashes is a gap in the summary, not the end of the sweep.
    """
    if not grid or any(len(values) == 0 for values in grid.values()):
        raise UsageError(f"grid must have at least one key, and at least one value for each; got {dict(grid)}")
    seeds = whole("seeds", seeds, at_least=1)
    total = seeds * prod(len(values) for values in grid.values())
    if total > MOST_RUNS:
        raise UsageError(f"a sweep has at most {MOST_RUNS:,} runs; got {total:,}, with {seeds:,} seeds at each point")
    store = store or Store()
    points = list(product(*grid.values()))
    base = dict(base or {})
    for point in points:
        build(kind, {**base, **dict(zip(grid, point, strict=True))}, preset)
    tasks = [(point, seed) for point in points for seed in range(seeds)]
    done, began = 0, time.monotonic()

    def count(_: Future) -> None:
        nonlocal done
        done += 1
        if on_progress:
            rate = done / max(time.monotonic() - began, 1e-9)
            on_progress(Progress("runs", done, total, rate, (total - done) / rate))

    executor = executor or InProcess()
    entry = None if isinstance(executor, InProcess) else entry_of(kind)
    address = entry.address if entry else kind
    futures: list[Future] = []
    try:
        with place_of(store, is_far(executor)) as place:
            for point, seed in tasks:
                changes = {**base, **dict(zip(grid, point, strict=True))}
                future = executor.submit(run_point, address, changes, preset, seed, place, force)
                future.add_done_callback(count)
                futures.append(future)
            wait(futures)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    cells = [_cell(point, seed, future) for (point, seed), future in zip(tasks, futures, strict=True)]
    folder = keep_summary(store, kind, grid, cells, base=base, preset=preset, seeds=seeds)
    return Sweep(kind.id, grid, cells, folder)


def _cell(point: tuple[Any, ...], seed: int, future: Future) -> Cell:
    error = future.exception()
    if error is None:
        return Cell(point, seed, *future.result())
    if not isinstance(error, Exception) or isinstance(error, ClusterLost):
        raise error
    return Cell(point, seed, None, None, str(error) if isinstance(error, LabError) else one_line(error))
