"""All members of an ensemble, one batch after another, each batch on all devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from dynascope.dynamics.checkpoint import Checkpoint, Kept, as_jax, as_numpy, kept_rows
from dynascope.dynamics.devices import Layout, laid_out, spread
from dynascope.dynamics.loop import Member, Outcome, Plan, Progress, run_batch, uses_lapack
from dynascope.dynamics.on_chip import Fit, chip_of
from dynascope.dynamics.process import Monitor, current_monitor
from dynascope.dynamics.watching import Watch
from dynascope.probes.probe import Probe

LAPACK_WAITS_FOR_ITSELF_UNTIL = (0, 11, 2)
"""Before this version of jaxlib, LAPACK's batches wait for threads of a CPU that wait for them: with several devices,
for ever."""


class Batch(NamedTuple):
    """Members that run at the same time."""

    size: int
    """How many, without those that only fill it up."""
    layout: Layout
    checkpoint: Checkpoint


def run_members(
    member: Member,
    settings: Mapping[str, PyTree],
    fixed: Mapping[str, PyTree],
    plan: Plan,
    *,
    stop: Probe | None,
    state: PyTree,
    keep: bool,
    members: int,
    width: int,
    devices: tuple[jax.Device, ...],
    batched: bool,
    on_chip: Fit,
    watch: Watch | None,
) -> Iterator[Outcome]:
    """The outcome of each batch: `width` members on each device, fewer if that many do not fit in its memory."""
    monitor = current_monitor()
    name, span = monitor.next_name(), float(plan.times[-1] - plan.since) or 1.0
    unit = "steps" if plan.times.dtype.kind == "i" else "time"
    first, schedule, kept_names = 0, plan.schedule(), set(monitor.kept_names())
    if len(devices) > 1 and devices[0].platform == "cpu" and jax.__version_info__ < LAPACK_WAITS_FOR_ITSELF_UNTIL:
        setting = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings)
        devices = devices[:1] if uses_lapack(member, setting, fixed, schedule, plan.sizes, stop) else devices
    while first < members:
        batch = _next_batch(monitor, kept_names, name, first, members, width, devices, batched)
        here, mesh = batch.size, batch.layout.mesh
        chosen = first + np.minimum(np.arange(batch.layout.size), here - 1)  # a short batch repeats its last member

        def on_progress(now: float, progress: Progress, first: int = first, here: int = here) -> None:
            if watch is not None:
                watch.hand_out(progress, now, first, here, batched)
            done = now - float(plan.since)
            monitor.progress(first * span + done * here, members * span, unit)

        def rows(tree: PyTree, chosen: np.ndarray = chosen, mesh: Mesh | None = mesh) -> PyTree:
            return laid_out(jax.tree.map(lambda leaf: leaf[chosen], tree), mesh)

        try:
            outcome = run_batch(
                member,
                rows(settings),
                fixed,
                plan,
                schedule,
                stop=stop,
                state=rows(state) if batched and state is not None else state,
                batched=batched,
                mesh=mesh,
                chip=chip_of(on_chip, plan.since, plan.times, batch.layout.width) if batched else None,
                checkpoint=batch.checkpoint,
                on_progress=on_progress,
            )
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or batch.layout.width == 1:
                raise
            width = math.ceil(batch.layout.width / 2)
            continue
        if outcome is None:  # it was cut to fit what is of another run
            kept_names.remove(batch.checkpoint.source)
            continue
        if batched:
            ends = jax.tree.map(_on_host, outcome.state) if keep else None
            outcome = _first_members(outcome._replace(state=ends), here)
        yield outcome
        first += here


def _next_batch(
    monitor: Monitor,
    kept_names: set[str],
    name: str,
    first: int,
    members: int,
    width: int,
    devices: tuple[jax.Device, ...],
    batched: bool,
) -> Batch:
    """The members from `first` on that run next: as many as can, or those that were kept together.

    Batches have the same size, so that one program serves all; the last one may have to be filled up.
    """
    usual = spread(members, width, devices)
    table = kept_rows(kept_names, name, first) or Kept(f"{name}-{first}-{usual.size}", first, usual.size)
    layout = spread(table.end - first, width, devices)
    count = min(layout.size, table.end - first, members - first)
    size = layout.size if first + count == members else count
    place = Checkpoint(
        monitor, f"{name}-{first}-{size}", count, batched, table.name, first - table.first, layout == usual
    )
    return Batch(count, layout, place)


def _first_members(outcome: Outcome, count: int) -> Outcome:
    each = ("records", "diverged_at", "stopped_at", "state")
    first = jax.tree.map(lambda leaf: leaf[:count], {name: getattr(outcome, name) for name in each})
    return outcome._replace(**first)


def _on_host(leaf: jax.Array) -> Any:
    """Many members' states are kept in the host's memory; random keys on one device."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(leaf)
    return leaf if len(leaf.sharding.device_set) == 1 else as_jax(as_numpy(leaf), leaf)
