"""The lab's monitor: checkpoints of a long run on disk, and word of how far it has come and what is left."""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from dynascope.dynamics.monitor import Monitor
from dynascope.lab.files import write_whole


class Progress(NamedTuple):
    """How far a piece of work is."""

    what: str
    done: float
    total: float
    rate: float
    """Per second, since this process began the piece."""
    left: float
    """Seconds; infinite while the rate is unknown."""


class LabMonitor(Monitor):
    """Checkpoints as `.npz` files in a folder, each replaced wholly or not at all; progress to a callback."""

    def __init__(
        self,
        folder: Path,
        tell: Callable[[Progress], None] | None = None,
        warn: Callable[[str], None] | None = None,
        keep_every: float = 10.0,
        interrupted: Callable[[], None] = lambda: None,
    ):
        self.folder, self.tell, self.warn, self.keep_every = folder, tell, warn, keep_every
        self.interrupted = interrupted
        """Raises where the person has asked to stop and was not heard."""
        self.restored = False
        """Whether some piece of work went on from a checkpoint."""
        self._began: dict[str, tuple[float, float]] = {}

    def progress(self, done: float, total: float, what: str) -> None:
        self.interrupted()
        if self.tell is None:
            return
        now = time.monotonic()
        began, at = self._began.get(what, (now, done))
        if done < at or what not in self._began:  # a new piece of work under the same name
            began, at = self._began[what] = (now, done)
        rate = (done - at) / (now - began) if now > began else 0.0
        self.tell(Progress(what, done, total, rate, (total - done) / rate if rate > 0 else float("inf")))

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        path = self._path(name)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                arrays = {key.removeprefix("="): kept[key] for key in kept.files}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
            if self.warn:
                self.warn(f"checkpoint {path} is damaged and left aside: this piece of work starts again")
            return None
        self.restored = True
        return arrays

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{f"={key}": array for key, array in arrays.items()})
        write_whole(self._path(name), buffer.getbuffer())

    def _path(self, name: str) -> Path:
        return self.folder / f"{quote(name, safe='')}.npz"
