"""Planning a run from its outline: what the probes will record, when, and how many members go side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from dynascope.dynamics.loop import Member, Plan
from dynascope.dynamics.record import Record, recording_steps
from dynascope.probes.probe import Probe

VMAP_UP_TO = 1500
"""On a CPU, the work per step up to which members are cheaper side by side (vmap) than one after another: a step of
less is dominated by the overhead of its many small operations (see docs/ensembles.md for the measurement)."""
CPU_WIDTH = 512
"""On a CPU, how many members go side by side: enough to fill the arithmetic, few enough to stay in cache."""
PAUSES = 128
"""A discrete run pauses at least so often between recordings, so that it can be watched and interrupted."""


class Outline(NamedTuple):
    """What can be known of a member without running it."""

    axis: str
    probes: dict[str, Probe]
    work: int
    """Multiplications per step of one member, about."""
    process_bytes: int
    """Bytes of one member's arrays: its data, its state, one row of each record."""
    values: dict[str, Any]
    """Shapes of what each probe returns."""


def outline(member: Member, setting: PyTree, fixed: PyTree) -> Outline:
    """Trace one member abstractly."""
    seen: dict[str, Any] = {}

    def trace(setting: PyTree, fixed: PyTree) -> Any:
        process = member(**setting, **fixed)
        state = process.start()
        snapshot = process.snapshot(state, jnp.asarray(0, jnp.int32 if process.axis == "step" else None))
        seen.update(axis=process.axis, probes=dict(process.probes), work=process.work(state))
        values = {name: probe.measure(snapshot, probe.remember(snapshot))[0] for name, probe in process.probes.items()}
        return eqx.filter(process, eqx.is_array), state, values

    arrays, state, values = eqx.filter_eval_shape(trace, setting, fixed)
    nbytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((arrays, state, values)))
    return Outline(process_bytes=nbytes, values=values, **seen)


def plan_run(
    shape: Outline, steps: int | None, record: Record, times: Sequence[float] | np.ndarray | None
) -> tuple[Plan, dict[str, np.ndarray]]:
    """The plan, and for each probe the times at which it looks."""
    if shape.axis == "time":
        if times is None or steps is not None or record is not None:
            raise ValueError("a flow is recorded at `times`; it takes no `steps` and no `record`")
        common = np.unique(np.asarray(times, float))
        if common.size == 0 or not np.all(np.isfinite(common)) or common[0] < 0:
            raise ValueError("the times of a flow must be finite and not negative, and there must be one at least")
        looks = dict.fromkeys(shape.probes, common)
        stops = np.union1d([0.0], common).astype(jnp.result_type(float))
    else:
        if steps is None or steps < 0 or times is not None:
            raise ValueError(f"give `steps`, a whole number that is not negative, and no `times`; got steps={steps}")
        common = recording_steps(steps, record)
        looks = {
            name: common if probe.every is None else recording_steps(steps, probe.every)
            for name, probe in shape.probes.items()
        }
        pauses = np.linspace(0, steps, PAUSES + 1).astype(np.int32) if steps > 20 * PAUSES else []
        dense = len(common) >= PAUSES
        stops = np.unique(np.concatenate([[0], *looks.values(), [] if dense else pauses])).astype(np.int32)
    rows, sizes = {}, {}
    for name, look in looks.items():
        found = np.searchsorted(stops, look.astype(stops.dtype))
        rows[name] = np.full(len(stops), len(look), np.int32)
        rows[name][found] = np.arange(len(look), dtype=np.int32)
        sizes[name] = len(look)
    return Plan(stops, rows, sizes), looks


def choose_width(shape: Outline, plan: Plan) -> int:
    """How many members to run side by side."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return CPU_WIDTH if shape.work <= VMAP_UP_TO else 1
    records = sum(
        plan.sizes[name] * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(value))
        for name, value in shape.values.items()
    )
    memory = (device.memory_stats() or {}).get("bytes_limit", 8 * 2**30)
    return max(1, int(memory // (4 * (shape.process_bytes + records))))
