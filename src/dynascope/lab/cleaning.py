"""Removal of runs: which may be removed, and how, so that nothing else is touched.

A run is removed under its lock: never while it is written, and by one process at a time. It is renamed first, so a
reader finds all of it or nothing. Links are not followed: files outside the store stay.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from dynascope import __version__
from dynascope.lab import registry
from dynascope.lab.errors import LabError, StoreError, UsageError, explain_os_error, plain
from dynascope.lab.inventory import Item, inspect, inventory, matching_ids
from dynascope.lab.locks import lock
from dynascope.lab.lookup import locate
from dynascope.lab.run_folders import OLD, REMOVED, UNFINISHED, lock_path
from dynascope.lab.store import Store

FAILED = ("crashed", "unfinished", "damaged", "left over")
_OURS = re.compile(r"[0-9a-f]{12}(\.old|\.unfinished|\.removed)?")
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def find_named(store: Store, names: Iterable[str]) -> list[Item]:
    """The folders of the runs of these names, including unfinished and leftover ones."""
    found: dict[Path, Item] = {}
    for name in names:
        folder = locate(store, name)
        within = os.path.realpath(folder.parent.parent) == os.path.realpath(store.root)
        if not within or not _OURS.fullmatch(folder.name):
            raise UsageError(f"{plain(name)} is not a run of the store {store.root}; --runs names another store")
        beside = ("",) if folder.suffix else (REMOVED, OLD, UNFINISHED, "")  # the run itself last
        for path in (folder.with_name(folder.name + suffix) for suffix in beside):
            if path.exists():
                found[path] = inspect(path)
    return list(found.values())


def choose(
    store: Store, pattern: str = "*", *, old_code: bool = False, failed: bool = False, older_than: float | None = None
) -> tuple[list[tuple[Item, str]], list[str]]:
    """The folders that may be removed, each with the reason; and a line for each experiment whose code cannot be
    compared.

    With `old_code`, those made by another version of the package or of `measure`, of which a new run would use nothing.
    With `failed`, those that crashed, were cut short or are damaged. With neither, all. `older_than` keeps those
    younger than this many seconds. A run that is being written is never among them.
    """
    unknown: dict[str, None] = {}
    code = cache(lambda id: _measuring(id, pattern))
    found = []
    for item in _all(store, pattern):
        if item.state == "running" or not _OURS.fullmatch(item.folder.name):
            continue
        reasons = [item.state] if failed and item.state in FAILED else []
        if old_code:
            current = _current(item, code)
            unknown |= {item.id: None} if current is None else {}
            reasons += ["old code"] if current is False else []
        if not (old_code or failed):
            reasons = ["" if item.run else item.state]
        if reasons and (older_than is None or item.age > older_than):
            found.append((item, reasons[0]))
    return found, [f"{id}: its experiment is not found, so the code of its runs is not compared" for id in unknown]


def _all(store: Store, pattern: str) -> Iterator[Item]:
    yield from inventory(store, pattern)
    for id in matching_ids(store, pattern):
        yield from (item for folder in store.folders(id) if (item := inspect(folder)).state == "left over")


def _current(item: Item, code: Callable[[str], str | None]) -> bool | None:
    """Whether a new run could use steps of this one; None if its experiment is not found."""
    if item.run is None:
        return item.state != "earlier version"
    if item.run.observed:  # no code of ours can make it again
        return True
    if item.run.manifest.get("dynascope") != __version__:
        return False
    now, then = code(item.id), (item.run.manifest.get("code") or {}).get("measure")
    if now is None:
        return None
    return now == then or not (now and then)  # the code of a notebook has no fingerprint


def _measuring(id: str, pattern: str) -> str | None:
    """The fingerprint of the current `measure`; None if the experiment is not found."""
    from dynascope.lab.fingerprint import fingerprints

    own = pattern.partition("::")[0].endswith(".py")
    try:
        found = registry.match([pattern if own else id])
        return fingerprints(registry.load(next(entry for entry in found if entry.id == id)))["measure"]
    except LabError:
        return None


def parse_duration(text: str) -> float:
    """Seconds, from `30d`, `12h` or `2w`."""
    said = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([hdw])", text)
    if said is None:
        raise UsageError(
            f"--older-than must be a number and h, d or w (hours, days, weeks), such as 30d; got '{plain(text)}'"
        )
    return float(said[1]) * _UNITS[said[2]]


def remove(store: Store, items: Iterable[Item], *, dry: bool = False) -> tuple[list[Item], list[str]]:
    """Remove folders; return those that are gone, and a line with the reason for each that was kept. If `dry`, nothing
    is removed."""
    gone, left = [], []
    for item in items:
        try:
            _check_inside(store, item.folder)
            if dry or _remove(item):
                gone.append(item)
        except StoreError as error:
            left.append(str(error))
        except OSError as error:
            raise explain_os_error(error, f"removing runs of {store.root}") from error
    return gone, left


def _check_inside(store: Store, folder: Path) -> None:
    if os.path.realpath(folder) != os.path.join(os.path.realpath(store.root), folder.parent.name, folder.name):
        raise StoreError(f"{folder} is behind a link out of the store: not removed")


def _remove(item: Item) -> bool:
    """Remove a folder; whether this process did it."""
    folder = item.folder
    with lock(lock_path(folder), f"{folder} is being written or removed by another process: left"):
        if not folder.exists():
            return False
        now = inspect(folder)
        if (now.state, now.run and now.run.manifest) != (item.state, item.run and item.run.manifest):
            raise StoreError(f"{folder} was written again in the meantime: not removed")
        away = folder.with_name(item.digest + REMOVED)
        if folder != away:
            shutil.rmtree(away, ignore_errors=True)
            folder.rename(away)
        shutil.rmtree(away)
        return True
