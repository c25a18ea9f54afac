"""Ensembles: seeds and numeric settings as named dimensions of one array program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Int32, PyTree

from dynascope import checks
from dynascope.dynamics.driver import Run
from dynascope.dynamics.process import Process
from dynascope.dynamics.schedule import Record, Request, Times
from dynascope.dynamics.schema import MemberLike, examine, inside_member
from dynascope.dynamics.stopping import Stop, as_condition
from dynascope.dynamics.trajectory import Trajectory, carry_out

Column = ArrayLike | Sequence[float] | range
Values = PyTree
"""The values along a dimension: numbers, or a tuple or mapping of equally long arrays that vary together."""


def ensemble(
    member: MemberLike,
    over: Mapping[str, Values],
    *,
    steps: int | None = None,
    record: Record = None,
    times: Times = None,
    fixed: Mapping[str, PyTree] | None = None,
    stop: Stop = None,
    keep: bool = True,
    width: int | None = None,
    on_chip: bool | None = None,
) -> Trajectory:
    """Run one process for every combination of settings, as a single array program.

    On an accelerator, members run side by side, as many at a time as fit. On a CPU, small members run side by side and
    large ones in turn. They are spread over all devices of the machine; inside `with jax.default_device(device):` they
    stay on that one. A member that diverges is marked in `diverged_at` and does not affect the others.

    Args:
        member: Called as `member(**setting, **fixed)` with traced scalars; returns a `Descent`, `Flow`, `Map` or
            `CentralFlow`. Anything that determines a shape must be a static field of the member, not a setting. An
            `equinox.Module` is compiled once per shape for as long as the process lives.
        over: The dimensions of the ensemble and their values, such as `{"seed": range(100), "learning_rate": [0.05,
            0.1]}` (200 members). A tuple or mapping of equally long arrays varies together along one dimension.
        steps: Number of steps. Required unless the members are flows.
        record: Record every `record`-th step, or exactly the listed steps. Default: about 1,000 recordings.
        times: The times at which flows are recorded.
        fixed: Settings that do not vary but should not be compiled in either, such as data.
        stop: A condition of the snapshot. Each member stops by itself (`stopped_at`); its trace is NaN from there on.
        keep: Whether the final states are kept; they may be too large for many large members.
        width: How many members run side by side on each device. Default: chosen by their size and the device.
        on_chip: Members small enough for one multiprocessor of an NVIDIA GPU take their steps there, as one kernel,
            several times faster. True requires it and raises, with the reason, if that is impossible; False forbids it.
            The attribute `loop` of the trace says how the steps were taken, and why.

    Returns:
        A `Trajectory` whose trace has the dimensions of `over`, then `step` (or `time`), then those of each probe.

    Raises:
        ValueError: If a dimension is empty, or shares its name with a variable of the trace.

    Example:
        >>> many = ds.ensemble(member, {"seed": range(8)}, steps=100)
        >>> many.member(seed=3).model
    """
    if not callable(member):
        raise TypeError(f"member must be a function that returns a process; got {checks.shown(member)}")
    for name, given in (("over", over), ("fixed", fixed)):
        if not isinstance(given, Mapping | None) or any(not isinstance(key, str) for key in given or {}):
            raise TypeError(f"{name} must be a dict of settings by name; got {checks.shown(given)}")
    checks.flags(keep=keep)
    if on_chip is not None:
        checks.flags(on_chip=on_chip)
    if width is not None:
        width = checks.whole("width", width, at_least=1)
    grid = {name: jax.tree.map(_column(name), values, is_leaf=_is_column) for name, values in (over or {}).items()}
    dims = {name: _labels(name, values) for name, values in grid.items()}
    index = np.indices(tuple(map(len, dims.values()))).reshape(len(dims), math.prod(map(len, dims.values())))
    settings = {name: jax.tree.map(lambda leaf, i=i: leaf[i], grid[name]) for name, i in zip(dims, index, strict=True)}
    constants = {name: checks.numbers(f"fixed setting '{name}'", values) for name, values in (fixed or {}).items()}
    condition = None if stop is None else as_condition(stop)
    outline = examine(member, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings), constants, condition)
    run = Run(member, settings, constants, dims, outline, record, condition, keep, width, on_chip)
    return carry_out(run, Request(steps, record, times))


def member_seeds(seed: int, count: int, block: int = 100_000) -> Int32[np.ndarray, " count"]:
    """Make the seeds of an ensemble's members, so that runs with different seeds share none.

    Run 0 has the seeds 0, 1, 2, ..., run 1 the seeds `block`, `block + 1`, and so on. If these would overflow 32
    bits (from run 21,474 on), the run has a block of negative seeds instead, drawn from its own seed.

    Args:
        seed: The seed of the run, 0 or more.
        count: Number of members.
        block: The most members of a run for which this holds.

    Returns:
        The seeds `(count,)`.
    """
    seed = checks.whole("seed", seed, at_least=0)
    count = checks.whole("count", count, at_least=1, at_most=2**31 - 1)
    block = checks.whole("block", block, at_least=1, at_most=2**31 - 1)
    first = block * seed
    if first + max(block, count) > 2**31:
        first = -int(np.random.default_rng(seed).integers(max(block, count), 2**31))
    return np.arange(first, first + count, dtype=np.int32)


def _is_column(values: Values) -> bool:
    """A list or a range is one column of values; tuples and mappings hold several that go together."""
    return isinstance(values, list | range)


def _column(name: str) -> Callable[[Column], np.ndarray]:
    def column(values: Column) -> np.ndarray:
        if isinstance(values, jax.Array) and jnp.issubdtype(values.dtype, jax.dtypes.prng_key):
            how = "pass integer seeds and call jax.random.key(seed) in the member"
            raise TypeError(f"dimension '{name}' must hold numbers, not PRNG keys: {how}")
        found = np.asarray(values)
        if found.dtype.kind not in "iufbc":
            raise TypeError(f"dimension '{name}' of the ensemble must hold numbers; got {checks.shown(values)}")
        if found.dtype.kind in "iu" and found.size and jnp.asarray(0).dtype == jnp.int32:  # JAX drops the upper bits
            if found.min() < -(2**31) or found.max() >= 2**32 or (found.min() < 0 and found.max() >= 2**31):
                raise ValueError(f"dimension '{name}' must hold 32-bit numbers; got {checks.shown(values)}")
            return found.astype(np.uint32) if found.max() >= 2**31 else found
        return found

    return column


def _labels(name: str, values: PyTree) -> np.ndarray:
    """The labels along a dimension: its values, or numbers if several arrays vary together."""
    leaves = jax.tree.leaves(values)
    if any(leaf.ndim == 0 for leaf in leaves):
        how = "a list, a range or an array; a tuple holds arrays that vary together"
        raise ValueError(f"dimension '{name}' of the ensemble must be {how}; got {checks.shown(values)}")
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"dimension '{name}' of the ensemble needs at least one value, and the same number in each array"
        )
    return leaves[0] if len(leaves) == 1 and leaves[0].ndim == 1 else np.arange(lengths.pop())


class _Itself(eqx.Module):
    """A member that returns a given process."""

    process: Process

    def __call__(self) -> Process:
        return self.process


def run_single(
    process: Process, *, steps: int | None = None, record: Record = None, times: Times = None, stop: Stop = None
) -> Trajectory:
    """Run one process by itself."""
    if inside_member.get() or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(process)):
        kind = type(process).__name__
        raise TypeError(f"a whole run cannot be part of a compiled function; in an ensemble's member, return ds.{kind}")
    return ensemble(_Itself(process), {}, steps=steps, record=record, times=times, stop=stop)
