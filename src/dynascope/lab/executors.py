"""What carries out the runs of a sweep: this process, a pool of processes, or a cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

from dynascope.lab.errors import UsageError, nearest


class InProcess(Executor):
    """Runs each task at once in this process, so that compiled programs are shared. Ctrl-C is not caught."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def choose(name: str = "local", jobs: int = 1) -> Executor:
    """`local` (in this process, or in `jobs` of them), or `dask:ADDRESS`."""
    if name == "local":
        if jobs == 1:
            return InProcess()
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(context.Value("i", 0), jobs))
    kind, _, address = name.partition(":")
    if kind != "dask" or not address:
        raise UsageError(f"executor {name!r} is neither local nor dask:ADDRESS{nearest(name, ['local'])}")
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UsageError("the executor dask:ADDRESS needs dask: pip install 'dask[distributed]'") from None
    return Client(address).get_executor()


def stop(executor: Executor) -> None:
    """End it now. Runs under way can be resumed from their last checkpoint."""
    executor.shutdown(wait=False, cancel_futures=True)
    if isinstance(executor, ProcessPoolExecutor):
        for process in multiprocessing.active_children():
            process.terminate()


def _begin(started: Any, jobs: int) -> None:
    """What a worker does first. Ctrl-C reaches it too: it ends without a message, and the parent prints one.

    It takes cores of its own. XLA starts a thread for each core it sees, and where every worker does so on all cores,
    their threads wait for each other.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with started.get_lock():
        number = started.value
        started.value += 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number % jobs :: jobs] or {cores[number % len(cores)]})
