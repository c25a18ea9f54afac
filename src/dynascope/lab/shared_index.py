"""An index of the stored runs that have a measurement, so that a process reads each manifest once.

The index may be out of date: a run is opened, and must have the measurement, before it is returned.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from dynascope.lab.errors import StoreError
from dynascope.lab.run_folders import LIMITS, OLD, SWEEPS
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

SHARED = "shared"
"""The entry of a manifest that says by which key each measurement of the run is known."""


def runs_with(store: Store, id: str, key: str) -> Iterator[tuple[StoredRun, str]]:
    """The complete runs of the system of `id` that have the measurement, and its name in each. A run is opened when it
    is the next."""
    for folder in sorted(store.root.glob(f"{id.partition('.')[0]}.*")):
        with _CHANGING:
            places = _INDEXES.setdefault(folder.absolute(), _Index()).look(folder, key)
        for place in places:
            try:
                run = StoredRun.open(folder / place)
            except StoreError:
                continue
            yield from ((run, name) for name, known in keys_of(run).items() if known == key)


def keys_of(run: StoredRun) -> dict[str, str]:
    """The measurements of a run by name, with their keys."""
    return {name: origin.get("key", "") for name, origin in (run.manifest.get(SHARED) or {}).items()}


class _Index:
    """The runs of one experiment by the keys of their measurements. A folder that was replaced is read again: it has
    another number on its disk."""

    def __init__(self) -> None:
        self.read: dict[str, int] = {}
        self.places: dict[str, dict[str, None]] = {}

    def look(self, folder: Path, key: str) -> list[str]:
        """The names of the runs that have it, or had it once."""
        for name, number in _runs(folder):
            if self.read.get(name) != number:
                self.read[name] = number
                try:
                    keys = keys_of(StoredRun.open(folder / name)).values()
                except StoreError:
                    continue
                for each in keys:
                    self.places.setdefault(each, {})[name] = None
        return list(self.places.get(key, ()))


_INDEXES: dict[Path, _Index] = {}
_CHANGING = threading.Lock()


def _runs(folder: Path) -> Iterator[tuple[str, int]]:
    """The folders of an experiment's runs, each with its number on the disk; nothing is opened."""
    try:
        with os.scandir(folder) as entries:
            found = {entry.name: entry.inode() for entry in entries if entry.is_dir()}
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, number in found.items():
        kept_aside = name.endswith(OLD) and name.removesuffix(OLD) not in found
        if kept_aside or ("." not in name and name not in (SWEEPS, LIMITS)):
            yield name, number
