"""One point of a sweep, as a worker executes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import xarray as xr

from dynascope.lab.errors import ExperimentCrash
from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import build
from dynascope.lab.registry import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.sweeps.gathering import flat
from dynascope.lab.workers.parcels import Parcel, Place


def run_point(
    address: str | type[Experiment],
    changes: Mapping[str, object],
    preset: str | None,
    seed: int,
    place: Place,
    force: bool,
    control: bool = False,
) -> object:
    """Run it without figures and store it: its claims as plain values, and its reduced numbers.

    If this process does not see the store, they come with the files of the run, as a `Parcel`.
    """
    experiment = build(load(address) if isinstance(address, str) else address, changes, preset, control)

    def run_in(root: str) -> StoredRun:
        return run(experiment, seed=seed, preset=preset, store=Store(root), force=force, draw=False, of_sweep=True)

    if place.visible:
        return results(run_in(place.root))
    with TemporaryDirectory(prefix="dynascope-") as folder:
        try:
            stored = run_in(folder)
        except ExperimentCrash as crash:
            return Parcel.of_crash(crash, Path(folder), place)
        return Parcel.of_run(results(stored), stored, place)


def results(stored: StoredRun) -> tuple[list[dict[str, object]], xr.Dataset]:
    """The part of a stored run that a sweep keeps: its claims and its reduced numbers."""
    return [claim.model_dump(mode="json") for claim in stored.claims], flat(stored.reduced())
