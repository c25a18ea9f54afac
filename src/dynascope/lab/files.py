"""Files that are written completely or not at all, checksums, canonical JSON, and locks between processes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynascope.lab.errors import StoreError


def sync_folder(folder: Path) -> None:
    """Make the folder's entries survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes | memoryview | str) -> None:
    """Write a file so that its name only ever shows the old content or all of the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def checksum(data: Path | bytes | memoryview) -> str:
    """The sha256 of bytes or of a file."""
    if not isinstance(data, Path):
        return hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plain_json(value: Any) -> Any:
    """`value` with infinities and NaN as words, which every JSON reader takes and pydantic reads as numbers."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def canonical(value: Any) -> str:
    """JSON that is the same text for the same value; digests are taken of it."""
    return json.dumps(plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(plain_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(value: Any) -> str:
    """Twelve hex digits that identify a configuration."""
    return checksum(canonical(value).encode())[:12]


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold an exclusive lock; a `StoreError` with the text `busy` where another process holds it.

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
            raise StoreError(busy) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
