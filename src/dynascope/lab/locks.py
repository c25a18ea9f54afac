"""Locks between processes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynascope.lab.errors import BusyError

POLL_SECONDS = 0.2
"""Seconds between two attempts to take a lock."""


@contextmanager
def lock(path: Path, busy: str = "") -> Iterator[None]:
    """Hold an exclusive lock; if another process holds it, wait, or raise a `BusyError` with the text `busy`.

    The lock ends with its process, so a kill leaves nothing to clean up. The file is removed under the lock, hence the
    check that the file we locked is still the one of that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                break
            os.close(handle)
        except BlockingIOError:
            os.close(handle)
            if busy:
                raise BusyError(busy) from None
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
