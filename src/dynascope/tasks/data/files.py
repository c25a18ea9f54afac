"""Data files: the folders in which they are found, a record of the files read, and reading and writing of arrays.

A file is looked for in $DYNASCOPE_DATA, then in the user's cache, then in the package. Nothing is ever unpickled, and
nothing takes the place of a missing file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from dynascope.tasks.data import packed

PACKAGE = Path(__file__).parent / "included"
"""The data that the package carries; LICENSES.md describes them."""


class DataNotFoundError(FileNotFoundError):
    """A data set is not on this machine; the message says in one sentence where to put which file."""


class TrainTest(NamedTuple):
    """A labeled data set: inputs and labels of its training and test examples, in the form of its `.npz` file."""

    x_train: Shaped[np.ndarray, "train ..."]
    y_train: Shaped[np.ndarray, " train"]
    x_test: Shaped[np.ndarray, "test ..."]
    y_test: Shaped[np.ndarray, " test"]


def folders() -> list[Path]:
    """The folders with data files, in the order of search: $DYNASCOPE_DATA if it is set, the cache, the package."""
    given = os.environ.get("DYNASCOPE_DATA")
    return [*([Path(given).expanduser()] if given else []), cache(), PACKAGE]


def cache() -> Path:
    """The user's cache of data files, in which downloads are kept."""
    return cache_folder() / "data"


def cache_folder() -> Path:
    """$DYNASCOPE_CACHE, or `dynascope` in the user's cache folder; in that of temporary files for a user who has no
    home, as in some containers."""
    try:
        home = Path.home()
    except RuntimeError:
        home = Path(tempfile.gettempdir())
    base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    given = os.environ.get("DYNASCOPE_CACHE")
    return Path(given).expanduser() if given else Path(base) / "dynascope"


def find(name: str) -> Path | None:
    """The file or folder of that name, or None."""
    return next((folder / name for folder in folders() if (folder / name).exists()), None)


_READ: ContextVar[tuple[set[str], ...]] = ContextVar("_READ", default=())


@contextmanager
def record_reads() -> Iterator[set[str]]:
    """Collect the names of the data sets (for texts and folders of one's own, the paths) that this thread reads inside
    the `with`."""
    read: set[str] = set()
    token = _READ.set((*_READ.get(), read))
    try:
        yield read
    finally:
        _READ.reset(token)


def record(name: str) -> None:
    """Report to every `record_reads` around this call that the data set is read."""
    for read in _READ.get():
        read.add(name)


def stamp(file: Path) -> tuple[Path, int, int]:
    """The path, the time of the last change and the size of a file: they change when the file does."""
    status = file.stat()
    return file, status.st_mtime_ns, status.st_size


def read_arrays(file: Path) -> TrainTest:
    """The data set of a `.npz` file."""
    arrays = packed.read_arrays(file, TrainTest._fields)
    missing = [key for key in TrainTest._fields if key not in arrays]
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing)}; a data set holds {', '.join(TrainTest._fields)}")
    return TrainTest(*(arrays[key] for key in TrainTest._fields))


def keep_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `<name>.npz` into the cache, completely or not at all."""
    with _atomic(f"{name}.npz") as part:
        np.savez_compressed(part, **arrays)  # pyright: ignore[reportArgumentType]


def keep_bytes(name: str, content: bytes) -> Path:
    """Write a file into the cache, completely or not at all."""
    with _atomic(name) as part:
        part.write(content)
    return cache() / name


@contextmanager
def _atomic(name: str) -> Iterator[Any]:
    file = cache() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
        try:
            yield part
            part.close()
            os.replace(part.name, file)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise
