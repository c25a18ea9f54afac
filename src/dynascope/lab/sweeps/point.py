"""One point of a sweep, as a worker executes it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from dynascope.lab.errors import ExperimentCrash
from dynascope.lab.execute import execute
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.sweeps.gathering import flat
from dynascope.lab.workers.parcels import Parcel, Place

Results = tuple[list[dict[str, object]], xr.Dataset]
"""What a sweep keeps of a run: its claims as plain values, and its reduced numbers."""


def run_point(setting: Setting, place: Place, force: bool = False) -> Results | Parcel:
    """Execute a setting without figures and store it. If this process does not see the store, the results come with
    the files of the run, as a `Parcel`."""
    if place.visible:
        return results(execute(setting, Store(place.root), force=force, draw=False))
    with TemporaryDirectory(prefix="dynascope-") as folder:
        try:
            stored = execute(setting, Store(folder), force=force, draw=False)
        except ExperimentCrash as crash:
            return Parcel.of_crash(crash, Path(folder), place)
        return Parcel.of_run(results(stored), stored, place)


def results(stored: StoredRun) -> Results:
    """The part of a stored run that a sweep keeps: its claims and its reduced numbers."""
    return [claim.model_dump(mode="json") for claim in stored.claims], flat(stored.reduced())
