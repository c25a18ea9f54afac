"""Deployment of a dask cluster: a running one, processes on this machine, or jobs in a queue.

A worker has one thread, and a call that kills its worker is retried twice. Clusters that are started here open no
dashboard and write their scratch files into a temporary folder.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import shutil
import signal
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dynascope.lab.errors import UsageError, nearest, one_line
from dynascope.lab.workers.pool import RETRIES

KINDS = {
    "local": ("distributed", "LocalCluster", "dask[distributed]"),
    "slurm": ("dask_jobqueue", "SLURMCluster", "dask-jobqueue"),
    "pbs": ("dask_jobqueue", "PBSCluster", "dask-jobqueue"),
    "sge": ("dask_jobqueue", "SGECluster", "dask-jobqueue"),
    "kubernetes": ("dask_kubernetes.operator", "KubeCluster", "dask-kubernetes"),
}
"""The kinds of clusters: the module and the class that start one, and the package to install."""
PATIENCE = 10.0
"""Seconds to wait for a scheduler's answer."""
SILENT = logging.CRITICAL + 1
MEMORY = {"target": False, "spill": False, "pause": False}
"""Limits of memory. dask would pause a worker at 80 % of its memory, forever if XLA keeps it; a worker over its limit
is still ended."""

SATURATION, PATIENT = "distributed.scheduler.worker-saturation", "distributed.deploy.lost-worker-timeout"
"""The number of calls queued at a worker (one, so that its death counts against that one), and the time that it may
take to come back after a death before its job is replaced."""


@dataclass(frozen=True)
class Deployment:
    """A cluster: the address for clients, and the way to end it if it was started here."""

    address: Any
    here: int = 0
    """The number of workers if all of them are on this machine, else 0."""
    cluster: Any = None
    ending: ExitStack = field(default_factory=ExitStack)
    """Settings and folders to undo when the cluster has ended."""

    def close(self, now: bool = False) -> None:
        """End the processes started here; `now` kills workers on this machine in the middle of a run."""
        if now and self.here:
            for nanny in self.cluster.workers.values():
                nanny.auto_restart = False
                if nanny.pid:
                    with suppress(ProcessLookupError):
                        os.kill(nanny.pid, signal.SIGKILL)
        if self.cluster is not None:
            with suppress(Exception):  # such as a time-out: the processes end with this one
                self.cluster.close(timeout=PATIENCE)
        self.ending.close()


def deploy(address: str) -> Deployment:
    """The cluster at an address: `tcp://HOST:PORT`, `local:N` or `FILE.toml`."""
    if address.endswith(".toml"):
        return _from_file(Path(address))
    if address.partition(":")[0] == "local":
        count = address.partition(":")[2]
        if not count.isdecimal() or int(count) < 1:
            raise UsageError(f"the executor dask:local:N needs a number of processes, at least 1; got dask:{address}")
        return _local(int(count), {}, "")
    if not re.fullmatch(r"([a-z]+://)?[^/\s]+:\d+", address):
        raise UsageError(f"executor must be dask:tcp://HOST:PORT, dask:local:N or dask:FILE.toml; got 'dask:{address}'")
    return Deployment(address)


def _from_file(path: Path) -> Deployment:
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {one_line(error)}") from None
    if unknown := sorted(said.keys() - {"kind", "jobs", "options"}):
        hint = nearest(unknown[0], ["kind", "jobs", "options"])
        raise UsageError(f"{path}: {unknown[0]!r} is none of kind, jobs and options{hint}")
    kind, jobs, options = said.get("kind"), said.get("jobs"), said.get("options", {})
    if kind not in KINDS:
        hint = nearest(str(kind), KINDS)
        raise UsageError(f"{path}: kind must be one of {', '.join(KINDS)}; got {kind!r}{hint}")
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise UsageError(f"{path}: jobs must be an integer, at least 1; got {jobs!r}")
    if not isinstance(options, dict):
        raise UsageError(f"{path}: options must be a table; got {options!r}")
    if kind == "local":
        return _local(jobs, options, f"{path}: ")
    return _kubernetes(jobs, options, path) if kind == "kubernetes" else _queue(kind, jobs, options, path)


def _local(count: int, options: dict[str, Any], prefix: str) -> Deployment:
    """Processes on this machine, which listen on the loopback interface only."""
    if unknown := sorted(options.keys() - {"memory_limit"}):
        raise UsageError(f"{prefix}options.{unknown[0]} is not an option of kind local: it has memory_limit")
    with ExitStack() as ending:
        given = {
            "n_workers": count,
            "threads_per_worker": 1,
            "host": "127.0.0.1",
            "local_directory": _configure(ending, "1 hour"),
            "config": {f"distributed.worker.memory.{name}": value for name, value in MEMORY.items()},
            "scheduler_kwargs": _scheduler(),
            "silence_logs": SILENT,
        }
        made: Deployment | None = None
        try:
            with _hold_interrupts():
                cluster = _start(_class("local"), "local", prefix, **given, **options)
                made = Deployment(cluster, count, cluster, ending.pop_all())
        except KeyboardInterrupt:
            if made:
                made.close(now=True)
            raise
        return made


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Ctrl-C is raised when the block has ended. The terminal sends it to every process of the command; processes that
    are started here ignore it and print nothing: the command ends them."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    heard = callable(before) and threading.current_thread() is threading.main_thread()
    if heard:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    ensure_running()  # the first thread that needs it would receive Ctrl-C from then on
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new threads and processes inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if heard:
            signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _queue(kind: str, jobs: int, options: dict[str, Any], path: Path) -> Deployment:
    """Jobs of a queueing system, each with one worker. Its logs go beside the compilation cache."""
    for name in ("cores", "processes"):
        if name in options:
            raise UsageError(f"{path}: options.{name} is always 1, since a worker has one thread; leave it out")
    cls = _class(kind)
    allowed = {name for part in (*cls.__mro__, *cls.job_cls.__mro__) for name in inspect.signature(part).parameters}
    if unknown := sorted(options.keys() - allowed):
        hint = nearest(unknown[0], allowed)
        raise UsageError(f"{path}: options.{unknown[0]} is not an option of {cls.__name__}{hint}")
    if shutil.which(cls.job_cls.submit_command.split()[0]) is None:
        raise UsageError(f"{path}: kind {kind} needs the command {cls.job_cls.submit_command}, which was not found")
    from dynascope.lab.machine import cache_folder  # it imports JAX

    given = {"log_directory": str(cache_folder() / "jobs"), **options}
    given["scheduler_options"] = _scheduler() | options.get("scheduler_options", {})
    given["worker_extra_args"] = ["--no-dashboard", *options.get("worker_extra_args", ())]
    settings = [f"export DASK_DISTRIBUTED__WORKER__MEMORY__{name.upper()}={value}" for name, value in MEMORY.items()]
    given["job_script_prologue"] = [*settings, *options.get("job_script_prologue", ())]
    for_cluster = inspect.signature(cls.__mro__[1]).parameters
    for_job = {name: value for name, value in given.items() if name not in for_cluster}
    _start(cls.job_cls, kind, f"{path}: ", "tcp://check:1", cores=1, processes=1, **for_job)  # wrong options end here
    with ExitStack() as ending:
        _configure(ending, "1 minute")
        cluster = _start(cls, kind, f"{path}: ", cores=1, processes=1, silence_logs=SILENT, **given)
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # a job that ends is replaced
        return Deployment(cluster, cluster=cluster, ending=ending.pop_all())


def _kubernetes(jobs: int, options: dict[str, Any], path: Path) -> Deployment:
    """Pods of a Kubernetes cluster that has dask's operator."""
    given = {"name": "dynascope", "worker_command": ["dask", "worker", "--nthreads", "1", "--no-dashboard"]} | options
    cluster = _start(_class("kubernetes"), "kubernetes", f"{path}: ", n_workers=jobs, quiet=True, **given)
    return Deployment(cluster, cluster=cluster)


def _configure(ending: ExitStack, patient: str) -> str:
    """Settings for a scheduler in this process, while it lasts; and its folder for scratch files."""
    from dask.config import set as configured  # pyright: ignore[reportMissingImports]

    scratch = ending.enter_context(TemporaryDirectory(prefix="dynascope-dask-", ignore_cleanup_errors=True))
    ending.enter_context(configured({SATURATION: 1.0, PATIENT: patient, "temporary-directory": scratch}))
    return scratch


def _scheduler() -> dict[str, Any]:
    return {"allowed_failures": RETRIES, "dashboard": False, "dashboard_address": "127.0.0.1:0"}


def _class(kind: str) -> Any:
    module, name, package = KINDS[kind]
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        raise UsageError(f"a cluster of kind {kind} needs {package}: pip install '{package}'") from None


def _start(cls: Any, kind: str, prefix: str, *args: Any, **given: Any) -> Any:
    try:
        return cls(*args, **given)
    except Exception as error:
        raise UsageError(f"{prefix}the {kind} cluster failed to start: {one_line(error)}") from error
