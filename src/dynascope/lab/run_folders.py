"""The folders of a run: their names, and the renaming of a finished one.

A run is written into `<digest>.unfinished/`, and renamed when all of it is on disk. A run that replaces another moves
it to `<digest>.old` between two renames; readers look there too, so there is always a run to read. A run that is being
removed is `<digest>.removed` first, which nobody reads.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dynascope.lab.files import sync

UNFINISHED, OLD, REMOVED = ".unfinished", ".old", ".removed"
SWEEPS, LIMITS = "sweeps", "limits"
"""The folders of what was made of many runs of an experiment, beside those of its runs."""


def lock_path(folder: Path) -> Path:
    """The lock of a run, held while it is written, replaced or removed; also of its unfinished and old folders."""
    return folder.with_name(f"{folder.name.partition('.')[0]}.lock")


def publish(ready: Path, final: Path) -> None:
    """Give a finished folder its final name, replacing an earlier folder of that name."""
    sync(ready)
    old = final.with_name(final.name + OLD)
    if final.exists():
        final.rename(old)
    ready.rename(final)
    sync(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def settle(final: Path) -> None:
    """Undo or complete a replacement that was cut short: the old folder comes back, or is removed."""
    old = final.with_name(final.name + OLD)
    if old.exists() and final.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(final)
