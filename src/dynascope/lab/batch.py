"""Execution of several settings: those of one experiment in one process, several experiments at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future

from dynascope.lab.errors import LabError, WorkerLost
from dynascope.lab.execute import execute
from dynascope.lab.experiment import ComposedExperiment
from dynascope.lab.monitor import Progress
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

MOST_JOBS = 4
"""The most processes that are started by default: each may need several GiB of memory."""
Outcome = tuple[StoredRun | LabError, list[str]]
"""A stored run or the reason why there is none, and the warnings."""


def default_jobs(count: int) -> int:
    """The number of experiments, of `count`, to run at once: one per processor core, or a single one on an
    accelerator."""
    import jax

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, count, MOST_JOBS) if jax.default_backend() == "cpu" else 1


def outcomes(
    settings: Sequence[Setting],
    store: Store,
    executor: Executor,
    *,
    force: bool = False,
    draw: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[Outcome]:
    """Execute settings and yield the outcome of each, in their order, as soon as it is available.

    The settings of one experiment run one after another in one process, which compiles once. So do those of experiments
    that share measurements: the first one measures for all. If the iterator is closed early, runs that have not begun
    are canceled.

    Args:
        settings: The settings to run.
        store: The folder of runs.
        executor: Anything with the interface of `concurrent.futures`.
        force: Whether to repeat stored runs.
        draw: Whether to make figures.
        on_progress: Called when a process has finished its settings.

    Yields:
        The stored run or its error, and the warnings.
    """
    done, began = 0, time.monotonic()

    def count(future: Future[list[Outcome]]) -> None:
        nonlocal done
        done += len(chains[future])
        if on_progress:
            rate = done / max(time.monotonic() - began, 1e-9)
            on_progress(Progress("runs", done, len(settings), rate, (len(settings) - done) / rate))

    chains: dict[Future[list[Outcome]], list[int]] = {}
    for numbers in _chains(settings):
        chain = [settings[number] for number in numbers]
        future = executor.submit(_execute_chain, chain, str(store.root), force, draw)
        chains[future] = numbers
        future.add_done_callback(count)
    places = {number: (future, at) for future, numbers in chains.items() for at, number in enumerate(numbers)}
    try:
        for number, setting in enumerate(settings):
            future, at = places[number]
            try:
                yield future.result()[at]
            except WorkerLost as error:
                yield WorkerLost(f"{setting.id}: {error}; --jobs 1 needs the least memory"), []
    finally:
        for future in chains:
            future.cancel()


def _chains(settings: Sequence[Setting]) -> list[list[int]]:
    """The indices of the settings that run in one process, by experiment, or by system if they share measurements.

    The longest chains come first, by the seconds that their experiments state, then by number: one that began last
    would keep one process busy after the others have ended.
    """
    chains: dict[str, list[int]] = {}
    for number, setting in enumerate(settings):
        shares = isinstance(setting.experiment, ComposedExperiment)
        chains.setdefault(setting.id.partition(".")[0] if shares else setting.id, []).append(number)

    def length(chain: list[int]) -> tuple[float, int]:
        return sum(settings[number].cost or 0 for number in chain), len(chain)

    return sorted(chains.values(), key=length, reverse=True)


def _execute_chain(chain: Sequence[Setting], root: str, force: bool, draw: bool) -> list[Outcome]:
    found: list[Outcome] = []
    for setting in chain:
        warnings: list[str] = []
        try:
            found.append((execute(setting, Store(root), force=force, draw=draw, warn=warnings.append), warnings))
        except LabError as error:
            found.append((error, warnings))
    return found
