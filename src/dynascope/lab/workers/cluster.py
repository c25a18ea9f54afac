"""Calls on the workers of a dask cluster, behind the interface of `concurrent.futures`.

dask repeats a call if its worker dies, and gives up after some deaths. dask is imported only when a cluster is
created.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait as wait_for
from contextlib import suppress
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from dynascope.lab.errors import ClusterLost, UsageError, WorkerLost, one_line
from dynascope.lab.workers.calls import call, result_of
from dynascope.lab.workers.deployment import PATIENCE, Deployment, deploy
from dynascope.lab.workers.devices import take_share

P = ParamSpec("P")
T = TypeVar("T")


class Cluster(Executor):
    """The workers of a dask cluster: one that is running (`tcp://HOST:PORT`), processes on this machine (`local:N`), or
    one that is started by a file (`FILE.toml`) and ended with this object.

    A future ends with the result of its call or the exception that it raised, with `WorkerLost` if its worker died at
    every attempt, or with `ClusterLost` if the scheduler is gone.
    """

    def __init__(self, address: str):
        try:
            from distributed import Client  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise UsageError(f"the executor dask:{address} needs dask: pip install 'dynascope[cluster]'") from None
        _hush()
        self._deployed: Deployment = deploy(address)
        try:
            self._client = Client(self._deployed.address, timeout=PATIENCE, set_as_default=False)
        except BaseException as error:
            self._deployed.close(now=True)
            if not isinstance(error, Exception):  # Ctrl-C
                raise
            raise UsageError(f"no dask scheduler answers at {address} ({one_line(error)})") from None
        self._waiting: dict[Future, Any] = {}
        self._changing = threading.Lock()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        from cloudpickle import dumps  # pyright: ignore[reportMissingImports]

        future: Future[T] = Future()
        if self._closed:
            raise RuntimeError("cannot submit a call to a cluster that is shut down")
        if self._client.status != "running":
            raise self._lost()
        key, question = f"{getattr(fn, '__name__', 'call')}-{uuid4().hex}", dumps((fn, args, kwargs))
        theirs = self._client.submit(_call_in_worker, question, self._deployed.here, key=key, pure=False)
        with self._changing:
            self._waiting[future] = theirs
        theirs.add_done_callback(partial(self._settle, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for submitted calls, then leave the cluster; end it if it was started here."""
        if self._closed:
            return
        self._closed = True
        if wait and not cancel_futures:
            wait_for(list(self._waiting))
        self._leave(now=not wait)

    def stop(self) -> None:
        """Leave the cluster now. Workers that were not started here finish their current run."""
        self._closed = True
        for future in list(self._waiting):
            future.cancel()
        self._leave(now=True)

    def _leave(self, now: bool) -> None:
        with suppress(Exception):  # ignore any error of a cluster that we leave
            self._client.close(timeout=1 if now else PATIENCE)
        self._deployed.close(now)

    def _settle(self, future: Future, theirs: Any) -> None:
        """Pass on the outcome of a call. It runs in a dask thread."""
        with self._changing:
            self._waiting.pop(future, None)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(result_of(self._answer(theirs)))
        except BaseException as error:
            future.set_exception(error)

    def _answer(self, theirs: Any) -> bytes:
        from distributed.scheduler import KilledWorker  # pyright: ignore[reportMissingImports]

        if theirs.status == "error":
            error = theirs.exception()
            if isinstance(error, KilledWorker):
                again = error.allowed_failures
                raise WorkerLost(f"its worker died, perhaps for lack of memory, and again in all {again} retries")
            raise error
        try:
            return theirs.result()
        except Exception as error:
            raise self._lost() from error

    def _lost(self) -> ClusterLost:
        return ClusterLost(f"the dask scheduler at {self._deployed.address} has gone; finished runs are stored")


def _hush() -> None:
    """Silence dask's log of errors that we report ourselves in one line."""
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _call_in_worker(question: bytes, here: int) -> bytes:
    """The call that a worker executes. `here` is the number of workers if all are on one machine and share it, else 0.

    Inside a worker xarray would ask the scheduler for a lock over the network at each file that it writes; files have
    locks of our own.
    """
    from dask.config import set as configured  # pyright: ignore[reportMissingImports]
    from distributed import get_worker  # pyright: ignore[reportMissingImports]

    if here:
        _take_share_once(int(get_worker().name), here)
    with configured(scheduler="synchronous"):
        return call(question)


_take_share_once = cache(take_share)
