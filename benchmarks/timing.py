"""How the races are timed and told."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def pin_one_thread() -> None:
    """One thread for BLAS, XLA and torch alike; call it before any of them is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def cpu_seconds(job: Callable[[], Any], repeats: int = 3) -> float:
    """The median CPU time of a job: unlike the wall clock it does not count the neighbors' work."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    return statistics.median(times)


def on_accelerator(race: str) -> bool:
    """Whether there is one; a line that the race is left out, if not."""
    import jax

    found = jax.default_backend() != "cpu"
    if not found:
        print(f"\n{race}: left out, it needs an accelerator")
    return found


def tell(race: str, rows: list[dict[str, Any]]) -> None:
    """Print a race as a table and keep it as JSON under benchmarks/results."""
    names = list(rows[0])
    widths = [max(len(name), *(len(str(row.get(name, ""))) for row in rows)) for name in names]
    print(f"\n{race}")
    for cells in (names, *([str(row.get(name, "")) for name in names] for row in rows)):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{race.split(':')[0]}.json").write_text(json.dumps(rows, indent=1))
