"""The lab's monitor: checkpoints of a long run on disk, its progress, and interrupts that are not lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from dynascope.dynamics.monitor import Monitor
from dynascope.dynamics.schema import Schema
from dynascope.dynamics.watching import Rows, Wanted
from dynascope.lab.arrays import read_arrays, write_arrays


class Progress(NamedTuple):
    """Progress of the whole work or of one part of a run. The number of parts is not known before the run ends."""

    what: str
    done: float
    total: float
    """0 if it is unknown."""
    rate: float
    """Per second, since this process began the part."""
    left: float
    """Seconds; infinite while the rate is unknown."""
    part: int = 0
    """The number of the part, from 1; 0 if `done` and `total` count the whole work."""


@dataclass
class Part:
    """The current part of a run: a training, an ensemble."""

    number: int = 0
    what: str = ""
    done: float = 0.0
    total: float = 0.0
    began: float = 0.0
    """The time at which it began, and the amount done by then."""
    at: float = 0.0

    def report(self, done: float, total: float, what: str) -> Progress:
        """Progress of this part. Another name or total, a step back, or a report after its end starts the next one."""
        now = time.monotonic()
        ended = self.done >= self.total or done < self.done
        if ended or (what, total) != (self.what, self.total):
            self.number, self.began, self.at = self.number + 1, now, done
        self.what, self.done, self.total = what, done, total
        rate = (done - self.at) / (now - self.began) if now > self.began else 0.0
        return Progress(what, done, total, rate, (total - done) / rate if rate > 0 else float("inf"), self.number)


class Watcher:
    """Observes a run while it is executed. The base class observes nothing."""

    every: float = 0.1
    """Seconds between two calls of `watched`."""

    def watch(self, schema: Schema) -> Mapping[str, Wanted]:
        """As `Monitor.watch`: a training or an ensemble begins; choose the part to receive."""
        return {}

    def watched(self, found: Sequence[Rows]) -> None:
        """As `Monitor.watched`."""

    def finished(self, step: str, folder: Path) -> None:
        """Called when a step of the run is done: its files are in the folder."""


class LabMonitor(Monitor):
    """Checkpoints as `.npz` files in a folder, each replaced wholly or not at all; progress to a callback."""

    def __init__(
        self,
        folder: Path,
        on_progress: Callable[[Progress], None] | None = None,
        warn: Callable[[str], None] | None = None,
        keep_every: float = 10.0,
        interrupted: Callable[[], None] = lambda: None,
        watcher: Watcher | None = None,
    ):
        self.folder, self.on_progress, self.warn, self.keep_every = folder, on_progress, warn, keep_every
        self.interrupted = interrupted
        """Raises KeyboardInterrupt again if Python has lost one."""
        self.restored = False
        """Whether some part of the run was resumed from a checkpoint."""
        self.watcher = watcher
        if watcher is not None:
            self.watch_every = watcher.every
        self._part = Part()

    def inside(self, name: str) -> LabMonitor:
        """A monitor of one part of the run, with a folder of its own."""
        given = (self.on_progress, self.warn, self.keep_every, self.interrupted, self.watcher)
        within = LabMonitor(self.folder / name, *given)
        within._part = self._part
        return within

    def progress(self, done: float, total: float, what: str) -> None:
        self.interrupted()
        if self.on_progress is not None:
            self.on_progress(self._part.report(done, total, what))

    def kept_names(self) -> Iterable[str]:
        return [unquote(path.stem) for path in self.folder.glob("[!.]*.npz")]

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        path = self._path(name)
        try:
            arrays = {key.removeprefix("="): array for key, array in read_arrays(path).items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            if self.warn:
                self.warn(f"checkpoint {path} is damaged and is ignored: this part of the run starts again")
            return None
        self.restored = True
        return arrays

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        write_arrays(self._path(name), {f"={key}": array for key, array in arrays.items()})

    def watch(self, schema: Schema) -> Mapping[str, Wanted]:
        return self.watcher.watch(schema) if self.watcher is not None else {}

    def watched(self, found: Sequence[Rows]) -> None:
        if self.watcher is not None:
            self.watcher.watched(found)

    def _path(self, name: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.npz"


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], None]]:
    """Interrupts are raised when they arrive, as usual; the yielded function raises one again if it was lost.

    If interrupts are ignored, or handled by another thread, the function does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None
        return
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        before(number, frame)

    def raise_again() -> None:
        if came:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield raise_again
    finally:
        signal.signal(signal.SIGINT, before)
