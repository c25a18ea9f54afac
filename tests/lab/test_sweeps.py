"""A sweep is stored runs and a summary of their claims."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from dynascope.lab.errors import UsageError
from dynascope.lab.executors import InProcess, choose
from dynascope.lab.fields import build
from dynascope.lab.monitor import Progress
from dynascope.lab.netcdf import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.summary import Cell, collect
from dynascope.lab.sweeps import sweep


def test_shares_of_the_claims_over_the_grid(walk, store: Store):
    reported: list[Progress] = []
    grid = {"drift": [0.0, 1.0]}
    done = sweep(walk, grid, base={"steps": 10}, seeds=3, store=store, on_progress=reported.append)
    assert [(progress.done, progress.total) for progress in reported] == [(k, 6) for k in range(1, 7)]
    table = load(done.folder / "summary.nc")
    assert table.share.sel(claim="climbs").values.tolist() == [0.0, 1.0]
    assert table.low.sel(claim="climbs", drift=1.0) == pytest.approx(0.4385, abs=1e-4)
    assert table.of.values.tolist() == [[3, 3], [3, 3]]
    assert table.value.sel(claim="end", drift=1.0).mean() == pytest.approx(10, abs=1)
    rows = list(csv.DictReader((done.folder / "summary.csv").read_text().splitlines()))
    assert [(row["drift"], row["claim"], row["share"]) for row in rows[:2]] == [
        ("0.0", "climbs", "0.0"),
        ("0.0", "end", "1.0"),
    ]
    assert json.loads((done.folder / "summary.json").read_text())["rows"][2]["drift"] == 1.0
    assert (done.folder / "summary.png").read_bytes().startswith(b"\x89PNG")
    assert len(store.runs()[0]) == 6
    assert store.runs()[1] == []


def test_what_is_stored_is_not_run_again(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    first = sweep(walk, {"drift": [0.0, 1.0]}, preset="quick", store=store)
    monkeypatch.setattr(walk, "measure", lambda *_: pytest.fail("it is stored"))
    again = sweep(walk, {"drift": [0.0, 1.0]}, preset="quick", store=store)
    assert again.folder == first.folder
    assert again.cells == first.cells


def test_points_are_drawn_when_somebody_looks_at_one(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    sweep(walk, {"drift": [1.0]}, preset="quick", store=store)
    assert not store.runs()[0][0].figures
    monkeypatch.setattr(walk, "measure", lambda *_: pytest.fail("its measurement is stored"))
    assert run(build(walk, {"drift": 1.0}, "quick"), preset="quick", store=store).figures
    sweep(walk, {"drift": [1.0]}, preset="quick", store=store)
    assert store.runs()[0][0].figures


def test_two_keys_of_any_kind_and_a_crash_among_the_points(walk, store: Store):
    done = sweep(walk, {"noise": ["normal", "uniform"], "crash_in": ["", "judge"]}, base={"steps": 10}, store=store)
    assert len(done.errors) == 2
    assert "told to crash in judge" in done.errors[0]
    table = load(done.folder / "summary.nc")
    assert table.of.sel(claim="climbs").values.tolist() == [[1, 0], [1, 0]]
    assert (done.folder / "summary.png").exists()


def test_every_point_is_checked_before_the_first_runs(walk, store: Store):
    with pytest.raises(UsageError, match="steps must be an integer ≥ 1; got"):
        sweep(walk, {"steps": [10, -1]}, store=store)
    with pytest.raises(UsageError, match="at least one value"):
        sweep(walk, {"steps": []}, store=store)
    with pytest.raises(UsageError, match="a sweep has at most 1,000,000 runs; got 8,589,934,592"):
        sweep(walk, {"steps": [10, 20]}, seeds=2**32, store=store)
    with pytest.raises(ValueError, match="seeds must be an integer, at least 1; got 0"):
        sweep(walk, {"steps": [10]}, seeds=0, store=store)
    assert not store.root.exists()


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, lambda: choose("local", 2)])
def test_any_executor_gives_the_same_summary(walk, store: Store, tmp_path, pool):
    here = sweep(walk, {"drift": [0.0, 1.0]}, store=store, executor=InProcess())
    with pool() as executor:
        there = sweep(walk, {"drift": [0.0, 1.0]}, store=Store(tmp_path / "other"), executor=executor)
    assert there.cells == here.cells
    assert (there.folder / "summary.nc").read_bytes() == (here.folder / "summary.nc").read_bytes()


def test_the_reduced_numbers_of_all_runs_are_kept_over_the_grid(walk, store: Store):
    done = sweep(walk, {"drift": [0.0, 1.0], "steps": [20, 30]}, seeds=2, store=store)
    with xr.open_dataset(done.folder / "reduced.nc", engine="h5netcdf") as reduced:
        assert dict(reduced.sizes) == {"drift": 2, "steps": 2, "run": 2, "seed": 4}
        alone = run(walk(drift=1.0, steps=30), seed=1, store=store).reduced()
        np.testing.assert_array_equal(reduced.end.sel(drift=1.0, steps=30, run=1), alone.end)


def test_what_changes_its_shape_over_the_grid_is_left_out():
    def cell(size: int) -> Cell:
        reduced = xr.Dataset({"same": ("step", [1.0, 2.0]), "ends": ("member", np.ones(size))}, {"step": [0, size]})
        return Cell((size,), 0, [], reduced)

    found = collect({"member": [2, 3, 4]}, [cell(2), cell(3), Cell((4,), 0, None, None, "crashed")])
    assert found is not None
    assert list(found.data_vars) == ["same"]
    assert "step" not in found.coords, "it differs from run to run"
    np.testing.assert_array_equal(found.same[:, 0], [[1, 2], [1, 2], [np.nan, np.nan]])
    same = collect({"member": [2]}, [cell(2)])
    assert same is not None
    assert same.ends.dims == ("member", "run", "member_of_run")
