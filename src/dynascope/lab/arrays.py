"""Arrays as one file, written whole or not at all, and read without unpickling or unpacking anything."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dynascope.lab.files import write_atomically


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a `.npz` file, uncompressed."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getbuffer())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that `write_arrays` wrote: no larger together than the file; a `ValueError` if it is not."""
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > len(data):
                raise ValueError("its arrays are larger than the file")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged, or is not a file of plain arrays ({error})") from None
