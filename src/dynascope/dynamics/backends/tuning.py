"""The fastest kernel for a program, found by trying; but only for runs that last longer than the search."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree

from dynascope.dynamics.backends.kernel import WARPS, Kernel, matmul_precision
from dynascope.dynamics.backends.ordinary import Backend, Ordinary
from dynascope.dynamics.program import Members, Program, Progress
from dynascope.dynamics.schedule import Schedule

Found = int | str
"""The index of the fastest backend, or the reason why no kernel runs."""


def tune(program: Program, members: Members, progress: Progress, schedule: Schedule, batches: int) -> Program:
    """The program with the fastest backend.

    The program's own kernel, chosen by rules of thumb, is compiled first, and one interval is timed. It is kept if the
    steps of all batches, with those of earlier runs of the same program, take less time than a search would. Otherwise
    kernels with other numbers of warps, with and without split products, and the ordinary loop are timed. The result is
    kept beside JAX's compiled programs, if these are kept.

    Args:
        program: A program whose backend is a kernel; other programs are returned as they are.
        members: The members of the first batch.
        progress: Their start.
        schedule: When they stop.
        batches: How many such batches are left.
    """
    first = program.backend
    if not isinstance(first, Kernel) or first.interpret:
        return program
    backends = _candidates(first)
    known = _known()
    key = _key(program, members, progress, backends) if known else ""
    found = known.get(key)
    if not isinstance(found, str) and not (type(found) is int and 0 <= found < len(backends)):
        if _is_cheap(program, members, progress, schedule, batches):
            return program
        found = _search(program, members, progress.state, backends)
        _keep(key or _key(program, members, progress, backends), found)
    if isinstance(found, str):
        return _without_kernel(program, first, found)
    return program.with_backend(backends[found])


def _candidates(first: Kernel) -> list[Backend]:
    """Kernels with fewer and more warps, with and without split products; the ordinary loop, unless it is forbidden."""
    ways = (False,) if matmul_precision() == "bfloat16" else (False, True)
    least = max(1, first.warps // 2)
    kernels = [replace(first, warps=warps, split=split) for split in ways for warps in WARPS if warps >= least]
    ordinary = Ordinary("ordinary: measured to be faster than the kernel")
    return [*kernels] if first.required else [*kernels, ordinary]


def _key(program: Program, members: Members, progress: Progress, backends: Sequence[Backend]) -> str:
    """A digest of the program, the device and the options to choose from."""
    try:
        text = program.steps_text(members, progress.state, 1)
    except Exception as error:  # the kernel language's own, of several kinds
        text = str(error)
    device = next(iter(jax.tree.leaves(progress.state)[0].devices())).device_kind
    return hashlib.sha256(f"{device} {jax.__version__} {backends} {text}".encode()).hexdigest()


_spent: dict[tuple, float] = {}
"""For each kernel and shape, the seconds of its runs in this process with the first kernel."""


def _is_cheap(program: Program, members: Members, progress: Progress, schedule: Schedule, batches: int) -> bool:
    """Whether all steps, past and future, take less time than a search, which compiles about five kernels."""
    intervals = schedule.intervals
    longest = int(np.argmax(intervals))
    begin = time.perf_counter()
    try:
        program.advance(members, progress, 0, 0)
        compiling, begin = time.perf_counter() - begin, time.perf_counter()
        program.advance(members, progress, longest, longest + 1)
    except Exception as error:
        _raise_if_memory_is_full(error)
        return False
    taken = time.perf_counter() - begin
    program_shapes = program.backend, *((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(progress.state))
    spent = _spent.get(program_shapes, 0.0) + taken * batches * intervals.sum() / max(1, intervals[longest])
    _spent[program_shapes] = spent
    return bool(spent < 5 * max(compiling, 2.0))


def _search(program: Program, members: Members, state: PyTree, backends: Sequence[Backend]) -> Found:
    """The index of the fastest backend; more warps are tried as long as that helps."""
    kernels = [each for each in backends if isinstance(each, Kernel)]
    steps = kernels[0].steps

    def seconds(backend: Backend) -> float | Exception:
        trial = program.with_backend(backend)
        return _seconds(lambda: trial.take_steps(members, state, steps))

    taken: dict[int, float | Exception] = {}
    fewest = kernels[0].warps
    for split in (False, True):
        least = math.inf
        for number, kernel in enumerate(kernels):
            if kernel.split != split or kernel.warps < fewest:
                continue
            taken[number] = outcome = seconds(kernel)
            if isinstance(outcome, Exception):
                continue
            if outcome > least:
                break
            least, fewest = outcome, kernel.warps
    if not any(isinstance(each, float) for each in taken.values()):
        return str(taken[0])
    for number in range(len(kernels), len(backends)):
        taken[number] = seconds(backends[number])
    worked = {number: each for number, each in taken.items() if isinstance(each, float)}
    return min(worked, key=lambda number: worked[number])


def _seconds(run: Callable[[], PyTree]) -> float | Exception:
    """Seconds for one compiled run, or the exception if it fails."""
    try:
        run()
        begin = time.perf_counter()
        run()
        return time.perf_counter() - begin
    except Exception as error:  # such as too little shared memory for this many warps
        _raise_if_memory_is_full(error)
        return error


def _raise_if_memory_is_full(error: Exception) -> None:
    """Raise the error if the device's memory is full: the driver then runs fewer members at once."""
    if "RESOURCE_EXHAUSTED" in str(error) and "hared memory" not in str(error):
        raise error


def _without_kernel(program: Program, kernel: Kernel, error: str) -> Program:
    reason = f"the kernel does not compile ({error.partition(chr(10))[0][:120]})"
    if kernel.required:
        raise ValueError(f"on_chip: the members cannot run on a chip: {reason}")
    return program.with_backend(Ordinary(f"ordinary: {reason}"))


_FOUND: dict[str, Found] = {}
"""For each program the index of its fastest backend, or the reason why no kernel runs."""


def _file() -> Path | None:
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return Path(folder) / "dynascope-on-chip.json" if folder and os.path.isdir(folder) else None


def _known() -> dict[str, Found]:
    path = _file()
    try:
        kept = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        kept = {}
    numbers = {key: best for key, best in kept.items() if type(best) is int} if isinstance(kept, dict) else {}
    return {**numbers, **_FOUND}


def _keep(key: str, found: Found) -> None:
    _FOUND[key] = found
    path = _file()
    if path is not None and not isinstance(found, str):  # another process, with more memory, may do better
        try:
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps({key: best for key, best in _known().items() if not isinstance(best, str)}))
            fresh.replace(path)
        except OSError:
            pass  # it is measured again next time
