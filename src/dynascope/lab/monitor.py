"""The lab's monitor: checkpoints of a long run on disk, its progress, and interrupts that are not lost."""

from __future__ import annotations

import io
import signal
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from dynascope.dynamics.process import Monitor
from dynascope.lab.files import write_whole


class Progress(NamedTuple):
    """How far one part of a run has come."""

    what: str
    done: float
    total: float
    rate: float
    """Per second, since this process began the part."""
    left: float
    """Seconds; infinite while the rate is unknown."""


class LabMonitor(Monitor):
    """Checkpoints as `.npz` files in a folder, each replaced wholly or not at all; progress to a callback."""

    def __init__(
        self,
        folder: Path,
        on_progress: Callable[[Progress], None] | None = None,
        warn: Callable[[str], None] | None = None,
        keep_every: float = 10.0,
        interrupted: Callable[[], None] = lambda: None,
    ):
        self.folder, self.on_progress, self.warn, self.keep_every = folder, on_progress, warn, keep_every
        self.interrupted = interrupted
        """Raises KeyboardInterrupt again where Python has lost one."""
        self.restored = False
        """Whether some part of the run was resumed from a checkpoint."""
        self._began: dict[str, tuple[float, float]] = {}

    def inside(self, name: str) -> LabMonitor:
        """A monitor of one part of the run, with a folder of its own."""
        return LabMonitor(self.folder / name, self.on_progress, self.warn, self.keep_every, self.interrupted)

    def progress(self, done: float, total: float, what: str) -> None:
        self.interrupted()
        if self.on_progress is None:
            return
        now = time.monotonic()
        began, at = self._began.get(what, (now, done))
        if done < at or what not in self._began:  # a new part under the same name
            began, at = self._began[what] = (now, done)
        rate = (done - at) / (now - began) if now > began else 0.0
        self.on_progress(Progress(what, done, total, rate, (total - done) / rate if rate > 0 else float("inf")))

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        path = self._path(name)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                arrays = {key.removeprefix("="): kept[key] for key in kept.files}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
            if self.warn:
                self.warn(f"checkpoint {path} is damaged and is ignored: this part of the run starts again")
            return None
        self.restored = True
        return arrays

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{f"={key}": array for key, array in arrays.items()})
        write_whole(self._path(name), buffer.getbuffer())

    def _path(self, name: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.npz"


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], None]]:
    """An interrupt is raised where it arrives, as usual; the yielded function raises it again if it was lost.

    Where interrupts are ignored, or handled by another thread, the function does nothing.
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
