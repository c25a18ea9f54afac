"""Many runs of one experiment over a grid of settings and seeds, and what became of its claims across them.

Each point and seed is a stored run like any other (but for its figures, which nobody looks at by the thousand), so a
sweep that is cut short goes on where it stopped. Anything with the interface of `concurrent.futures` carries them
out: this process (compiled programs are then shared by all points of one shape), a pool of processes, or a cluster's
executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from dynascope.lab.errors import LabError, UsageError
from dynascope.lab.executors import InProcess
from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import build
from dynascope.lab.registry import entry_of, load
from dynascope.lab.run import run
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
    told: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run `kind` at every point of `grid` with seeds 0 .. seeds-1, on top of a preset and `base`; keep a
    summary.

    Every point is checked before the first one runs. `told(done, total)` hears of each run that ends. A run
    that crashes is a gap in the summary, not the end of the sweep.
    """
    if not grid or not all(grid.values()) or seeds < 1:
        raise UsageError("a sweep needs a grid with at least one value for each key, and at least one seed")
    store = store or Store()
    points = list(product(*grid.values()))
    base = dict(base or {})
    for point in points:
        build(kind, {**base, **dict(zip(grid, point, strict=True))}, preset)
    entry = entry_of(kind)
    tasks = [(point, seed) for point in points for seed in range(seeds)]
    done = 0

    def count(_: Future) -> None:
        nonlocal done
        done += 1
        if told:
            told(done, len(tasks))

    executor = executor or InProcess()
    local = isinstance(executor, InProcess)
    address = kind if local or entry is None else entry.address
    futures: list[Future] = []
    try:
        for point, seed in tasks:
            changes = {**base, **dict(zip(grid, point, strict=True))}
            future = executor.submit(_one, address, changes, preset, seed, str(store.root), force)
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


def _one(
    address: str | type[Experiment], changes: Mapping[str, Any], preset: str | None, seed: int, root: str, force: bool
) -> list[dict[str, Any]]:
    """What a worker does: one run, and its claims as plain values."""
    kind = load(address) if isinstance(address, str) else address
    stored = run(build(kind, changes, preset), seed=seed, preset=preset, store=Store(root), force=force, draw=False)
    return [claim.model_dump(mode="json") for claim in stored.claims]


def _cell(point: tuple[Any, ...], seed: int, future: Future) -> Cell:
    error = future.exception()
    if error is None:
        return Cell(point, seed, future.result())
    if not isinstance(error, Exception):
        raise error
    line = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
    return Cell(point, seed, None, line.splitlines()[0])
