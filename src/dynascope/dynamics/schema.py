"""The schema of a trace: every variable's name, dimensions, shape and coordinates, known before the run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope import checks
from dynascope.dynamics.process import Process
from dynascope.dynamics.stopping import condition_met
from dynascope.probes.probe import Coords, Probe, Snapshot, Value

MemberLike = Callable[..., Process]
"""A `ds.Member`, or any function of settings that returns a process."""

inside_member: ContextVar[bool] = ContextVar("dynascope_inside_member", default=False)
"""Whether an ensemble's member is being called: no whole run can be part of it."""
RESERVED = ("diverged_at", "stopped_at")
"""Variables that every trace has."""


class Outline(NamedTuple):
    """The result of an abstract evaluation of one member."""

    axis: str
    """The name of the recording dimension: `step` or `time`."""
    probes: dict[str, Probe]
    values: dict[str, PyTree]
    """Shapes of each probe's return value."""
    coords: dict[str, Coords]
    """The labels along each probe's own dimensions."""
    work: int
    """The approximate number of multiplications per step of one member."""
    size: int
    """Numbers in one member's state."""
    nbytes: int
    """Bytes of one member's arrays: its data, its state, and one row of each record."""

    def record_bytes(self, rows: Mapping[str, int]) -> int:
        """Bytes of one member's record, given the number of rows of each probe."""
        return sum(rows[name] * _nbytes(value) for name, value in self.values.items())


class Variable(NamedTuple):
    """A variable of the trace."""

    probe: str
    entry: str
    """The entry of the probe's value, if that is a mapping; else "value"."""
    axis: str
    """The recording dimension: the run's, or `<probe>_step` for a probe with a cadence of its own."""
    times: np.ndarray
    """The steps, or the times of a flow, of its rows."""
    dims: tuple[str, ...]
    """Its own dimensions, after those of the ensemble and the axis."""
    shape: tuple[int, ...]
    coords: Mapping[str, np.ndarray]
    """The labels along its own dimensions, if any."""

    def of(self, records: Mapping[str, PyTree]) -> jax.Array | np.ndarray:
        """Its values in the records of a run."""
        record = records[self.probe]
        return record[self.entry] if isinstance(record, Mapping) else record


class Schema(NamedTuple):
    """The trace without its values."""

    dims: Mapping[str, np.ndarray]
    """The dimensions of the ensemble with their labels; none for a single run."""
    variables: Mapping[str, Variable]

    def label(self, records: Mapping[str, PyTree], **each: np.ndarray) -> xr.Dataset:
        """Make the trace: the ensemble's dimensions, then the recording dimension, then each probe's own.

        Args:
            records: The recorded values of each probe, with the members along the first axis.
            each: Further variables with one value for each member.
        """
        sizes = tuple(map(len, self.dims.values()))

        def reshape(values: jax.Array | np.ndarray) -> np.ndarray:
            array = np.asarray(values)
            return array.reshape(*sizes, *array.shape[1:]) if sizes else np.array(array)

        coords, variables = dict(self.dims), {}
        for name, variable in self.variables.items():
            coords |= {variable.axis: variable.times, **variable.coords}
            variables[name] = ((*self.dims, variable.axis, *variable.dims), reshape(variable.of(records)))
        variables |= {name: (tuple(self.dims), reshape(values)) for name, values in each.items()}
        return xr.Dataset(variables, coords)


def make_schema(outline: Outline, recorded: Mapping[str, np.ndarray], dims: Mapping[str, np.ndarray]) -> Schema:
    """Name everything that a run records.

    Probes that follow the run share the dimension `step` (or `time`); one with a cadence of its own has `<probe>_step`.
    A dimension that an earlier probe has with other labels gets the probe's name, too: `<probe>_index`.

    Args:
        outline: The result of an abstract evaluation.
        recorded: For each probe the steps (times) at which it records.
        dims: The dimensions of the ensemble with their labels.
    """
    common = next((at for name, at in recorded.items() if outline.probes[name].every is None), None)
    variables: dict[str, Variable] = {}
    taken: dict[str, tuple[int, Any]] = {}
    for name, probe in outline.probes.items():
        times, labels = recorded[name], outline.coords[name]
        shares = common is not None and np.array_equal(times, common)
        axis = outline.axis if shares else f"{name}_{outline.axis}"
        for variable, entry, leaf in _entries(name, outline.values[name]):
            names = probe.dims.get(entry, ()) if isinstance(probe.dims, Mapping) else probe.dims
            own = tuple(names) or tuple(f"{variable}_{i}" for i in range(len(leaf.shape)))
            if len(own) != len(leaf.shape):
                has = f"{len(leaf.shape)} dimensions in its value '{entry}', but {len(own)} names: {own}"
                raise ValueError(f"probe '{name}': {has}")
            renamed, coords = [], {}
            for dim, size in zip(own, leaf.shape, strict=True):
                along = (size, np.asarray(labels[dim]).tolist() if dim in labels else None)
                renamed.append(dim if taken.setdefault(dim, along) == along else f"{name}_{dim}")
                if dim in labels:
                    coords[renamed[-1]] = np.asarray(labels[dim])
            variables[variable] = Variable(name, entry, axis, times, tuple(renamed), tuple(leaf.shape), coords)
    return Schema(dims, variables)


def examine(
    member: MemberLike, setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree], stop: Probe | None = None
) -> Outline:
    """Evaluate one member abstractly, and check its parts."""
    try:
        inspect.signature(member).bind(**setting, **fixed)
    except TypeError:
        given = ", ".join(f"{name}=..." for name in [*setting, *fixed])
        raise TypeError(f"the member is called as member({given}), but it takes {inspect.signature(member)}") from None
    seen: list[tuple[str, dict[str, Probe], dict[str, Coords], int]] = []

    def evaluate(setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> tuple[PyTree, PyTree, PyTree]:
        process = _call(member, setting, fixed)
        process.check()
        state = process.start()
        snapshot = process.snapshot(state, jnp.asarray(0, jnp.int32 if process.axis == "step" else None))
        values = {name: _measure(name, probe, snapshot) for name, probe in process.probes.items()}
        if stop is not None:
            condition_met(stop, snapshot)
        probes = dict(process.probes)
        coords = {name: own(snapshot) if callable(own := probe.coords) else own for name, probe in probes.items()}
        seen.append((process.axis, probes, coords, process.work(state)))
        return eqx.filter(process, eqx.is_array), state, values

    arrays, state, values = eqx.filter_eval_shape(evaluate, setting, fixed)
    axis, probes, coords, work = seen[0]
    _check_names(values, axis, [*setting])
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    return Outline(axis, probes, values, coords, work, size, _nbytes((arrays, state, values)))


def recording_axis(trace: xr.Dataset, name: str, dims: Sequence[str]) -> str | None:
    """The dimension along which a variable was recorded, after those of the ensemble; None if it was not."""
    return None if name in RESERVED else str(trace[name].dims[len(dims)])


def _call(member: MemberLike, setting: Mapping[str, PyTree], fixed: Mapping[str, PyTree]) -> Process:
    token = inside_member.set(True)
    try:
        process = member(**setting, **fixed)
    except TypeError as error:
        if not re.search(r"\btraced array|Tracer\(", str(error)):
            raise
        what = "shapes, Python numbers or `if` conditions; make this one a static field of the member"
        raise TypeError(f"settings are traced, so they cannot determine {what}") from error
    finally:
        inside_member.reset(token)
    if not isinstance(process, Process):
        got = checks.shown(process)
        raise TypeError(f"an ensemble's member must return a Descent, Flow, Map or CentralFlow; got {got}")
    return process


def _measure(name: str, probe: Probe, snapshot: Snapshot) -> Value:
    """The shapes that a probe records; errors name the usual slips of a user's function."""
    try:
        value = probe.measure(snapshot, probe.initial_state(snapshot))[0]
    except jax.errors.ConcretizationTypeError:
        raise TypeError(f"probe '{name}' must be made of JAX operations; it turns an array into a number") from None
    except AttributeError as error:
        how = "a plain function is called with the model, ds.probes.probe(function) with the snapshot"
        raise TypeError(f"probe '{name}' failed ({error}): {how}") from error
    parts = value.values() if isinstance(value, Mapping) else [value]
    if any(not isinstance(part, jax.Array) for part in parts):
        raise TypeError(f"probe '{name}' must return a JAX array, or a dict of arrays; got {checks.shown(value)}")
    return value


def _entries(name: str, value: PyTree) -> Iterator[tuple[str, str, jax.ShapeDtypeStruct]]:
    """The variables that a probe records: name in the trace, entry of the value, shape."""
    for entry, leaf in value.items() if isinstance(value, Mapping) else [("value", value)]:
        yield name if entry == "value" else f"{name}_{entry}", entry, leaf


def _check_names(values: Mapping[str, PyTree], axis: str, dims: Sequence[str]) -> None:
    """Check that every variable and dimension of the trace has a name of its own."""
    taken: dict[str, str] = {}
    for name in dims:
        if name in (*RESERVED, axis, *values, *(f"{probe}_{axis}" for probe in values)):
            raise ValueError(f"the ensemble's dimension '{name}' must be renamed: the trace has its own '{name}'")
    for name, value in values.items():
        for variable, _, _ in _entries(name, value):
            if variable in (*RESERVED, axis):
                raise ValueError(f"probe '{name}' must not record '{variable}': every trace has one of its own")
            if variable in taken:
                raise ValueError(f"probes '{taken[variable]}' and '{name}' both record '{variable}': rename one")
            taken[variable] = name


def _nbytes(tree: PyTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
