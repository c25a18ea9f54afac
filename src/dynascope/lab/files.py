"""Files that are written completely or not at all, and their checksums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes | memoryview | str, *, lasting: bool = True) -> None:
    """Write a file so that its name only ever shows the old content or all of the new.

    A file that is not `lasting` survives the end of its process, however sudden, but not a power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if lasting:
        sync(path.parent)


def checksum(data: Path | bytes | memoryview) -> str:
    """The sha256 of bytes or of a file."""
    if not isinstance(data, Path):
        return hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
