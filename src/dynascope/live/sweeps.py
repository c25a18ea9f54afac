"""Stored sweeps as maps: each claim and each reduced number over the grid, and the run behind a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dynascope.lab import formatting
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.netcdf import load
from dynascope.lab.report.sweeps import SweepPage, read_sweeps
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.sweeps.summary import grid_keys, numbers
from dynascope.live.stored import NotThere, opened


def sweeps(store: Store) -> list[dict[str, Any]]:
    """Every stored sweep."""
    return [
        {"id": page.id, "digest": page.path.name, "title": page.question, "name": page.name, "runs": page.runs}
        for id in store.ids()
        for page in _pages(store, id)
    ]


def _pages(store: Store, id: str) -> Iterator[SweepPage]:
    return (page for page in read_sweeps(store.root / id) if isinstance(page, SweepPage))


def _page(store: Store, id: str, digest: str) -> SweepPage:
    if id in store.ids():
        for page in _pages(store, id):
            if page.path.name == digest:
                return page
    raise NotThere(f"the store has no sweep {id[:100]}/{digest[:100]}")


def maps(store: Store, id: str, digest: str) -> dict[str, Any]:
    """A sweep: its keys with their values, and its layers over them."""
    page = _page(store, id, digest)
    data = load(page.path / "sweep.nc")
    assert isinstance(data, xr.Dataset)
    keys = grid_keys(data)
    layers = [
        {"name": str(claim), "of": "claim", "values": _nested(data.share.isel(claim=k, drop=True), keys)}
        for k, claim in enumerate(data.claim.values.tolist())
    ]
    for number in numbers(data):
        for k, at in enumerate(number.mean["at"].values.tolist()):
            name = f"{number.name}, {at}" if at else number.name
            layers.append({"name": name, "of": "number", "values": _nested(number.mean.isel(at=k, drop=True), keys)})
    return {
        "id": id,
        "digest": digest,
        "title": page.question,
        "name": page.name,
        "command": page.command,
        "seeds": page.seeds,
        "keys": [
            {
                "name": key,
                "label": formatting.label(key),
                "values": [formatting.text(v) for v in data[key].values.tolist()],
            }
            for key in keys
        ],
        "layers": layers,
    }


def _nested(values: xr.DataArray, keys: Sequence[str]) -> list[Any]:
    """Nested lists, one level for each key; null if there is no number."""
    found = values.transpose(*keys).values.astype(object)
    found[~np.isfinite(values.transpose(*keys).values)] = None
    return found.tolist()


def run_at(store: Store, id: str, digest: str, place: Sequence[int], seed: int) -> StoredRun:
    """The run of a cell, the point at these indices along the keys."""
    from dynascope.lab.setting import Setting

    page = _page(store, id, digest)
    grid: dict[str, list[Any]] = page.manifest["grid"]
    sizes = [len(values) for values in grid.values()]
    if len(place) != len(sizes) or not all(0 <= k < size for k, size in zip(place, sizes, strict=True)):
        raise UsageError(f"a cell has a place along each of {', '.join(grid)}")
    if not 0 <= seed < page.seeds:
        raise UsageError(f"seed must be an integer from 0 to {page.seeds - 1}; got {seed}")
    point = {key: values[k] for (key, values), k in zip(grid.items(), place, strict=True)}
    changes = {**page.manifest["fields"], **point}
    setting = Setting.parse(id, preset=page.preset, control=page.control, changes=changes, seed=seed)
    try:
        return opened(store, id, setting.digest)
    except StoreError as error:
        raise NotThere("this cell has no stored run: it did not finish, or was removed") from error
