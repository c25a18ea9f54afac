"""Watching a run: a monitor says which part of the record it wants, and gets it as it is written.

Only that part leaves the device, only once, and only between two slices of the compiled loop. A run that nobody watches
pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

if TYPE_CHECKING:
    from dynascope.dynamics.loop import Plan, Progress
    from dynascope.dynamics.plan import Outline
    from dynascope.dynamics.process import Monitor


class Variable(NamedTuple):
    """A variable that is going to be recorded."""

    probe: str
    entry: str
    """The entry of the probe's value, where that is a mapping."""
    axis: str
    times: np.ndarray
    """The steps, or the times of a flow, of its rows."""
    dims: tuple[str, ...]
    """Its own dimensions, after those of the ensemble and the axis."""
    shape: tuple[int, ...]
    coords: Mapping[str, np.ndarray]
    """The labels along its own dimensions, where they have some."""


class Recording(NamedTuple):
    """What a run is going to record: the trace without its values."""

    dims: Mapping[str, np.ndarray]
    """The dimensions of the ensemble with their labels; none for a single run."""
    variables: Mapping[str, Variable]


class Wanted(NamedTuple):
    """The part of a variable that a monitor wants: members and rows, by increasing number."""

    members: np.ndarray
    rows: np.ndarray


class Rows(NamedTuple):
    """What was recorded of a variable since the last time: `values[i, j]` is of `members[i]` in `rows[j]`."""

    variable: str
    members: np.ndarray
    rows: np.ndarray
    values: np.ndarray


def recording(
    shape: Outline, recorded: Mapping[str, np.ndarray], axes: Mapping[str, str], labels: Mapping[str, np.ndarray]
) -> Recording:
    """What a run with these probes, recorded at these times along these axes, is going to record."""
    found = {}
    for name, probe in shape.probes.items():
        value = shape.values[name]
        for entry, leaf in value.items() if isinstance(value, Mapping) else [("value", value)]:
            variable = name if entry == "value" else f"{name}_{entry}"
            own = probe.dims.get(entry, ()) if isinstance(probe.dims, Mapping) else probe.dims
            dims = tuple(own) or tuple(f"{variable}_{i}" for i in range(len(leaf.shape)))
            coords = {dim: np.asarray(probe.coords[dim]) for dim in dims if dim in probe.coords}
            found[variable] = Variable(name, entry, axes[name], recorded[name], dims, tuple(leaf.shape), coords)
    return Recording(labels, found)


class Watch:
    """Hands a monitor what it wants of the record, after each slice what is new in it."""

    def __init__(self, monitor: Monitor, what: Recording, plan: Plan):
        self.monitor, self.what, self.plan = monitor, what, plan
        self.wanted = {name: want for name, want in monitor.watch(what).items() if name in what.variables}
        probes = {what.variables[name].probe for name in self.wanted}
        self._rows = {probe: np.cumsum(plan.rows[probe] < plan.sizes[probe]) for probe in probes}
        """For each probe how many rows it has written after each recording."""
        self._batch, self._done = (-1, -1), dict[str, int]()

    def hand_out(self, progress: Progress, now: float, first: int, count: int, batched: bool) -> None:
        """Tell the monitor of the rows of members `first` to `first + count` that were written up to `now`."""
        if not self.wanted:
            return
        if self._batch != (first, count):
            self._batch, self._done = (first, count), {}
        recordings = int(np.searchsorted(self.plan.times, now, side="right"))
        found = []
        for name, want in self.wanted.items():
            probe = self.what.variables[name].probe
            done, since = int(self._rows[probe][recordings - 1]), self._done.get(name, 0)
            rows = want.rows[(want.rows >= since) & (want.rows < done)]
            members = want.members[(want.members >= first) & (want.members < first + count)]
            if rows.size and members.size:
                found.append(self._fetched(name, progress, members, rows, members - first if batched else None))
                self._done[name] = done
        if found:
            self.monitor.watched(found)

    def _fetched(
        self, name: str, progress: Progress, members: np.ndarray, rows: np.ndarray, places: np.ndarray | None
    ) -> Rows:
        variable = self.what.variables[name]
        record = progress.records[variable.probe]
        values = _picked(record[variable.entry] if isinstance(record, Mapping) else record, places, rows)
        stopped = np.asarray(progress.stopped_at)
        if np.any(stopped >= 0):  # nothing is recorded of a member that has stopped
            ends = np.atleast_1d(stopped if places is None else stopped[places])
            late = (ends[:, None] >= 0) & (variable.times[rows][None, :] > ends[:, None])
            values = np.where(late.reshape(*late.shape, *(1,) * len(variable.shape)), np.nan, values)
        return Rows(name, members, rows, values)


def watch(monitor: Monitor, what: Recording, plan: Plan) -> Watch | None:
    """The watch over a run, or None where its monitor wants nothing of it."""
    found = Watch(monitor, what, plan)
    return found if found.wanted else None


def _picked(leaf: jax.Array, places: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """These members and rows of a record, as a copy. On a CPU the record is read where it lies; from another device
    they are gathered first, in few different shapes, since each one is compiled."""
    devices: Sequence[Any] = list(leaf.devices())
    if len(devices) == 1 and devices[0].platform == "cpu":
        values = np.asarray(leaf)
        return values[rows][None] if places is None else values[np.ix_(places, rows)]
    size = 1 << (len(rows) - 1).bit_length()
    padded = np.resize(rows, size)
    if places is None:
        return np.asarray(_gather(leaf, padded, axis=0))[None, : len(rows)]
    return np.asarray(_gather(_gather(leaf, places, axis=0), padded, axis=1))[:, : len(rows)]


@partial(jax.jit, static_argnames="axis")
def _gather(leaf: PyTree, places: PyTree, axis: int) -> PyTree:
    return leaf.take(places, axis=axis)
