"""Ensembles: seeds and numeric settings as named dimensions of one array program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Int32, PyTree

from dynascope import checks
from dynascope.dynamics.loop import Member
from dynascope.dynamics.plan import Record, Times, inside_member, outline
from dynascope.dynamics.process import Process
from dynascope.dynamics.trajectory import Run, Stop, Trajectory, as_condition, start


def ensemble(
    member: Member,
    over: Mapping[str, Any],
    *,
    steps: int | None = None,
    record: Record = None,
    times: Times = None,
    fixed: Mapping[str, Any] | None = None,
    stop: Stop = None,
    keep: bool = True,
    width: int | None = None,
    on_chip: bool | None = None,
) -> Trajectory:
    """Run `member(**setting)`, a `Descent`, `Flow`, `Map` or `CentralFlow`, for every combination of settings.

    `over` names the dimensions: `{"seed": range(100), "learning_rate": [0.05, 0.1]}` are 200 members. Settings that
    go together share a dimension, as a tuple or mapping of arrays: `{"signal": (mus, sigmas)}`.
    `fixed` are settings that do not vary but should not be compiled in either. A `member` that is an `equinox.Module`
    with its shapes as static fields is compiled once per shape for as long as the process lives.

    On an accelerator all members run side by side, as many at a time as fit; on a CPU small ones side by side and
    large ones one after another (`width` overrides, for each device). They are spread over all devices of the machine;
    inside `with jax.default_device(device):` they stay on that one. A member that diverges is recorded as such in
    `diverged_at` (-1: never) and disturbs no other. Where `stop` is given, each member stops by itself (`stopped_at`),
    and its trace is NaN from there on. `keep=False` drops the final states, which large members may need.

    Members small enough for one multiprocessor of an NVIDIA GPU take their steps there, as one kernel, several times
    faster. `on_chip=True` asks for it, or says why it cannot be; `on_chip=False` forbids it. The attribute `loop` of
    the trace says which it was, and why.
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
    dims = {name: _length(name, values) for name, values in grid.items()}
    index = np.indices(tuple(dims.values())).reshape(len(dims), math.prod(dims.values()))
    settings = {name: jax.tree.map(lambda leaf, i=i: leaf[i], grid[name]) for name, i in zip(dims, index, strict=True)}
    constants = {name: checks.numbers(f"fixed setting '{name}'", values) for name, values in (fixed or {}).items()}
    condition = as_condition(stop)
    asked = on_chip if dims else False
    shape = outline(member, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings), constants, condition, asked)
    if on_chip and shape.on_chip.reason is not None:
        raise ValueError(f"on_chip: the members cannot run on a chip: {shape.on_chip.reason}")
    run = Run(member, settings, constants, grid, dims, shape, record, condition, keep, width)
    return start(run, steps, times)


def member_seeds(seed: int, count: int, block: int = 100_000) -> Int32[np.ndarray, " count"]:
    """The seeds of an ensemble's members: runs with different `seed` share none, up to `block` members each.

    Run 0 has the seeds 0, 1, 2, ..., run 1 the seeds `block`, `block + 1`, and so on. Where these would overflow 32
    bits (from run 21,474 on), the run has a block of negative seeds instead, drawn from its own seed.
    """
    seed = checks.whole("seed", seed, at_least=0)
    count = checks.whole("count", count, at_least=1, at_most=2**31 - 1)
    block = checks.whole("block", block, at_least=1, at_most=2**31 - 1)
    first = block * seed
    if first + max(block, count) > 2**31:
        first = -int(np.random.default_rng(seed).integers(max(block, count), 2**31))
    return np.arange(first, first + count, dtype=np.int32)


def _is_column(values: Any) -> bool:
    """A list or a range is one column of values; tuples and mappings hold several that go together."""
    return isinstance(values, list | range)


def _column(name: str) -> Callable[[Any], np.ndarray]:
    def column(values: Any) -> np.ndarray:
        if isinstance(values, jax.Array) and jnp.issubdtype(values.dtype, jax.dtypes.prng_key):
            raise TypeError(f"dimension '{name}' takes numbers: give seeds, and make their keys in the member")
        found = np.asarray(values)
        if found.dtype.kind not in "iufbc":
            raise TypeError(f"dimension '{name}' of the ensemble must hold numbers; got {checks.shown(values)}")
        if found.dtype.kind in "iu" and found.size and jnp.asarray(0).dtype == jnp.int32:  # JAX drops the upper bits
            if found.min() < -(2**31) or found.max() >= 2**32 or (found.min() < 0 and found.max() >= 2**31):
                raise ValueError(f"dimension '{name}' must hold numbers of 32 bits; got {checks.shown(values)}")
            return found.astype(np.uint32) if found.max() >= 2**31 else found
        return found

    return column


def _length(name: str, values: PyTree) -> int:
    leaves = jax.tree.leaves(values)
    if any(leaf.ndim == 0 for leaf in leaves):
        how = "a list, a range or an array; a tuple holds arrays that vary together"
        raise ValueError(f"dimension '{name}' of the ensemble must be {how}; got {checks.shown(values)}")
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"dimension '{name}' of the ensemble needs one value or more, as many in each array")
    return lengths.pop()


class _Itself(eqx.Module):
    """A member that is a process already built."""

    process: Process

    def __call__(self) -> Process:
        return self.process


def solo(
    process: Process, *, steps: int | None = None, record: Record = None, times: Times = None, stop: Stop = None
) -> Trajectory:
    """One process by itself."""
    if inside_member.get() or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(process)):
        kind = type(process).__name__
        raise TypeError(f"a whole run cannot be part of a compiled function; in an ensemble's member, return ds.{kind}")
    return ensemble(_Itself(process), {}, steps=steps, record=record, times=times, stop=stop)
