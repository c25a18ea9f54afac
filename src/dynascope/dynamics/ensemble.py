"""Ensembles: seeds and numeric settings as named dimensions of one array program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope.dynamics.loop import Member, Outcome, Plan, run_batch
from dynascope.dynamics.monitor import current_monitor
from dynascope.dynamics.plan import choose_width, outline, plan_run
from dynascope.dynamics.process import Process
from dynascope.dynamics.record import Record
from dynascope.dynamics.trace import label


def ensemble(
    member: Member,
    over: Mapping[str, Any],
    *,
    steps: int | None = None,
    record: Record = None,
    times: Sequence[float] | np.ndarray | None = None,
    fixed: Mapping[str, Any] | None = None,
    width: int | None = None,
) -> xr.Dataset:
    """Run `member(**setting)`, a `Descent`, `Flow` or `Map`, for every combination of the settings in `over`.

    `over` names the dimensions: `{"seed": range(100), "learning_rate": [0.05, 0.1]}` are 200 members. Settings that
    go together share a dimension, as a tuple or mapping of arrays: `{"signal": (mus, sigmas)}`.
    `fixed` are settings that do not vary but should not be compiled in either. A `member` that is an `equinox.Module`
    with its shapes as static fields is compiled once per shape for as long as the process lives.

    On an accelerator all members run side by side, as many at a time as fit; on a CPU small ones side by side and
    large ones one after another (`width` overrides). A member that diverges is recorded as such in `diverged_at`
    (-1: never) and disturbs no other.
    """
    grid = {name: jax.tree.map(np.asarray, values, is_leaf=_is_column) for name, values in over.items()}
    dims = {name: _length(name, values) for name, values in grid.items()}
    index = np.indices(tuple(dims.values())).reshape(len(dims), math.prod(dims.values()))
    settings = {name: jax.tree.map(lambda leaf, i=i: leaf[i], grid[name]) for name, i in zip(dims, index, strict=True)}
    constants = jax.tree.map(jnp.asarray, dict(fixed or {}))

    shape = outline(member, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings), constants)
    plan, looks = plan_run(shape, steps, record, times)
    members = math.prod(dims.values())
    width = min(members, width or choose_width(shape, plan))
    outcomes = _run_all(member, settings, constants, plan, members, width, batched=bool(dims))
    return label(outcomes, shape, looks, grid, dims)


def _is_column(values: Any) -> bool:
    """A list or a range is one column of values; tuples and mappings hold several that go together."""
    return isinstance(values, list | range)


def _length(name: str, values: PyTree) -> int:
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(values)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"dimension '{name}' of the ensemble needs values along one common, non-empty axis")
    return lengths.pop()


def _run_all(
    member: Member,
    settings: PyTree,
    constants: PyTree,
    plan: Plan,
    members: int,
    width: int,
    *,
    batched: bool,
) -> list[Outcome]:
    """All members, `width` at a time: fewer if that many do not fit in the device's memory."""
    monitor = current_monitor()
    run, span = monitor.next_name(), float(plan.times[-1]) or 1.0
    outcomes: list[Outcome] = []
    first = 0
    while first < members:
        here = min(width, members - first)
        chosen = np.minimum(np.arange(first, first + width), members - 1)  # a short last batch repeats its last member

        def told(done: float, first: int = first, here: int = here) -> None:
            monitor.progress(first * span + done * here, members * span, "steps")

        try:
            outcome = run_batch(
                member,
                jax.tree.map(lambda leaf, chosen=chosen: jnp.asarray(leaf[chosen]), settings),
                constants,
                plan,
                batched=batched,
                monitor=monitor,
                name=f"{run}-{first}-{width}",
                told=told,
            )
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or width == 1:
                raise
            width = math.ceil(width / 2)
            continue
        outcomes.append(_first_members(outcome, here) if batched else outcome)
        first += here
    return outcomes


def _first_members(outcome: Outcome, count: int) -> Outcome:
    records = jax.tree.map(lambda leaf: leaf[:count], outcome.records)
    return outcome._replace(records=records, diverged_at=outcome.diverged_at[:count])


class _Itself(eqx.Module):
    """A member that is a process already built."""

    process: Process

    def __call__(self) -> Process:
        return self.process


def solo(
    process: Process,
    *,
    steps: int | None = None,
    record: Record = None,
    times: Sequence[float] | np.ndarray | None = None,
) -> xr.Dataset:
    """One process by itself."""
    return ensemble(_Itself(process), {}, steps=steps, record=record, times=times)
