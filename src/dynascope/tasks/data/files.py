"""Where data files are looked for, how they are fetched from their official source, and what is said when they are not
to be had.

A file is looked for in $DYNASCOPE_DATA and then in the user's cache. What is downloaded is checked by its MD5 or
SHA-256 sum and kept in the cache. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE_SECONDS = 30


class DataNotFoundError(FileNotFoundError):
    """A data set is neither on this machine nor to be had; the message says which file goes where."""


def folders() -> list[Path]:
    """Where to look: $DYNASCOPE_DATA if it is set, then the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("DYNASCOPE_CACHE") or Path(base) / "dynascope") / "data"
    given = os.environ.get("DYNASCOPE_DATA")
    return [Path(given), cache] if given else [cache]


def find(name: str) -> Path | None:
    """The file or folder of that name, or None."""
    return next((folder / name for folder in folders() if (folder / name).exists()), None)


def need(name: str, what: str) -> Path:
    """The file or folder of that name; or one line that says what it is and where it goes."""
    found = find(name)
    if found is None:
        raise DataNotFoundError(f"no {name} ({what}); put it into {folders()[0]}")
    return found


def fetch(base: str, files: Mapping[str, str]) -> dict[str, bytes]:
    """The contents of these files below `base`, each with the sum given: MD5, or SHA-256 where it has 64 digits."""
    contents = {}
    for file, checksum in files.items():
        with urllib.request.urlopen(base + file, timeout=PATIENCE_SECONDS) as answer:
            contents[file] = answer.read()
        kind = "sha256" if len(checksum) == 64 else "md5"
        found = hashlib.new(kind, contents[file], usedforsecurity=False).hexdigest()
        if found != checksum:
            raise OSError(f"{base}{file} has {kind.upper()} {found}, not {checksum}")
    return contents


def fetch_for(name: str, wanted: str, base: str, files: Mapping[str, str]) -> dict[str, bytes]:
    """The same for the data set `name`; where it fails, one line says that the file `wanted` can be put in place."""
    try:
        return fetch(base, files)
    except OSError as error:
        raise DataNotFoundError(
            f"'{name}' is not here and could not be fetched ({error}); put {wanted} into {folders()[0]}"
        ) from None


def keep(name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `<name>.npz` into the cache, wholly or not at all."""
    with _whole(f"{name}.npz") as part:
        np.savez_compressed(part, **arrays)  # pyright: ignore[reportArgumentType]


def keep_as_it_is(name: str, content: bytes) -> Path:
    """Write a file into the cache, wholly or not at all."""
    with _whole(name) as part:
        part.write(content)
    return folders()[-1] / name


@contextmanager
def _whole(name: str) -> Iterator[Any]:
    file = folders()[-1] / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
        yield part
    os.replace(part.name, file)
