"""Watching a run: a monitor chooses a part of the record, and receives it as it is written.

Only that part leaves the device, only once, and only between two slices of the compiled loop. A run that nobody watches
pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from dynascope.dynamics.program import Progress
from dynascope.dynamics.schedule import Schedule
from dynascope.dynamics.schema import Schema


class Wanted(NamedTuple):
    """The part of a variable that a monitor wants: members and rows, by increasing number."""

    members: np.ndarray
    rows: np.ndarray


class Rows(NamedTuple):
    """The new values of a variable since the last call: `values[i, j]` belongs to `members[i]` in `rows[j]`."""

    variable: str
    members: np.ndarray
    rows: np.ndarray
    values: np.ndarray


class Watch:
    """Hands a monitor the new part of the record that it watches, after each slice."""

    def __init__(
        self,
        schema: Schema,
        schedule: Schedule,
        wanted: Mapping[str, Wanted],
        hand_out: Callable[[Sequence[Rows]], None],
    ):
        self._schema, self._times, self._hand_out = schema, schedule.ticks.times, hand_out
        self._wanted = {name: want for name, want in wanted.items() if name in schema.variables}
        probes = {schema.variables[name].probe for name in self._wanted}
        sizes = schedule.sizes
        self._rows = {probe: np.cumsum(schedule.ticks.rows[probe] < sizes[probe]) for probe in probes}
        """For each probe the number of rows written after each stop."""
        self._batch, self._done = (-1, -1), dict[str, int]()

    def update(self, progress: Progress, now: float, first: int, count: int, batched: bool) -> None:
        """Hand out the rows of members `first` to `first + count` that were written up to `now`."""
        if self._batch != (first, count):
            self._batch, self._done = (first, count), {}
        stops = int(np.searchsorted(self._times, now, side="right"))
        fresh = []
        for name, want in self._wanted.items():
            done, since = int(self._rows[self._schema.variables[name].probe][stops - 1]), self._done.get(name, 0)
            rows = want.rows[(want.rows >= since) & (want.rows < done)]
            members = want.members[(want.members >= first) & (want.members < first + count)]
            if rows.size and members.size:
                fresh.append(self._fetch(name, progress, members, rows, members - first if batched else None))
                self._done[name] = done
        if fresh:
            self._hand_out(fresh)

    def _fetch(
        self, name: str, progress: Progress, members: np.ndarray, rows: np.ndarray, places: np.ndarray | None
    ) -> Rows:
        variable = self._schema.variables[name]
        values = _pick(variable.of(progress.records), places, rows)
        stopped = np.asarray(progress.stopped_at)
        if np.any(stopped >= 0):  # nothing is recorded for a member that has stopped
            ends = np.atleast_1d(stopped if places is None else stopped[places])
            late = (ends[:, None] >= 0) & (variable.times[rows][None, :] > ends[:, None])
            values = np.where(late.reshape(*late.shape, *(1,) * len(variable.shape)), np.nan, values)
        return Rows(name, members, rows, values)


def _pick(leaf: jax.Array | np.ndarray, places: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """These members and rows of a record, as a copy. On a CPU the record is read in place; from another device they
    are gathered first, in few different shapes, since each one is compiled."""
    devices = list(leaf.devices()) if isinstance(leaf, jax.Array) else []
    if not devices or (len(devices) == 1 and devices[0].platform == "cpu"):
        values = np.asarray(leaf)
        return values[rows][None] if places is None else values[np.ix_(places, rows)]
    size = 1 << (len(rows) - 1).bit_length()
    padded = np.resize(rows, size)
    if places is None:
        return np.asarray(_gather(leaf, padded, axis=0))[None, : len(rows)]
    return np.asarray(_gather(_gather(leaf, places, axis=0), padded, axis=1))[:, : len(rows)]


@partial(jax.jit, static_argnames="axis")
def _gather(leaf: jax.Array, places: np.ndarray, axis: int) -> jax.Array:
    return leaf.take(places, axis=axis)
