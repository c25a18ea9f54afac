"""What is recorded: at which steps, how many members side by side, and the labeled trace that it becomes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope import checks
from dynascope.dynamics.loop import Member, Outcome, Plan, met
from dynascope.dynamics.on_chip import FORBIDDEN, Fit, fit
from dynascope.dynamics.process import Process
from dynascope.probes.probe import Probe, Snapshot

Record = int | Sequence[int] | np.ndarray | None
Times = Sequence[float] | np.ndarray | None

LAST_STEP = 2**31 - 1
"""Steps are counted in 32 bits."""
VMAP_UP_TO = 1500
"""On a CPU, the work per step up to which members are cheaper side by side (vmap) than one after another: a step of
less is dominated by the overhead of its many small operations (see docs/ensembles.md for the measurement)."""
CPU_WIDTH = 512
"""On a CPU, how many members go side by side: enough to fill the arithmetic, few enough to stay in cache."""
PAUSES = 128
"""A discrete run pauses at least so often between recordings, so that it can be monitored and interrupted."""
inside_member: ContextVar[bool] = ContextVar("dynascope_inside_member", default=False)
"""Whether an ensemble's member is being called: no whole run can be part of it."""
RESERVED = ("diverged_at", "stopped_at")
"""Variables that every trace has."""


def linear_steps(steps: int, every: int = 1) -> np.ndarray:
    """0, every, 2 every, ..., and the last step, as an increasing array of int32."""
    steps = checks.whole("steps", steps, at_least=0, at_most=LAST_STEP)
    every = checks.whole("every", every, at_least=1, at_most=LAST_STEP)
    return np.union1d(np.arange(0, steps + 1, every), [steps]).astype(np.int32)


def log_steps(steps: int, count: int = 200) -> np.ndarray:
    """About `count` distinct steps, evenly spaced in the logarithm, with 0 and the last step, as int32."""
    steps = checks.whole("steps", steps, at_least=0, at_most=LAST_STEP)
    count = checks.whole("count", count, at_least=2, at_most=LAST_STEP)
    if steps == 0:
        return np.zeros(1, np.int32)
    return np.union1d([0, steps], np.rint(np.geomspace(1, steps, min(count, steps + 1)))).astype(np.int32)


def usual_cadence(steps: int) -> int:
    """A cadence that gives about a thousand recordings."""
    return max(1, steps // 1000)


def record_steps(name: str, record: Record, steps: int, since: int | None) -> np.ndarray:
    """The steps after `since` (from a start: from step 0 on) that `record` asks for: every so many, or these."""
    if isinstance(record, bool | str | bytes | Mapping):
        raise TypeError(f"{name} must be an integer, a list of steps, or None; got {checks.shown(record)}")
    first = 0 if since is None else since + 1
    found: np.ndarray
    if record is None or np.ndim(record) == 0:
        every = usual_cadence(steps) if record is None else checks.whole(name, record, at_least=1, at_most=LAST_STEP)
        found = np.union1d(np.arange(-(-first // every) * every, steps + 1, every), [steps])
    else:
        asked = np.asarray(record)
        if asked.ndim != 1 or asked.dtype.kind not in "iu":
            raise TypeError(f"{name} must hold integers; got {checks.shown(record)}")
        if asked.size == 0 or asked.min() < 0 or (name == "record" and 0 < steps < asked.max()):
            raise ValueError(f"{name} must hold steps from 0 to {steps}; got {checks.shown(record)}")
        found = np.unique(asked[asked <= steps])
    return found[found >= first].astype(np.int32)


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
    on_chip: Fit
    """Whether its steps can be one kernel."""


def outline(
    member: Member,
    setting: Mapping[str, PyTree],
    fixed: Mapping[str, PyTree],
    stop: Probe | None = None,
    on_chip: bool | None = False,
) -> Outline:
    """Trace one member abstractly, and check what it is made of."""
    try:
        inspect.signature(member).bind(**setting, **fixed)
    except TypeError:
        given = ", ".join(f"{name}=..." for name in [*setting, *fixed])
        raise TypeError(f"the member is called as member({given}), but it takes {inspect.signature(member)}") from None
    seen: dict[str, Any] = {}

    def trace(setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> Any:
        token = inside_member.set(True)
        try:
            process = member(**setting, **fixed)
        except TypeError as error:
            if not re.search(r"\btraced array|Tracer\(", str(error)):
                raise
            what = "a shape, a Python number or the condition of an `if`, which must be known before it is compiled"
            raise TypeError(f"the member must not make a setting {what}; give it as a field of the member") from error
        finally:
            inside_member.reset(token)
        if not isinstance(process, Process):
            got = checks.shown(process)
            raise TypeError(f"an ensemble's member must return a Descent, Flow, Map or CentralFlow; got {got}")
        process.check()
        state = process.start()
        snapshot = process.snapshot(state, jnp.asarray(0, jnp.int32 if process.axis == "step" else None))
        seen.update(axis=process.axis, probes=dict(process.probes), work=process.work(state))
        seen.update(on_chip=FORBIDDEN if on_chip is False else fit(process, state, bool(on_chip)))
        values = {}
        for name, probe in process.probes.items():
            values[name] = _measured(name, probe, snapshot)
            parts = values[name].values() if isinstance(values[name], Mapping) else [values[name]]
            if any(not isinstance(part, jax.Array) for part in parts):
                got = checks.shown(values[name])
                raise TypeError(f"probe '{name}' must return a JAX array, or a dict of arrays; got {got}")
        if stop is not None:
            met(stop, snapshot)
        return eqx.filter(process, eqx.is_array), state, values

    arrays, state, values = eqx.filter_eval_shape(trace, setting, fixed)
    check_names(values, seen["axis"], [*setting])
    nbytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((arrays, state, values)))
    return Outline(process_bytes=nbytes, values=values, **seen)


def _measured(name: str, probe: Probe, snapshot: Snapshot) -> Any:
    """What a probe records; the usual slips of a function of one's own are named."""
    try:
        return probe.measure(snapshot, probe.initial_state(snapshot))[0]
    except jax.errors.ConcretizationTypeError:
        raise TypeError(f"probe '{name}' must be made of JAX operations; it turns an array into a number") from None
    except AttributeError as error:
        how = "a plain function is called with the model, ds.probes.probe(function) with the snapshot"
        raise TypeError(f"probe '{name}' failed ({error}): {how}") from error


def check_names(values: Mapping[str, Any], axis: str, dims: Sequence[str]) -> None:
    """Every variable and dimension of the trace has a name of its own."""
    taken: dict[str, str] = {}
    for name in dims:
        if name in (*RESERVED, axis, *values, *(f"{probe}_{axis}" for probe in values)):
            raise ValueError(f"the ensemble's dimension '{name}' must not be called so: the trace has its own '{name}'")
    for name, value in values.items():
        for key in value if isinstance(value, Mapping) else ("value",):
            variable = name if key == "value" else f"{name}_{key}"
            if variable in (*RESERVED, axis):
                raise ValueError(f"probe '{name}' must not record '{variable}': every trace has one of its own")
            if variable in taken:
                raise ValueError(f"probes '{taken[variable]}' and '{name}' both record '{variable}': rename one")
            taken[variable] = name


def plan_run(
    shape: Outline,
    steps: int | None,
    record: Record,
    times: Times,
    since: int | float | None = None,
    stop: Probe | None = None,
) -> tuple[Plan, dict[str, np.ndarray]]:
    """The plan from the start, or from `since` on, and for each probe the times at which it records."""
    begin = 0 if since is None else since
    if shape.axis == "time":
        if times is None or steps is not None or record is not None:
            raise ValueError("a flow is recorded at times=; it takes no steps= and no record=")
        if any(probe.every is not None for probe in (*shape.probes.values(), *([] if stop is None else [stop]))):
            raise ValueError("a flow is recorded at times=; every= is for steps")
        common = _flow_times(times, since)
        recorded = dict.fromkeys(shape.probes, common)
        pauses = [0.0] if since is None else []
        tested, number = common, jnp.result_type(float)
    else:
        if times is not None or steps is None:
            raise ValueError("give steps=, the number of steps to take; only a flow takes times=")
        after = None if since is None else int(since)
        common = record_steps("record", record, steps, after)
        recorded = {
            name: common if probe.every is None else record_steps(f"every of '{name}'", probe.every, steps, after)
            for name, probe in shape.probes.items()
        }
        sparse = steps - begin > 20 * PAUSES and len(common) < PAUSES
        pauses = np.linspace(begin, steps, PAUSES + 1).astype(np.int32)[1:] if sparse else [steps]
        pauses = [0, *pauses] if since is None else pauses
        every = None if stop is None else stop.every
        tested = common if every is None else record_steps("every of stop", every, steps, after)
        number = np.int32
    tested = tested if stop is not None else np.zeros(0)
    stops = np.unique(np.concatenate([pauses, tested, *recorded.values()])).astype(number)
    rows, last_rows, sizes = {}, {}, {}
    for name, at in recorded.items():
        rows[name] = np.full(len(stops), len(at), np.int32)
        rows[name][np.searchsorted(stops, at.astype(stops.dtype))] = np.arange(len(at), dtype=np.int32)
        sizes[name] = len(at)
        if stop is not None:
            every = record if np.array_equal(at, common) else shape.probes[name].every
            listed = every is not None and np.ndim(every) > 0  # exactly these: not where it stops
            last_rows[name] = rows[name] if listed else np.searchsorted(at.astype(number), stops).astype(np.int32)
    is_tested = np.isin(stops, tested.astype(stops.dtype))
    return Plan(stops, rows, last_rows, sizes, is_tested, np.asarray(begin, number)), recorded


def _flow_times(times: Times, since: int | float | None) -> np.ndarray:
    """The increasing times of a flow, all after `since` where it goes on."""
    asked = checks.array("times", times, ndim=1)
    found = np.unique(np.asarray(asked, float))
    if not np.all(np.isfinite(found)) or found[0] < 0:
        raise ValueError(f"times must be finite and not negative; got {checks.shown(times)}")
    clock = found.astype(jnp.result_type(float))
    if len(np.unique(clock)) < len(found):
        raise ValueError(f"times must be further apart than {clock.dtype} can tell; got {checks.shown(times)}")
    if since is not None and clock[0] <= since:
        raise ValueError(f"times must lie after {float(since):g}, where the flow is; got {found[0]:g}")
    return found


def choose_width(shape: Outline, plan: Plan, devices: Sequence[jax.Device]) -> int:
    """How many members to run side by side on each device."""
    if devices[0].platform == "cpu":
        return CPU_WIDTH if shape.work <= VMAP_UP_TO else 1
    records = sum(
        plan.sizes[name] * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(value))
        for name, value in shape.values.items()
    )
    memory = min((device.memory_stats() or {}).get("bytes_limit", 8 * 2**30) for device in devices)
    return max(1, int(memory // (4 * (shape.process_bytes + records))))


def label(
    outcomes: list[Outcome],
    shape: Outline,
    recorded: Mapping[str, np.ndarray],
    grid: Mapping[str, PyTree],
    dims: Mapping[str, int],
) -> xr.Dataset:
    """One dataset: the ensemble's dimensions, then the recording dimension, then each probe's own.

    Probes that follow the run share the dimension `step` (or `time`); one with a cadence of its own has `<probe>_step`.
    """
    coords: dict[str, Any] = dict(grid_labels(grid, dims))
    variables: dict[str, Any] = {}
    axes = axis_names(shape, recorded)
    for name, probe in shape.probes.items():
        axis = axes[name]
        coords[axis] = recorded[name]
        coords.update({key: np.asarray(value) for key, value in probe.coords.items()})
        parts = [outcome.records[name] for outcome in outcomes]
        entries = (
            {key: [part[key] for part in parts] for key in parts[0]} if isinstance(parts[0], dict) else {"value": parts}
        )
        for key, pieces in entries.items():
            variable = name if key == "value" else f"{name}_{key}"
            own = probe.dims.get(key, ()) if isinstance(probe.dims, Mapping) else probe.dims
            array = _stack(pieces, dims)
            rank = array.ndim - len(dims) - 1
            own = tuple(own) if own else tuple(f"{variable}_{i}" for i in range(rank))
            if len(own) != rank:
                raise ValueError(f"probe '{name}': {rank} dimensions in its value '{key}', but {len(own)} names: {own}")
            variables[variable] = ((*dims, axis, *own), array)
    diverged = _stack([outcome.diverged_at for outcome in outcomes], dims)
    variables["diverged_at"] = (tuple(dims), diverged)
    attrs = {
        "compile_seconds": sum(outcome.compile_seconds for outcome in outcomes),
        "run_seconds": sum(outcome.run_seconds for outcome in outcomes),
        "loop": outcomes[0].loop if shape.on_chip.reason is None else f"ordinary: {shape.on_chip.reason}",
    }
    return xr.Dataset(variables, coords, attrs)


def axis_names(shape: Outline, recorded: Mapping[str, np.ndarray]) -> dict[str, str]:
    """For each probe the name of its recording dimension: that of the run, or its own."""
    common = next((at for name, at in recorded.items() if shape.probes[name].every is None), None)
    shared = {name: common is not None and np.array_equal(at, common) for name, at in recorded.items()}
    return {name: shape.axis if shared[name] else f"{name}_{shape.axis}" for name in shape.probes}


def grid_labels(grid: Mapping[str, PyTree], dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The labels along each dimension of an ensemble: the values, or numbers where several go together."""
    found = {}
    for name, values in grid.items():
        leaves = jax.tree.leaves(values)
        found[name] = leaves[0] if len(leaves) == 1 and leaves[0].ndim == 1 else np.arange(dims[name])
    return found


def _stack(pieces: list[np.ndarray], dims: Mapping[str, int]) -> np.ndarray:
    if not dims:
        return np.array(pieces[0])
    whole = np.concatenate(pieces)
    return whole.reshape(*dims.values(), *whole.shape[1:])


def masked(trace: xr.Dataset, shape: Outline) -> xr.Dataset:
    """Of members that stopped, NaN after their `stopped_at`: nothing was recorded there."""
    stopped = trace.stopped_at
    for name, variable in trace.data_vars.items():
        axis = recording_axis(variable, shape)
        if axis is not None:
            early = trace[axis].astype(stopped.dtype) <= stopped
            trace[name] = variable.where((stopped < 0) | early).transpose(*variable.dims)
    return trace


def recording_axis(variable: xr.DataArray, shape: Outline) -> str | None:
    """The dimension along which a variable was recorded: the run's, or that of a probe with its own cadence."""
    axes = {shape.axis, *(f"{probe}_{shape.axis}" for probe in shape.probes)}
    return next((str(dim) for dim in variable.dims if dim in axes), None)
