"""Where data files are looked for, how they are fetched from their official source, and what is said when they are not
to be had.

A file is looked for in $DYNASCOPE_DATA and then in the user's cache. What is downloaded is checked by its MD5 sum and
kept in the cache. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

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
    """The contents of these files below `base`, each with the MD5 sum given."""
    contents = {}
    for file, checksum in files.items():
        with urllib.request.urlopen(base + file, timeout=PATIENCE_SECONDS) as answer:
            contents[file] = answer.read()
        found = hashlib.md5(contents[file], usedforsecurity=False).hexdigest()
        if found != checksum:
            raise OSError(f"{base}{file} has MD5 {found}, not {checksum}")
    return contents


def keep(name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `<name>.npz` into the cache, wholly or not at all."""
    folder = folders()[-1]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
        np.savez_compressed(part, **arrays)  # pyright: ignore[reportArgumentType]
    os.replace(part.name, folder / f"{name}.npz")
