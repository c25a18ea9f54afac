"""Several experiments at once, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from dynascope.lab.errors import LabError, WorkerLost
from dynascope.lab.experiment import ComposedExperiment
from dynascope.lab.fields import build
from dynascope.lab.monitor import Progress
from dynascope.lab.registry import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

MOST_JOBS = 4
"""The most processes that are started unasked: each of them may need some GiB of memory."""


@dataclass(frozen=True, eq=False)
class Request:
    """A run that is asked for, in words that another process understands."""

    address: str
    changes: Mapping[str, Any]
    preset: str | None
    control: bool
    seed: int
    root: str
    force: bool


def default_jobs(count: int) -> int:
    """How many of `count` experiments to run at once: one for each processor core, and one alone on an accelerator."""
    import jax

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, count, MOST_JOBS) if jax.default_backend() == "cpu" else 1


def outcomes(
    requests: Sequence[Request], executor: Executor, on_progress: Callable[[Progress], None] | None = None
) -> Iterator[tuple[StoredRun | LabError, list[str]]]:
    """For each request in its order, as soon as it is there: the stored run or its error, and the warnings.

    Experiments that share measurements run one after another, so that the first one measures for all.
    """
    done, began = 0, time.monotonic()
    chains = _chains(requests)

    def count(future: Future) -> None:
        nonlocal done
        done += len(of_future[future])
        if on_progress:
            rate = done / max(time.monotonic() - began, 1e-9)
            on_progress(Progress("experiments", done, len(requests), rate, (len(requests) - done) / rate))

    of_future = {executor.submit(_carried_out, chain): chain for chain in chains}
    for future in of_future:
        future.add_done_callback(count)
    futures = {request: (future, at) for future, chain in of_future.items() for at, request in enumerate(chain)}
    for request in requests:
        future, at = futures[request]
        try:
            yield future.result()[at]
        except WorkerLost as error:
            yield WorkerLost(f"{request.address}: {error}; --jobs 1 needs the least memory"), []


def _chains(requests: Sequence[Request]) -> list[list[Request]]:
    """The requests, those of experiments that may share measurements together."""
    chains: dict[str, list[Request]] = {}
    for request in requests:
        kind = load(request.address)
        shares = issubclass(kind, ComposedExperiment)
        chains.setdefault(kind.id.partition(".")[0] if shares else request.address, []).append(request)
    return list(chains.values())


def _carried_out(chain: Sequence[Request]) -> list[tuple[StoredRun | LabError, list[str]]]:
    return [_one(request) for request in chain]


def _one(request: Request) -> tuple[StoredRun | LabError, list[str]]:
    warnings: list[str] = []
    try:
        experiment = build(load(request.address), request.changes, request.preset, request.control)
        store = Store(request.root)
        options = {"seed": request.seed, "preset": request.preset, "force": request.force}
        return run(experiment, store=store, warn=warnings.append, **options), warnings
    except LabError as error:
        return error, warnings
