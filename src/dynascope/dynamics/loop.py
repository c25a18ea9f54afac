"""The compiled loop: a batch of processes advances from one recording time to the next, probes writing as they go.

One program serves a whole run: it is entered with the number of recordings to do, so the host regains control every
second or so (to show progress, to keep a checkpoint, to be interrupted) without a second compilation, and the result
does not depend on where it was cut.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from dynascope.dynamics.monitor import Monitor
from dynascope.dynamics.process import Process

Member = Callable[..., Process]

SLICE_SECONDS = 1.0
"""How long one entry of the compiled loop should last."""


class Plan(NamedTuple):
    """When to stop, and which row of its record each probe writes there."""

    times: np.ndarray
    """Increasing, beginning at 0."""
    rows: dict[str, np.ndarray]
    """For each probe and time the row to write; one past the last row where it does not look."""
    sizes: dict[str, int]
    """For each probe the number of rows."""


class Progress(NamedTuple):
    """Everything that changes during a run, for a batch of members."""

    state: PyTree
    memories: PyTree
    records: PyTree
    """For each probe its values, with one spare row at the end into which a probe that does not look writes."""


def _per_member(function: Callable, batched: bool) -> Callable:
    """For all members side by side; a single one without the batch axis, which would cost large networks time."""
    if not batched:
        return function

    def run(*members: PyTree) -> PyTree:
        if jax.tree.leaves(members)[0].shape[0] > 1:
            return jax.vmap(function)(*members)
        alone = jax.tree.map(lambda leaf: leaf[0], members)
        return jax.tree.map(lambda leaf: leaf[None], function(*alone))

    return run


@eqx.filter_jit
def _begin(member: Member, settings: PyTree, fixed: PyTree, sizes: dict[str, int], times: jax.Array, batched: bool):
    """The start of every member, and the arrays it is made of (its data above all), so that they are made once."""

    def one(setting: PyTree) -> tuple[PyTree, Progress]:
        process = member(**setting, **fixed)
        state = process.start()
        snapshot = process.snapshot(state, times[0])
        memories = {name: probe.remember(snapshot) for name, probe in process.probes.items()}
        records = {}
        for name, probe in process.probes.items():
            value, _ = jax.eval_shape(lambda m, probe=probe: probe.measure(snapshot, m), memories[name])
            records[name] = jax.tree.map(
                lambda leaf, rows=sizes[name]: jnp.zeros((rows + 1, *leaf.shape), leaf.dtype), value
            )
        return eqx.filter(process, eqx.is_array), Progress(state, memories, records)

    return _per_member(one, batched)(settings)


@eqx.filter_jit
def _advance(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    arrays: PyTree,
    times: jax.Array,
    rows: dict[str, jax.Array],
    sizes: dict[str, int],
    progress: Progress,
    first: jax.Array,
    end: jax.Array,
    batched: bool,
) -> tuple[Progress, jax.Array]:
    """Recordings `first` to `end` (not included), for every member; and when each diverged."""

    def one(setting: PyTree, arrays: PyTree, progress: Progress) -> tuple[Progress, jax.Array]:
        process = eqx.combine(arrays, member(**setting, **fixed))  # the compiler drops what is not used of the latter

        def recording(k: jax.Array, progress: Progress) -> Progress:
            state = process.advance(progress.state, times[jnp.maximum(k - 1, 0)], times[k])
            snapshot = process.snapshot(state, times[k])
            memories, records = dict(progress.memories), dict(progress.records)
            for name, probe in process.probes.items():
                row = rows[name][k]

                def look(memory: PyTree, probe=probe) -> tuple[PyTree, PyTree]:
                    return probe.measure(snapshot, memory)

                if sizes[name] == times.shape[0]:
                    value, memories[name] = look(memories[name])
                else:
                    blank, _ = jax.eval_shape(look, memories[name])
                    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), blank)
                    value, memories[name] = lax.cond(
                        row < sizes[name], look, lambda memory, zeros=zeros: (zeros, memory), memories[name]
                    )
                records[name] = jax.tree.map(
                    lambda record, new, row=row: lax.dynamic_update_index_in_dim(record, new, row, 0),
                    records[name],
                    value,
                )
            return Progress(state, memories, records)

        progress = lax.fori_loop(first, end, recording, progress)
        return progress, process.diverged_at(progress.state)

    return _per_member(one, batched)(settings, arrays, progress)


class Outcome(NamedTuple):
    """What a batch of members leaves: the records (member axis first, if batched), divergence, and the cost."""

    records: PyTree
    diverged_at: np.ndarray
    compile_seconds: float
    run_seconds: float


def run_batch(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    plan: Plan,
    *,
    batched: bool,
    monitor: Monitor,
    name: str,
    told: Callable[[float], None],
) -> Outcome:
    """Run one batch to its end, in slices of about a second; `told(done)` hears how far (in time units) it is.

    After a kill it goes on from what the monitor kept under `name`, to the same bits.
    """
    times, rows = jnp.asarray(plan.times), {probe: jnp.asarray(row) for probe, row in plan.rows.items()}
    clock = time.perf_counter()
    arrays, progress = _begin(member, settings, fixed, plan.sizes, times, batched)

    def advance(progress: Progress, first: int, end: int) -> tuple[Progress, jax.Array]:
        limits = jnp.asarray(first, jnp.int32), jnp.asarray(end, jnp.int32)
        result = _advance(member, settings, fixed, arrays, times, rows, plan.sizes, progress, *limits, batched)
        return jax.block_until_ready(result)

    advance(progress, 0, 0)  # nothing to do yet: this compiles
    compile_seconds, clock = time.perf_counter() - clock, time.perf_counter()

    @functools.cache
    def label() -> str:  # only when it is asked for: the data may be large
        return _digest((settings, fixed, plan))

    done, progress = _restore(monitor, name, label, progress)
    _, diverged_at = advance(progress, done, done)
    kept_at, recordings = time.perf_counter(), len(plan.times)
    budget = 64.0 if plan.times.dtype.kind == "i" else float(plan.times[-1]) / 64  # of the first slice
    while done < recordings:
        before, began = float(plan.times[max(done - 1, 0)]), time.perf_counter()
        end = max(done + 1, int(np.searchsorted(plan.times, before + budget, side="right")))
        try:
            progress, diverged_at = advance(progress, done, end)
        except KeyboardInterrupt:
            monitor.keep(name, _flat(progress, done, label()))
            raise
        rate = (float(plan.times[end - 1]) - before) / max(time.perf_counter() - began, 1e-6)
        budget = min(16 * budget, max(rate * SLICE_SECONDS, 1e-12))
        done = end
        told(float(plan.times[done - 1]))
        patience = (
            monitor.keep_every if done < recordings else monitor.keep_every / 10
        )  # a finished batch is worth more
        if time.perf_counter() - kept_at > patience:
            monitor.keep(name, _flat(progress, done, label()))
            kept_at = time.perf_counter()
    axis = 1 if batched else 0
    records = jax.tree.map(lambda leaf: np.asarray(leaf).take(range(leaf.shape[axis] - 1), axis), progress.records)
    return Outcome(records, np.asarray(diverged_at), compile_seconds, time.perf_counter() - clock)


def _flat(progress: Progress, done: int, label: str) -> dict[str, np.ndarray]:
    leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(progress))}
    return {"done": np.asarray(done), "label": np.asarray(label), **leaves}


def _restore(monitor: Monitor, name: str, label: Callable[[], str], fresh: Progress) -> tuple[int, Progress]:
    """Where the monitor's checkpoint says we are, if it is one of this very run; else the beginning."""
    kept: Mapping[str, np.ndarray] | None = monitor.restore(name)
    leaves, structure = jax.tree.flatten(fresh)
    if kept is None or str(kept.get("label")) != label():
        return 0, fresh
    found = [kept.get(f"leaf{i}") for i in range(len(leaves))]
    same = all(
        new is not None and new.shape == old.shape and new.dtype == old.dtype
        for new, old in zip(found, leaves, strict=True)
    )
    if not same:
        return 0, fresh
    return int(kept["done"]), jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in found])


def _digest(tree: PyTree) -> str:
    """A fingerprint of the settings and the plan, so that a checkpoint of another run is not taken for this one's."""
    digest = hashlib.sha256(str(jax.tree.structure(tree)).encode())
    for leaf in jax.tree.leaves(tree):
        digest.update(np.ascontiguousarray(np.asarray(leaf)).tobytes())
    return digest.hexdigest()
