"""Data files: where they are found, how they are downloaded, and how arrays are read from them and kept.

A file is looked for in $DYNASCOPE_DATA, then in the user's cache. Downloads are verified by their MD5 or SHA-256
sum and kept in the cache. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

TIMEOUT_SECONDS = 30


class DataNotFoundError(FileNotFoundError):
    """A data set is neither on this machine nor can it be downloaded; the message says which file goes where."""


class TrainTest(NamedTuple):
    """A labeled data set: inputs and labels of its training and test examples, in the form of its `.npz` file."""

    x_train: Shaped[np.ndarray, "train ..."]
    y_train: Shaped[np.ndarray, " train"]
    x_test: Shaped[np.ndarray, "test ..."]
    y_test: Shaped[np.ndarray, " test"]


def folders() -> list[Path]:
    """The folders with data files: $DYNASCOPE_DATA if it is set, then the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("DYNASCOPE_CACHE") or Path(base) / "dynascope") / "data"
    given = os.environ.get("DYNASCOPE_DATA")
    return [Path(given), cache] if given else [cache]


def find(name: str) -> Path | None:
    """The file or folder of that name, or None."""
    return next((folder / name for folder in folders() if (folder / name).exists()), None)


def need(name: str, what: str) -> Path:
    """The file or folder of that name; an error says `what` it is and where it goes."""
    found = find(name)
    if found is None:
        raise DataNotFoundError(f"no {name} ({what}); put it into {folders()[0]}")
    return found


def fetch(base: str, files: Mapping[str, str]) -> dict[str, bytes]:
    """The contents of the `files` (name: checksum) below the address `base`. A checksum is MD5, or SHA-256 with 64
    digits."""
    contents = {}
    for file, checksum in files.items():
        with urllib.request.urlopen(base + file, timeout=TIMEOUT_SECONDS) as answer:
            contents[file] = answer.read()
        kind = "sha256" if len(checksum) == 64 else "md5"
        found = hashlib.new(kind, contents[file], usedforsecurity=False).hexdigest()
        if found != checksum:
            raise OSError(f"{base}{file} has {kind.upper()} {found}, not {checksum}")
    return contents


def fetch_for(name: str, wanted: str, base: str, files: Mapping[str, str]) -> dict[str, bytes]:
    """`fetch` for the data set `name`; where it fails, the error says where to put the file `wanted`."""
    try:
        return fetch(base, files)
    except OSError as error:
        raise DataNotFoundError(
            f"'{name}' is not on this machine and could not be fetched ({error}); put {wanted} into {folders()[0]}"
        ) from None


def read_arrays(file: Path) -> TrainTest:
    """The data set of a `.npz` file."""
    try:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("File is not a zip file")
        with np.load(file, allow_pickle=False) as arrays:
            found = {key: arrays[key] for key in TrainTest._fields if key in arrays}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{file} is damaged, or no file of plain arrays ({error})") from None
    missing = [key for key in TrainTest._fields if key not in found]
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing)}; a data set holds {', '.join(TrainTest._fields)}")
    return TrainTest(**found)


def keep_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `<name>.npz` into the cache, completely or not at all."""
    with _atomic(f"{name}.npz") as part:
        np.savez_compressed(part, **arrays)  # pyright: ignore[reportArgumentType]


def keep_bytes(name: str, content: bytes) -> Path:
    """Write a file into the cache, completely or not at all."""
    with _atomic(name) as part:
        part.write(content)
    return folders()[-1] / name


@contextmanager
def _atomic(name: str) -> Iterator[Any]:
    file = folders()[-1] / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
        yield part
    os.replace(part.name, file)
