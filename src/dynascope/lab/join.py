"""Joining runs of parts of an experiment (some seeds here, some settings there) into the run of the whole.

Run the parts anywhere, and join them from their stores: the whole is then stored as if it had been measured at once,
and its manifest names the parts with their devices and times. `dynascope join` does it from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from pydantic import ValidationError

from dynascope import __version__
from dynascope.lab.errors import UsageError
from dynascope.lab.execute import execute
from dynascope.lab.experiment import JoinableExperiment
from dynascope.lab.files import checksum
from dynascope.lab.fingerprint import fingerprints
from dynascope.lab.netcdf import pack
from dynascope.lab.setting import Setting
from dynascope.lab.steps import FILES
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

FACTS = ("digest", "command", "device", "started", "finished", "compile_seconds", "run_seconds")
"""The keys of each part's manifest that the manifest of the whole repeats."""


def join(
    setting: Setting,
    store: Store | None = None,
    *,
    others: Iterable[Store] = (),
    warn: Callable[[str], None] | None = None,
) -> StoredRun:
    """The run of a setting from stored runs of its parts: those that differ in the experiment's fields `parts` only.

    A training that two parts have is taken from the first store that has it, and there from the older one.

    Args:
        setting: The whole.
        store: The store that is searched for parts first, and in which the whole is stored.
        others: Further stores with parts.
        warn: Called with a line if parts were measured by different code.

    Raises:
        UsageError: If a training is in no part, or the experiment has no parts.
    """
    experiment, seed = setting.experiment, setting.seed
    if not isinstance(experiment, JoinableExperiment):
        raise UsageError(f"{experiment.id} cannot be joined from parts: its trainings are one run")
    store, wanted = store or Store(), dict(experiment.members(seed))
    found: dict[tuple[Any, ...], tuple[StoredRun, xr.Dataset]] = {}
    for part in [part for each in (store, *others) for part in each.runs(experiment.id)[0]]:
        if part.seed != seed or not _is_part(part, experiment, setting.data):
            continue
        measured = part.measured()
        assert isinstance(measured, xr.Dataset)
        for place in _product(wanted):
            if place not in found and all(np.any(measured[dim] == at) for dim, at in zip(wanted, place, strict=True)):
                found[place] = part, measured
    missing = [place for place in _product(wanted) if place not in found]
    if missing:
        first = ", ".join(f"{dim} {at:g}" for dim, at in zip(wanted, missing[0], strict=True))
        more = ", ..." if len(missing) > 1 else ""
        raise UsageError(f"{experiment.id}: no stored part contains {len(missing)} of its trainings: {first}{more}")
    pieces = [
        measured.sel(dict(zip(wanted, ([at] for at in place), strict=True))) for place, (_, measured) in found.items()
    ]
    joined = xr.combine_by_coords(
        pieces, combine_attrs="drop_conflicts", compat="override", coords="minimal", data_vars="minimal"
    )
    assert isinstance(joined, xr.Dataset)
    joined = joined.sel(wanted)
    parts = list({part.digest: part for part, _ in found.values()}.values())
    code = fingerprints(type(experiment))
    changed = [part.digest for part in parts if (part.manifest.get("code") or {}).get("measure") != code["measure"]]
    if changed and warn:
        warn(f"{experiment.id}: {len(changed)} of {len(parts)} parts were measured by other code: {changed[0]}")
    facts = {
        "started": min(part.manifest["started"] for part in parts),
        "device": ", ".join(sorted({part.manifest["device"] for part in parts})),
        "compile_seconds": sum(part.manifest["compile_seconds"] or 0 for part in parts),
        "run_seconds": sum(part.manifest["run_seconds"] for part in parts),
        "resumed": False,
        "parts": [{name: part.manifest.get(name) for name in FACTS} for part in parts],
    }
    with store.draft(setting) as draft:
        stored = store.find(experiment.id, draft.final.name)
        if stored is None or (stored.manifest.get("code") or {}).get("measure") != code["measure"]:
            draft.clear()
            packed = pack(joined)
            draft.write(FILES["measure"], packed)
            done = {"measure": {FILES["measure"]: checksum(packed)}}
            draft.keep_state({"dynascope": __version__, "code": code, "forced": False, "facts": facts, "done": done})
    return execute(setting, store)


def _is_part(part: StoredRun, experiment: JoinableExperiment, data: Mapping[str, str]) -> bool:
    """Whether a run has the experiment's fields, except for those that select the trainings, and its data."""
    if any(data.get(name, sum) != sum for name, sum in (part.manifest.get("data") or {}).items()):
        return False
    try:
        same = type(experiment)(**{**part.config, **{name: getattr(experiment, name) for name in experiment.parts}})
    except ValidationError:  # of an earlier version, with other fields
        return False
    return same == experiment


def _product(wanted: dict[str, Any]) -> list[tuple[Any, ...]]:
    """All trainings, each as its coordinates."""
    return [tuple(row) for row in np.stack(np.meshgrid(*wanted.values(), indexing="ij"), -1).reshape(-1, len(wanted))]
