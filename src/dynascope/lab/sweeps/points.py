"""Runs on their way to the workers and back: the part that every search over settings shares."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

import xarray as xr

from dynascope.lab.errors import BusyError, ClusterLost, DiskError, ExperimentCrash
from dynascope.lab.execute import execute
from dynascope.lab.setting import Setting
from dynascope.lab.store import ReadOnlyError, Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.sweeps.gathering import flat
from dynascope.lab.workers.executors import is_far
from dynascope.lab.workers.parcels import Parcel, Place, place_of

MOST_AT_ONCE = 1000
"""How many runs are handed to the executor before one of them has ended."""
POLL_SECONDS = 0.2
"""Between two looks at a run that another process works on."""

Results = tuple[list[dict[str, object]], xr.Dataset]
"""The part of a run that is kept: its claims as plain values, and its reduced numbers."""


def run_points(
    numbers: Iterable[int],
    setting: Callable[[int], Setting],
    store: Store,
    executor: Executor,
    *,
    force: bool = False,
) -> Iterator[tuple[int, Results | Exception]]:
    """Carry out the settings of these numbers, a bounded number at once, and give the outcome of each as it comes.

    Runs that another process is working on are waited for. A cluster that is lost and a store that cannot be written
    are raised; any other exception is the outcome of its run.

    Args:
        numbers: The runs.
        setting: The setting of a run.
        store: The folder of runs.
        executor: Anything with the interface of `concurrent.futures`.
        force: Whether to repeat stored runs.

    Yields:
        The number of a run, and its results or the exception that ended it.
    """
    waiting = deque(numbers)
    if not waiting:
        return
    with place_of(store, is_far(executor)) as place:
        ended: SimpleQueue[tuple[int, Future]] = SimpleQueue()
        pending: dict[int, Future] = {}
        busy: deque[int] = deque()
        try:
            while waiting or pending or busy:
                if waiting and len(pending) < MOST_AT_ONCE:
                    number = waiting.popleft()
                    future = executor.submit(run_point, setting(number), place, force)
                    future.add_done_callback(lambda future, number=number: ended.put((number, future)))
                    pending[number] = future
                    if ended.empty():
                        continue
                elif not pending:  # all that is left is being worked on elsewhere
                    time.sleep(POLL_SECONDS)
                    waiting, busy = busy, deque()
                    continue
                number, future = ended.get()
                del pending[number]
                outcome = _outcome(future)
                if isinstance(outcome, BusyError):
                    busy.append(number)
                else:
                    yield number, outcome
        except BaseException:
            for future in pending.values():
                future.cancel()
            raise


def _outcome(future: Future[Results]) -> Results | Exception:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, ClusterLost | DiskError | ReadOnlyError) or not isinstance(error, Exception):
        raise error
    return error


def run_point(setting: Setting, place: Place, force: bool = False) -> Results | Parcel:
    """Execute a setting without figures and store it, in a worker. If this process does not see the store, the results
    come with the files of the run, as a `Parcel`."""
    if place.visible:
        return results_of(execute(setting, Store(place.root), force=force, draw=False))
    with TemporaryDirectory(prefix="dynascope-") as folder:
        try:
            stored = execute(setting, Store(folder), force=force, draw=False)
        except ExperimentCrash as crash:
            return Parcel.of_crash(crash, Path(folder), place)
        return Parcel.of_run(results_of(stored), stored, place)


def results_of(stored: StoredRun) -> Results:
    """The part of a stored run that is kept."""
    return [claim.model_dump(mode="json") for claim in stored.claims], flat(stored.reduced())
