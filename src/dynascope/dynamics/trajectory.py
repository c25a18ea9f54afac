"""What a run returns: the trace of its probes, the trained model, and the state to go on from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope import checks
from dynascope.dynamics.batches import run_members
from dynascope.dynamics.devices import usable_devices
from dynascope.dynamics.loop import Member, Plan
from dynascope.dynamics.plan import (
    LAST_STEP,
    Outline,
    Record,
    Times,
    axis_names,
    choose_width,
    grid_labels,
    label,
    masked,
    plan_run,
    recording_axis,
    usual_cadence,
)
from dynascope.dynamics.process import current_monitor
from dynascope.dynamics.watching import recording, watch
from dynascope.probes.probe import Probe, Snapshot, probe

Stop = Callable[[Snapshot], Any] | Probe | None
"""A condition of the snapshot, tested when the run records; as a `probe(condition, every=...)`, at its own cadence.

A run that stops between two recordings records its last state too, unless its steps were listed. Members of an ensemble
share their steps: there the recording before is the last one, and `member(...).model` has the last state."""
SAME = object()


def as_condition(stop: Stop) -> Probe | None:
    """A condition to stop as a probe."""
    if stop is None or isinstance(stop, Probe):
        return stop
    return probe(checks.function("stop", stop, "stop(snapshot)"))


class Run(NamedTuple):
    """What was asked for: enough to run it, or to go on with it."""

    member: Member
    settings: Mapping[str, PyTree]
    """One row for each member; empty for a single run."""
    fixed: Mapping[str, PyTree]
    grid: Mapping[str, PyTree]
    """The values along each dimension of an ensemble."""
    dims: Mapping[str, int]
    shape: Outline
    record: Record
    stop: Probe | None
    keep: bool
    width: int | None


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run that has been carried out: what was recorded, where it ended, and how to go on.

    `descend`, `flow`, `iterate` and `central_flow` return one of a single model, `ensemble` one of many members.
    """

    trace: xr.Dataset
    """What the probes recorded, with the dimension `step` (or `time`) after those of the ensemble; `diverged_at`, and
    `stopped_at` where there is a condition to stop (-1: never)."""
    statistics: Mapping[str, float]
    """`compile_seconds`, `run_seconds`, `members`, and `devices`: over how many of them the members were spread."""
    state: PyTree
    """The end state, of each member along the first axis of an ensemble: parameters, the optimizer's state, and what
    the probes carry. None where it was not kept."""
    at: int | float
    """The step, or the time of a flow, at which it is."""
    run: Run

    @property
    def model(self) -> PyTree:
        """The trained model, of the type that was given; of an ensemble, take a `member` first."""
        return self.snapshot().model

    def snapshot(self) -> Snapshot:
        """What a probe would see at the end: the model, the objective, the optimizer's state."""
        if self.run.dims:
            raise ValueError(f"an ensemble has many models; take one with {self._call()}.model")
        if self.state is None:
            raise ValueError("the state was not kept; run the ensemble with keep=True")
        process = self.run.member(**self.run.fixed)
        now = jnp.asarray(self.at, jnp.int32 if self.run.shape.axis == "step" else None)
        return process.snapshot(self.state[0], now)

    def member(self, **labels: Any) -> Trajectory:
        """One member of an ensemble by its labels, such as `many.member(seed=3, learning_rate=0.1)`."""
        run = self.run
        if not run.dims:
            raise ValueError("this is a single run, not an ensemble: its model is .model")
        if set(labels) != set(run.dims):
            raise ValueError(f"give one label for each dimension, {self._call()}; got {checks.shown(labels)}")
        if self.state is None:
            raise ValueError("the members' states were not kept; run the ensemble with keep=True")
        places = [_place(self.trace, name, labels[name]) for name in run.dims]
        number = int(np.ravel_multi_index(places, tuple(run.dims.values())))
        setting, state = jax.tree.map(lambda leaf: jnp.asarray(leaf[number]), (dict(run.settings), self.state))
        alone = run._replace(settings={}, fixed={**setting, **run.fixed}, grid={}, dims={})
        trace = self.trace.isel(dict(zip(run.dims, places, strict=True)))
        at = self.at
        if "stopped_at" in trace and (stopped := trace.stopped_at.item()) >= 0:
            at = stopped
            trace = _cut(trace, run.shape, at)
        return Trajectory(trace, {**self.statistics, "members": 1}, state, at, alone)

    def resume(
        self, *, steps: int | None = None, times: Times = None, record: Record = None, stop: Any = SAME
    ) -> Trajectory:
        """Go on for so many more steps (a flow: to the further `times`), from the state in which it ended.

        The parameters are those of one longer run, to the same bits on a CPU: the optimizer's state, the order of the
        data and the clock go on. The trace is that of the whole run; recordings keep their cadence, and where it is cut
        is recorded too. Where `record` was a list of steps, give the further ones. The condition to stop is tested
        again, unless another `stop` is given (None: it does not stop).
        """
        run = self.run if stop is SAME else self.run._replace(stop=as_condition(stop))
        if self.state is None:
            raise ValueError("the state was not kept; run the ensemble with keep=True to resume it")
        if run.dims and "stopped_at" in self.trace and bool((self.trace.stopped_at >= 0).any()):
            raise ValueError(f"members stopped at different steps; resume them one by one, {self._call()}.resume(...)")
        if run.shape.axis == "step" and steps is not None:
            more = checks.whole("steps", steps, at_least=1, at_most=LAST_STEP - int(self.at))
            steps = int(self.at) + more
            if record is None:
                record = run.record if run.record is None or np.ndim(run.record) == 0 else [int(self.at) + more]
            elif np.ndim(record) and np.asarray(record).dtype.kind in "iu" and np.any(np.asarray(record) <= self.at):
                raise ValueError(f"record must hold steps after {self.at}; got {checks.shown(record)}")
        after = start(run._replace(record=record), steps, times, since=self.at, state=self.state)
        trace = _joined(self.trace, after.trace, run.shape)
        seconds = {key: self.statistics[key] + after.statistics[key] for key in ("compile_seconds", "run_seconds")}
        run = run._replace(record=after.run.record) if run.record is None else run
        return Trajectory(trace.assign_attrs(seconds), {**after.statistics, **seconds}, after.state, after.at, run)

    def save(self, path: str | Path) -> Path:
        """Write it to one file, whole or not at all, without pickles; `load_trajectory` reads it."""
        from dynascope.lab.trajectories import save

        return save(self, path)

    def _call(self) -> str:
        return f"member({', '.join(f'{name}=...' for name in self.run.dims)})"

    def __repr__(self) -> str:
        members = f", {math.prod(self.run.dims.values())} members" if self.run.dims else ""
        return f"Trajectory(at {self.run.shape.axis} {self.at:g}{members}; {', '.join(map(str, self.trace.data_vars))})"


def start(
    run: Run, steps: int | None, times: Times, *, since: int | float | None = None, state: PyTree = None
) -> Trajectory:
    """Carry a run out, from its start or from where it was."""
    if run.shape.axis == "step" and steps is not None:
        steps = last = checks.whole("steps", steps, at_least=0, at_most=LAST_STEP)
        if run.record is None and last:
            run = run._replace(record=usual_cadence(last))
    plan, recorded = plan_run(run.shape, steps, run.record, times, since, run.stop)
    members = math.prod(run.dims.values())
    what = recording(run.shape, recorded, axis_names(run.shape, recorded), grid_labels(run.grid, run.dims))
    devices = usable_devices((run.member, run.fixed, run.stop))[: None if run.dims else 1]
    outcomes = list(
        run_members(
            run.member,
            run.settings,
            run.fixed,
            plan,
            stop=run.stop,
            state=state,
            keep=run.keep,
            members=members,
            width=run.width or choose_width(run.shape, plan, devices),
            devices=devices,
            batched=bool(run.dims),
            on_chip=run.shape.on_chip,
            watch=watch(current_monitor(), what, plan),
        )
    )
    trace = label(outcomes, run.shape, recorded, run.grid, run.dims)
    at = plan.times[-1].item()
    kept = None
    if run.keep:
        parts = [outcome.state for outcome in outcomes]
        kept = jax.tree.map(lambda *leaves: _concatenated(leaves), *parts) if run.dims else parts[0]
    if run.stop is not None:
        stopped = np.concatenate([np.atleast_1d(outcome.stopped_at) for outcome in outcomes])
        trace["stopped_at"] = (tuple(run.dims), stopped.reshape(tuple(run.dims.values())))
        if run.dims:
            trace = masked(trace, run.shape)
        elif stopped[0] >= 0:
            at = stopped[0].item()
            trace = _ended(trace, plan, run.shape, at)
    used = max(outcome.devices for outcome in outcomes)
    return Trajectory(trace, {**trace.attrs, "members": members, "devices": used}, kept, at, run)


def _concatenated(leaves: Any) -> Any:
    return np.concatenate(leaves) if isinstance(leaves[0], np.ndarray) else jnp.concatenate(leaves)


def _place(trace: xr.Dataset, name: str, label: Any) -> int:
    """Where a label lies along a dimension; a label read off another precision counts."""
    values = trace[name].values
    if np.ndim(label) or (isinstance(label, str | bool) and values.dtype.kind != "b"):
        raise TypeError(f"{name} takes one label; got {checks.shown(label)}")
    apart = np.abs(values.astype(float) - float(label))
    if not apart.min() <= 1e-6 * abs(float(label)):
        raise ValueError(f"{name} must be one of {checks.shown(values.tolist())}; got {checks.shown(label)}")
    return int(np.argmin(apart))


def _cut(trace: xr.Dataset, shape: Outline, at: int | float) -> xr.Dataset:
    """The trace up to the step at which the run stopped."""
    axes = {axis for variable in trace.data_vars.values() if (axis := recording_axis(variable, shape))}
    clock = np.int32 if shape.axis == "step" else jnp.result_type(float)
    return trace.isel({axis: trace[axis].values.astype(clock) <= at for axis in axes})


def _ended(trace: xr.Dataset, plan: Plan, shape: Outline, at: int | float) -> xr.Dataset:
    """The same of one run: the last recording is of the state in which it stopped, unless the steps were listed."""
    place = int(np.searchsorted(plan.times, at))
    for name in shape.probes:
        own, row = f"{name}_{shape.axis}", plan.last_rows[name][place]
        axis = own if own in trace.dims else shape.axis
        if row != plan.rows[name][place]:  # between two recordings: the next one's row has it
            steps = trace[axis].values[: row + 1].copy()
            steps[row] = at
            trace = trace.isel({axis: slice(row + 1)}).assign_coords({axis: steps})
    return _cut(trace, shape, at)


def _joined(before: xr.Dataset, after: xr.Dataset, shape: Outline) -> xr.Dataset:
    """Two traces that follow one another; the second says how the run ended."""
    parts = {}
    for name, late in after.data_vars.items():
        if name not in before:
            parts[name] = late
            continue
        early = before[name]
        axes = [recording_axis(part, shape) for part in (early, late)]
        own = next((axis for axis in axes if axis != shape.axis), shape.axis)  # a cadence of its own in either part
        if axes[0] is None or axes[1] is None or own is None:
            parts[name] = late
        else:
            parts[name] = xr.concat([early.rename({axes[0]: own}), late.rename({axes[1]: own})], dim=own, join="exact")
    return xr.Dataset(parts)
