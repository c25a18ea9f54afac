"""The result of a run: the trace of the probes, the trained model, and the state from which it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope import checks
from dynascope.dynamics.driver import Run, run_members
from dynascope.dynamics.schedule import Record, Request, Schedule, Times, make_schedule
from dynascope.dynamics.schema import make_schema, recording_axis
from dynascope.dynamics.stopping import Stop, as_condition
from dynascope.probes.descriptions import describe_trace
from dynascope.probes.probe import Snapshot

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The record of a run and its end state, from which it can be resumed.

    `descend`, `flow`, `iterate` and `central_flow` return one of a single model, `ensemble` one of many members.
    """

    trace: xr.Dataset
    """The probes' values, with the dimension `step` (or `time`) after those of the ensemble; `diverged_at`, and
    `stopped_at` if there is a stopping condition (-1: never). The attribute `loop` says how the steps were taken."""
    statistics: Mapping[str, float]
    """`compile_seconds`, `run_seconds`, `members`, and `devices`, the number of devices used."""
    state: PyTree
    """The end state (with the members along the first axis for an ensemble): parameters, the optimizer's state, and the
    probes' states. None if it was not kept."""
    at: int | float
    """The step, or the time of a flow, that it has reached."""
    run: Run
    """The request that the run fulfilled."""

    @property
    def model(self) -> PyTree:
        """The trained model, of the type that was given; for an ensemble, take a `member` first."""
        return self.snapshot().model

    def snapshot(self) -> Snapshot:
        """Return the snapshot at the end of a single run, as a probe sees it.

        Returns:
            The model, the objective and the optimizer's state.
        """
        if self.run.dims:
            raise ValueError(f"an ensemble has many models; take one with {self._call()}.model")
        if self.state is None:
            raise ValueError("the state was not kept; run the ensemble with keep=True")
        process = self.run.member(**self.run.fixed)
        now = jnp.asarray(self.at, jnp.int32 if self.run.outline.axis == "step" else None)
        return process.snapshot(self.state[0], now)

    def member(self, **labels: float | np.number) -> Trajectory:
        """Take one member of an ensemble, such as `many.member(seed=3, learning_rate=0.1)`.

        Args:
            **labels: One label for each dimension of the ensemble.

        Returns:
            The member as a single run.
        """
        run = self.run
        if not run.dims:
            raise ValueError("this is a single run, not an ensemble: its model is .model")
        if set(labels) != set(run.dims):
            raise ValueError(f"give one label for each dimension, {self._call()}; got {checks.shown(labels)}")
        if self.state is None:
            raise ValueError("the members' states were not kept; run the ensemble with keep=True")
        places = [_place(self.trace, name, labels[name]) for name in run.dims]
        number = int(np.ravel_multi_index(places, tuple(map(len, run.dims.values()))))
        setting, state = jax.tree.map(lambda leaf: jnp.asarray(leaf[number]), (dict(run.settings), self.state))
        alone = run._replace(settings={}, fixed={**setting, **run.fixed}, dims={})
        trace = self.trace.isel(dict(zip(run.dims, places, strict=True)))
        at = self.at
        if "stopped_at" in trace and (stopped := trace.stopped_at.item()) >= 0:
            at = stopped
            trace = _cut(trace, at)
        return Trajectory(trace, {**self.statistics, "members": 1}, state, at, alone)

    def resume(
        self,
        *,
        steps: int | None = None,
        times: Times = None,
        record: Record = None,
        stop: Stop | EllipsisType = ...,
    ) -> Trajectory:
        """Resume from the state in which the run ended.

        The parameters are those of one longer run, to the same bits on a CPU: the optimizer's state, the order of the
        data and the clock continue. Recordings keep their cadence, and the step at which the run was cut is recorded
        too.

        Args:
            steps: How many more steps to take.
            times: The further times to record, for a flow.
            record: As in `ensemble`. If it was a list of steps, give the further ones.
            stop: Another stopping condition, or None for none; by default the same one is tested again.

        Returns:
            The trajectory of the whole run.
        """
        run = self.run if isinstance(stop, EllipsisType) else self.run._replace(stop=as_condition(stop))
        if self.state is None:
            raise ValueError("the state was not kept; run the ensemble with keep=True to resume it")
        if run.dims and "stopped_at" in self.trace and bool((self.trace.stopped_at >= 0).any()):
            raise ValueError(f"members stopped at different steps; resume them one by one, {self._call()}.resume(...)")
        request = Request(steps, record, times).more(run.outline.axis, self.at, run.record)
        after = carry_out(run, request, since=self.at, state=self.state)
        seconds = {key: self.statistics[key] + after.statistics[key] for key in ("compile_seconds", "run_seconds")}
        trace = _join(self.trace, after.trace, tuple(run.dims)).assign_attrs({**after.trace.attrs, **seconds})
        run = run._replace(record=after.run.record) if run.record is None else run
        return Trajectory(
            describe_trace(trace, run.outline.probes), {**after.statistics, **seconds}, after.state, after.at, run
        )

    def save(self, path: str | Path) -> Path:
        """Write it to one file, completely or not at all, without pickles; `load_trajectory` reads it.

        Args:
            path: The file; the suffix .npz is added if it is missing.

        Returns:
            The path of the file.
        """
        from dynascope.lab.trajectories import save

        return save(self, path)

    def plot(self, names: Sequence[str] | None = None) -> Figure:
        """Draw the record, one panel for each probe; see `figures.plot_trace`.

        Args:
            names: The variables to draw. Default: all, without the further entries of a probe.

        Returns:
            The figure.
        """
        from dynascope.lab.trajectories import plot

        return plot(self, names)

    def _repr_html_(self) -> str:
        """For notebooks: the step reached, the time it took, a small curve of each recorded number, the trace."""
        from dynascope.lab.trajectories import as_html

        return as_html(self)

    def _call(self) -> str:
        return f"member({', '.join(f'{name}=...' for name in self.run.dims)})"

    def __repr__(self) -> str:
        members = f", {self.run.members} members" if self.run.dims else ""
        names = ", ".join(map(str, self.trace.data_vars))
        return f"Trajectory(at {self.run.outline.axis} {self.at:g}{members}; {names})"


def carry_out(run: Run, request: Request, *, since: int | float | None = None, state: PyTree = None) -> Trajectory:
    """Run a request from its start, or from an earlier end state, and label the record."""
    outline, dims = run.outline, tuple(run.dims)
    schedule = make_schedule(request, outline.axis, outline.probes, stop=run.stop, since=since)
    run = run._replace(record=schedule.record)
    schema = make_schema(outline, schedule.recorded, run.dims)
    outcome = run_members(run, schedule, schema, state)
    each = {"diverged_at": outcome.diverged_at}
    if run.stop is not None:
        each["stopped_at"] = outcome.stopped_at
    seconds = {"compile_seconds": outcome.compile_seconds, "run_seconds": outcome.run_seconds}
    trace = schema.label(outcome.records, **each).assign_attrs({**seconds, "loop": outcome.loop})
    at = schedule.ticks.times[-1].item()
    if run.stop is not None and dims:
        trace = _mask(trace, dims)
    elif run.stop is not None and outcome.stopped_at >= 0:
        at = outcome.stopped_at.item()
        trace = _end(trace, schedule, outline.axis, at)
    statistics = {**seconds, "members": math.prod(map(len, run.dims.values())), "devices": outcome.devices}
    return Trajectory(describe_trace(trace, outline.probes), statistics, outcome.state, at, run)


def _place(trace: xr.Dataset, name: str, label: float | np.number) -> int:
    """The index of a label along a dimension; labels rounded to another precision match."""
    values = trace[name].values
    if np.ndim(label) or (isinstance(label, str | bool) and values.dtype.kind != "b"):
        raise TypeError(f"{name} takes one label; got {checks.shown(label)}")
    apart = np.abs(values.astype(float) - float(label))
    if not apart.min() <= 1e-6 * abs(float(label)):
        raise ValueError(f"{name} must be one of {checks.shown(values.tolist())}; got {checks.shown(label)}")
    return int(np.argmin(apart))


def _mask(trace: xr.Dataset, dims: tuple[str, ...]) -> xr.Dataset:
    """The trace with NaN after the `stopped_at` of each member that stopped: nothing was recorded there."""
    stopped = trace.stopped_at
    for name, variable in trace.data_vars.items():
        if (axis := recording_axis(trace, str(name), dims)) is not None:
            early = trace[axis].astype(stopped.dtype) <= stopped
            trace[name] = variable.where((stopped < 0) | early).transpose(*variable.dims)
    return trace


def _cut(trace: xr.Dataset, at: int | float) -> xr.Dataset:
    """The trace of a single run up to the step at which it stopped."""
    axes = {axis for name in trace.data_vars if (axis := recording_axis(trace, str(name), ()))}
    clock = np.int32 if isinstance(at, int) else jnp.result_type(float)
    return trace.isel({axis: trace[axis].values.astype(clock) <= at for axis in axes})


def _end(trace: xr.Dataset, schedule: Schedule, clock: str, at: int | float) -> xr.Dataset:
    """The same, with the state in which it stopped as the last recording, unless the steps were listed."""
    place = int(np.searchsorted(schedule.ticks.times, at))
    for name in schedule.recorded:
        own, row = f"{name}_{clock}", schedule.ticks.last_rows[name][place]
        axis = own if own in trace.dims else clock
        if row != schedule.ticks.rows[name][place]:  # between two recordings: the next one's row has it
            steps = trace[axis].values[: row + 1].copy()
            steps[row] = at
            trace = trace.isel({axis: slice(row + 1)}).assign_coords({axis: steps})
    return _cut(trace, at)


def _join(before: xr.Dataset, after: xr.Dataset, dims: tuple[str, ...]) -> xr.Dataset:
    """Two traces joined end to end; the attributes at the end are those of the second."""
    parts = {}
    for name, late in after.data_vars.items():
        axes = [recording_axis(trace, str(name), dims) for trace in (before, after) if name in trace]
        if len(axes) < 2 or axes[0] is None or axes[1] is None:
            parts[name] = late
        else:
            own = max(axes, key=lambda axis: axis not in ("step", "time"))  # a cadence of its own in either part
            early = before[name].rename({axes[0]: own})
            parts[name] = xr.concat([early, late.rename({axes[1]: own})], dim=own, join="exact")
    return xr.Dataset(parts)
