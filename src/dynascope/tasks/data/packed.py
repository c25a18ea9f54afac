"""Packed files, which are read up to a limit: a small file can unpack to more than a machine holds."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

MOST_BYTES = 4 * 2**30
"""The most bytes to which a file may unpack (CIFAR-10 has 0.2 GB, WikiText-103 0.5 GB), unless it is large itself."""
MOST_TIMES = 10
"""A larger file may unpack to this many times its size: image data sets hardly compress, and unpack to about their own
size."""
CHUNK = 1 << 20


def check_size(path: Path, unpacked: int) -> None:
    """Refuse a packed file that is too large.

    Args:
        path: The packed file.
        unpacked: The bytes to which it unpacks, or those that have been unpacked so far.

    Raises:
        ValueError: If it is more than `MOST_BYTES` and more than `MOST_TIMES` the size of the file.
    """
    most = max(MOST_BYTES, MOST_TIMES * path.stat().st_size)
    if unpacked > most:
        raise ValueError(f"{path} unpacks to more than {most / 2**30:.3g} GiB, which no data set here has")


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz.

    Raises:
        ValueError: If it is damaged, or unpacks to more than `check_size` allows.
    """
    if path.suffix != ".gz":
        return path.read_bytes()
    parts, size = [], 0
    try:
        with gzip.open(path) as file:
            while part := file.read(CHUNK):
                size += len(part)
                check_size(path, size)
                parts.append(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked ({error})") from None
    return b"".join(parts)


def read_arrays(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of a `.npz` file, by name.

    Args:
        path: The file.
        names: Those to read, if they are there. Default: all.

    Raises:
        ValueError: If it is damaged, holds anything but plain arrays, or unpacks to more than `check_size` allows.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # reads no more of an entry than the size that is stated for it
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is damaged, or is not a file of plain arrays ({error})") from None
    check_size(path, size)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays if names is None or name in names}
    except (ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged, or is not a file of plain arrays ({error})") from None
