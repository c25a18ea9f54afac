"""Measurements that experiments share: each is taken from a stored run that has it, of any experiment.

A run of a `ComposedExperiment` says in its manifest, under "shared", by which key each of its measurements is known,
and from which run it was taken. The key covers its fields and code, the seed, the data, the precision and the
version of the package. Measurements are taken only from complete runs whose files are intact.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import xarray as xr

from dynascope import __version__
from dynascope.dynamics.monitor import monitored_by
from dynascope.lab.draft import Draft
from dynascope.lab.errors import StoreError
from dynascope.lab.experiment import ComposedExperiment, Measurement
from dynascope.lab.files import checksum
from dynascope.lab.fingerprint import fingerprints
from dynascope.lab.json_text import digest_of
from dynascope.lab.locks import lock
from dynascope.lab.machine import device_name
from dynascope.lab.monitor import LabMonitor
from dynascope.lab.netcdf import load, pack
from dynascope.lab.setting import Setting
from dynascope.lab.shared_index import SHARED as SHARED, runs_with
from dynascope.lab.store import Store

POLL_SECONDS = 0.2
"""Seconds between two checks if another process has stored the measurement."""


def compose(
    experiment: ComposedExperiment, setting: Setting, draft: Draft, store: Store, monitor: LabMonitor
) -> xr.DataTree:
    """The result of `experiment.measure`, with those measurements from the store that it has.

    Each is kept in the draft as soon as it is available, so a run that is cut short continues with the next one. A
    forced run takes nothing from the store.
    """
    found: dict[str, xr.Dataset] = {}
    for name, each in experiment.measurements().items():
        key = key_of(each, setting)
        measured = _read_kept(draft, name, key)
        if measured is None:
            taken = None if draft.state.get("forced") or not key else _find_stored(store, experiment.id, key)
            measured, origin = taken or _measure(each, draft.seed, monitor, name)
            _keep(draft, name, measured, {"key": key, **origin})
        found[name] = measured
    return xr.DataTree.from_dict(found)


@contextmanager
def reserved(setting: Setting, store: Store) -> Iterator[None]:
    """While the block lasts, no other process takes the measurements that this run needs and nobody has stored: it
    waits until the run is stored, and reads them from there. The locks end with their process."""
    keys = set()
    if isinstance(setting.experiment, ComposedExperiment):
        keys = {key_of(each, setting) for each in setting.experiment.measurements().values()} - {""}
    with ExitStack() as held:
        for key in sorted(keys):  # in one order, so that no two processes wait for one another
            while not any(runs_with(store, setting.id, key)):
                try:
                    held.enter_context(lock(store.root / f".{key}.lock", "busy"))
                    break
                except StoreError:
                    time.sleep(POLL_SECONDS)
        yield


def key_of(each: Measurement, setting: Setting) -> str:
    """The key of a measurement in the manifests of runs; "" if its code is not in a file, and so unknown."""
    kind = type(each)
    code = fingerprints(kind)["measure"]
    facts = {
        "kind": f"{kind.__module__}.{kind.__qualname__}",
        "fields": each.model_dump(mode="json"),
        "seed": setting.seed,
        "data": {name: setting.data[name] for name in each.data_sets()},
        "precision": [setting.experiment.precision, setting.experiment.matmul_precision],
        "code": code,
        "dynascope": __version__,
    }
    return digest_of(facts) if code else ""


def _measure(each: Measurement, seed: int, monitor: LabMonitor, name: str) -> tuple[xr.Dataset, dict[str, object]]:
    clock, own = time.perf_counter(), monitor.inside(name)
    with monitored_by(own):
        measured = each.measure(seed)
    if not isinstance(measured, xr.Dataset):
        raise TypeError(f"measure of {type(each).__name__} returned {type(measured).__name__}, not an xarray.Dataset")
    monitor.restored |= own.restored
    return measured, {"device": device_name(), "run_seconds": round(time.perf_counter() - clock, 3)}


def _find_stored(store: Store, id: str, key: str) -> tuple[xr.Dataset, dict[str, object]] | None:
    """The measurement from a run of the same system, and its origin; damaged runs are skipped."""
    for run, name in runs_with(store, id, key):
        try:
            measured = run.measured()[name]
        except (StoreError, KeyError):
            continue
        assert isinstance(measured, xr.DataTree)
        facts = {fact: run.manifest[SHARED][name].get(fact) for fact in ("device", "run_seconds")}
        return measured.to_dataset(), {**facts, "from": f"{run.id}/{run.digest}"}
    return None


def _read_kept(draft: Draft, name: str, key: str) -> xr.Dataset | None:
    """The measurement, if an earlier attempt at this run has kept it."""
    origin = (draft.state["facts"].get(SHARED) or {}).get(name) or {}
    path = draft.folder / SHARED / f"{name}.nc"
    if origin.get("key") != key or not path.exists() or checksum(path) != origin.get("sha256"):
        return None
    measured = load(path)
    assert isinstance(measured, xr.Dataset)
    return measured


def _keep(draft: Draft, name: str, measured: xr.Dataset, origin: Mapping[str, object]) -> None:
    data = pack(measured)
    draft.write(f"{SHARED}/{name}.nc", data)
    state = draft.state
    known = state["facts"].get(SHARED) or {}
    facts = {**state["facts"], SHARED: {**known, name: {**origin, "sha256": checksum(data)}}}
    draft.keep_state({**state, "facts": facts})
