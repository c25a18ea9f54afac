"""The contents of the store: each folder with its state, its age and its size.

Only manifests and configurations are read, so a store of thousands of runs is listed quickly; the other files of a run
must exist, and are checked against their checksums when they are read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal

from dynascope.lab.errors import StoreError, UsageError, nearest, one_line, plain
from dynascope.lab.locks import is_locked
from dynascope.lab.run_folders import OLD, REMOVED, UNFINISHED, lock_path
from dynascope.lab.store import Store
from dynascope.lab.stored_run import OldRunError, StoredRun

State = Literal["complete", "damaged", "earlier version", "crashed", "unfinished", "running", "left over"]


@dataclass(frozen=True)
class Item:
    """A folder of the store: a complete run, or one that was cut short, damaged or replaced."""

    folder: Path
    state: State
    run: StoredRun | None = None
    """The run, if it is complete."""
    problem: str = ""
    """A line that says what is wrong, or ""."""

    @property
    def id(self) -> str:
        return self.folder.parent.name

    @property
    def digest(self) -> str:
        return self.folder.name.partition(".")[0]

    @cached_property
    def size(self) -> int:
        """The bytes of its files; those behind links do not count."""
        return sum(stat.st_size for stat in _stats(self.folder))

    @cached_property
    def written(self) -> float:
        """When it was finished or last written to, in seconds since 1970."""
        try:
            finished = datetime.fromisoformat(self.run.manifest["finished"] if self.run else "")
            return (finished if finished.tzinfo else finished.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError):
            return max((stat.st_mtime for stat in _stats(self.folder)), default=0.0)

    @property
    def age(self) -> float:
        """Seconds since then; 0 if the clock was set back in between."""
        return max(0.0, time.time() - self.written)


def _stats(folder: Path) -> Iterator[os.stat_result]:
    """The sizes and times of everything in the folder, without following links."""
    try:
        for entry in os.scandir(folder):
            yield entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _stats(Path(entry.path))
    except OSError:  # it was just removed, or may not be read
        return


def matching_ids(store: Store, pattern: str) -> list[str]:
    """The stored ids that an id, a glob or a user's own file names: none if the experiment has no runs, and a
    `UsageError` if there is no such experiment."""
    ids = store.ids()
    if pattern.partition("::")[0].endswith(".py"):
        from dynascope.lab.registry import match

        return [entry.id for entry in match([pattern]) if entry.id in ids]
    found = [id for id in ids if fnmatchcase(id, pattern)]
    if not found and pattern != "*":
        from dynascope.lab.registry import ids as known_ids

        known = [*ids, *known_ids()]
        if not any(fnmatchcase(id, pattern) for id in known):
            hint = nearest(pattern, ids) or nearest(pattern, known) or f": {store.root} has no run of it"
            if any(id.startswith(f"{pattern}.") for id in known):
                hint = f": it is a system, whose experiments are '{pattern}.*'"
            raise UsageError(f"no experiment '{plain(pattern)}'{hint}")
    return found


def inventory(store: Store, pattern: str = "*", *, sweeps: bool = True) -> list[Item]:
    """Every run of the experiments that `pattern` names, and every folder that is not a complete run; by id, the latest
    first. Without `sweeps`, runs that are points of sweeps are left out."""
    found = []
    for id in matching_ids(store, pattern):
        items = [item for folder in store.folders(id) if (item := _item(folder))]
        kept = [item for item in items if sweeps or not (item.run and item.run.sweep)]
        found += sorted(kept, key=lambda item: -item.written)
    return found


def inspect(folder: Path) -> Item:
    """The state of a folder, as it is on disk."""
    if folder.suffix == UNFINISHED:
        log = folder / "crash.log"
        return Item(folder, "crashed", problem=_last_line(log)) if log.exists() else Item(folder, "unfinished")
    if folder.suffix == REMOVED or (folder.suffix == OLD and folder.with_suffix("").exists()):
        return Item(folder, "left over")
    try:
        run = StoredRun.open(folder)
        missing = [name for name in run.manifest["files"] if not (folder / name).is_file()]
        if missing:
            raise StoreError(f"{folder / missing[0]} is missing: run again with --force to replace the run")
        _ = run.config  # so that callers can rely on it
    except OldRunError as error:
        return Item(folder, "earlier version", problem=str(error))
    except StoreError as error:
        return Item(folder, "damaged", problem=str(error))
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # valid JSON, but not a manifest of a run
        return Item(folder, "damaged", problem=f"{folder} cannot be read ({one_line(error)})")
    return Item(folder, "complete", run)


def _item(folder: Path) -> Item | None:
    """The folder as `inventory` lists it, or None if it is left over or has just been removed."""
    item = inspect(folder)
    if item.state in ("unfinished", "crashed") and is_locked(lock_path(folder)):
        return replace(item, state="running", problem="")
    return item if folder.exists() and item.state != "left over" else None


def _last_line(log: Path) -> str:
    """The line of a traceback that names the error."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = [line for line in lines if line[:1].strip() and ("Error" in line or ": " in line)]
    return (named or lines or [""])[-1].strip()[:200]
