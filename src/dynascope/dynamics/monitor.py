"""Monitors of long runs: they hear of progress and keep checkpoints. The dynamics themselves do no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np


class Monitor:
    """A monitor that sees nothing and keeps nothing; the lab's monitor shows progress and writes checkpoints."""

    keep_every: float = 10.0
    """Seconds between two calls of `keep`."""
    _runs: int = 0

    def next_name(self) -> str:
        """The name of the run that begins now: runs are numbered in the order they are started."""
        self._runs += 1
        return f"{self._runs:03d}"

    def progress(self, done: float, total: float, what: str) -> None:
        """`done` of `total` member-steps (or units of flow time) of `what` are behind us."""

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        """What `keep` last received under this name, or None."""
        return None

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep these arrays under this name, replacing what was there, wholly or not at all."""


_current: ContextVar[Monitor | None] = ContextVar("dynascope_monitor", default=None)


def current_monitor() -> Monitor:
    """The monitor in force, or one that does nothing."""
    return _current.get() or Monitor()


@contextmanager
def monitored_by(monitor: Monitor) -> Iterator[Monitor]:
    """Let `monitor` see every run started inside the block."""
    token = _current.set(monitor)
    try:
        yield monitor
    finally:
        _current.reset(token)
