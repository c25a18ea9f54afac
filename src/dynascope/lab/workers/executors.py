"""The executors of runs: this process, processes on this machine, or a cluster.

All of them have the interface of `concurrent.futures.Executor`. A future ends with the result of its call or the
exception that it raised; with `WorkerLost` if the worker died, and died again when the call was retried; or with
`ClusterLost` if no worker is left.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from dynascope.lab.errors import UsageError, nearest
from dynascope.lab.workers.cluster import Cluster
from dynascope.lab.workers.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")


class InProcess(Executor):
    """Runs each task at once in this process, so that compiled programs are shared. Ctrl-C is not caught."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def choose(name: str = "local", jobs: int = 1) -> Executor:
    """`local` (in this process, or in `jobs` of them), or a dask cluster: `dask:tcp://HOST:PORT` (one that is running),
    `dask:local:N` (of N processes on this machine), or `dask:FILE.toml` (started by a file)."""
    check(name)
    if name == "local":
        return InProcess() if jobs == 1 else Pool(jobs)
    return Cluster(name.partition(":")[2])


def check(name: str) -> None:
    """Raise a `UsageError` if `choose` does not know the name. Nothing is started."""
    kind, _, address = name.partition(":")
    if name != "local" and (kind != "dask" or not address):
        forms = "local, dask:tcp://HOST:PORT, dask:local:N or dask:FILE.toml"
        raise UsageError(f"executor must be {forms}; got {name!r}{nearest(name, ['local'])}")


def is_far(executor: Executor) -> bool:
    """Whether its workers may be on other machines, with other disks."""
    return isinstance(executor, Cluster)


def stop(executor: Executor) -> None:
    """End it now. Current runs can be resumed from their last checkpoint."""
    if isinstance(executor, Pool | Cluster):
        executor.stop()
    else:
        executor.shutdown(wait=False, cancel_futures=True)
