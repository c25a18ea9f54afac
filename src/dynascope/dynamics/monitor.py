"""Monitors of a run in progress: they receive progress, checkpoints, and the watched part of the record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from dynascope.dynamics.program import Progress
from dynascope.dynamics.schedule import Schedule
from dynascope.dynamics.schema import Schema
from dynascope.dynamics.watching import Rows, Wanted, Watch


class Monitor:
    """Receives progress and keeps checkpoints. This one does nothing; subclass it and pass it to `monitored_by`."""

    keep_every: float = math.inf
    """Seconds between two calls of `keep`; infinite for a monitor that keeps nothing."""
    watch_every: float = math.inf
    """Seconds between two calls of `watched`; the compiled loop pauses as often."""
    _runs: int = 0

    def next_name(self) -> str:
        """Name the run that begins now: runs are numbered in the order in which they start.

        Returns:
            The number as text, "001" for the first run.
        """
        self._runs += 1
        return f"{self._runs:03d}"

    def progress(self, done: float, total: float, what: str) -> None:
        """Receive progress.

        Args:
            done: Member-steps taken so far (units of time for a flow); models measured so far by `observe`.
            total: Member-steps of the whole run; 0 if the number of models is not known.
            what: The unit, such as "steps" or "time".
        """

    def kept_names(self) -> Iterable[str]:
        """List the checkpoints there are. A run can continue on another number of devices only if they are listed.

        Returns:
            The names that were given to `keep`.
        """
        return ()

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        """Read a checkpoint.

        Args:
            name: The name that was given to `keep`.

        Returns:
            The arrays that `keep` last received under this name, or None.
        """
        return None

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a checkpoint, replacing an earlier one of this name, completely or not at all.

        Args:
            name: The name of the checkpoint.
            arrays: Its contents.
        """

    def watch(self, schema: Schema) -> Mapping[str, Wanted]:
        """Choose the part of the record to hand out during a run that begins now.

        Args:
            schema: The variables that the run records.

        Returns:
            The members and rows to hand out, by the names of variables.
        """
        return {}

    def watched(self, found: Sequence[Rows]) -> None:
        """Receive the wanted part of the record since the last call.

        Args:
            found: One entry for each variable with new rows.
        """


_current: ContextVar[Monitor | None] = ContextVar("dynascope_monitor", default=None)


def current_monitor() -> Monitor:
    """Find the active monitor.

    Returns:
        The monitor of the innermost `monitored_by`, or one that does nothing.
    """
    return _current.get() or Monitor()


@contextmanager
def monitored_by(monitor: Monitor) -> Iterator[Monitor]:
    """Let a monitor see every run that starts inside the `with` block.

    Args:
        monitor: The monitor: it receives progress, keeps checkpoints, and watches the record.

    Returns:
        A context manager that yields the monitor.
    """
    token = _current.set(monitor)
    try:
        yield monitor
    finally:
        _current.reset(token)


class Session:
    """The active monitor's part in one run, which begins now."""

    def __init__(self, schema: Schema, schedule: Schedule):
        self.monitor = current_monitor()
        self.name = self.monitor.next_name()
        self.kept_names = set(self.monitor.kept_names())
        """The checkpoints that may belong to this run."""
        wanted = self.monitor.watch(schema)
        self._watch = Watch(schema, schedule, wanted, self.monitor.watched) if wanted else None
        self._schema, self._schedule = schema, schedule

    def report(self, progress: Progress, now: float, first: int, count: int) -> None:
        """Tell the monitor that members `first` to `first + count` have reached step (time) `now`."""
        dims, span, ticks = self._schema.dims, self._schedule.span or 1.0, self._schedule.ticks
        if self._watch is not None:
            self._watch.update(progress, now, first, count, bool(dims))
        done = first * span + (now - float(ticks.since)) * count
        members = math.prod(map(len, dims.values()))
        self.monitor.progress(done, members * span, "steps" if ticks.times.dtype.kind == "i" else "time")
