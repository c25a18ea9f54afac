"""A sweep is stored runs, and one dataset over the grid."""

from __future__ import annotations

import csv
import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.lab.errors import ClusterLost, DiskError, UsageError, WorkerLost
from dynascope.lab.fields import build
from dynascope.lab.monitor import Progress
from dynascope.lab.netcdf import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.sweeps import carry_out, points, sweep
from dynascope.lab.sweeps.gathering import Gathering, flat
from dynascope.lab.sweeps.plan import plan
from dynascope.lab.workers.executors import InProcess, choose

TOY = Path(__file__).with_name("toy.py")
GRID = {"drift": [0.0, 1.0]}
SHORT = {"steps": 10}


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are most of the cost of a small sweep: only the tests that look at them draw any."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("dynascope.lab.sweeps.figures.draw", lambda _: ())


@pytest.fixture
def drawn() -> None:
    pass


def file(data: xr.Dataset, name: str = "sweep.nc") -> Path:
    return Path(data.attrs["folder"]) / name


def shuffled(executor: Executor) -> Executor:
    """An executor whose futures end in another order."""

    class Shuffled(Executor):
        def __init__(self):
            self.waiting: list[Callable[[], None]] = []

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
            future: Future = Future()
            self.waiting.append(lambda: future.set_result(executor.submit(fn, *args, **kwargs).result()))
            threading.Timer(0.2, self.work).start()
            return future

        def work(self) -> None:
            random.Random(1).shuffle(waiting := [*self.waiting])
            self.waiting.clear()
            for each in waiting:
                each()

    return Shuffled()


def test_verdicts_and_numbers_over_the_grid(walk, store: Store):
    reported: list[Progress] = []
    data = sweep(walk, GRID, base=SHORT, seeds=3, store=store, on_progress=reported.append)
    assert [(progress.done, progress.total) for progress in reported] == [(k, 6) for k in range(1, 7)]
    assert data.verdict.dims == ("drift", "seed", "claim")
    assert data.verdict.sel(claim="climbs").values.tolist() == [["fails"] * 3, ["holds"] * 3]
    assert data.holds.sel(claim="climbs").mean("seed").values.tolist() == [0.0, 1.0]
    assert data.share.sel(claim="climbs").values.tolist() == [0.0, 1.0]
    assert data.low.sel(claim="climbs", drift=1.0) == pytest.approx(0.4385, abs=1e-4)
    assert data.measured.sel(claim="end", drift=1.0).mean() == pytest.approx(10, abs=1)
    assert data.statement.sel(claim="climbs") == "the walk climbs"
    alone = run(walk(drift=1.0, steps=10), seed=2, store=store).reduced()
    assert data.end.dims == ("drift", "seed", "seed_of_run")
    np.testing.assert_array_equal(data.end.sel(drift=1.0, seed=2), alone.end)
    xr.testing.assert_identical(load(file(data)).drop_attrs(), data.drop_attrs())
    assert len(store.runs()[0]) == 6
    assert store.runs()[1] == []


def test_tables_and_figures_are_beside_the_dataset(walk, store: Store, drawn: None):
    data = sweep(walk, GRID, base=SHORT, seeds=2, store=store)
    rows = list(csv.DictReader(file(data, "claims.csv").read_text().splitlines()))
    assert [(row["drift"], row["claim"], row["share"], row["of"]) for row in rows[:2]] == [
        ("0.0", "climbs", "0.0", "2"),
        ("0.0", "end", "1.0", "2"),
    ]
    (first, second) = csv.DictReader(file(data, "numbers.csv").read_text().splitlines())
    assert (first["number"], second["of"]) == ("end", "8")
    assert float(second["low"]) < float(second["mean"]) < float(second["high"])
    assert json.loads(file(data, "sweep.json").read_text())["rows"][2]["drift"] == 1.0
    names = sorted(path.name for path in file(data, "figures").iterdir())
    assert names == ["claim-climbs.svg", "claim-end.svg", "number-end.svg"]


def test_an_id_is_enough_and_the_lab_has_it(store: Store):
    data = ds.lab.sweep(f"{TOY}::toy.walk", GRID, base=SHORT, store=store)
    assert isinstance(data, xr.Dataset)
    assert data.attrs["experiment"] == "toy.walk"
    with pytest.raises(UsageError, match="no experiment"):
        ds.lab.sweep("edge.nothing-like-it", GRID, store=store)


def test_what_is_stored_is_not_run_again(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    first = sweep(walk, GRID, preset="quick", store=store)
    before = {path: path.stat().st_mtime_ns for path in file(first, "").rglob("*")}
    monkeypatch.setattr(walk, "measure", lambda *_: pytest.fail("it is stored"))
    monkeypatch.setattr(InProcess, "submit", lambda *_: pytest.fail("nobody needs to be asked"))
    again = sweep(walk, GRID, preset="quick", store=store)
    xr.testing.assert_identical(again, first)
    assert {path: path.stat().st_mtime_ns for path in file(first, "").rglob("*")} == before


def test_points_are_drawn_when_somebody_looks_at_one(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    sweep(walk, {"drift": [1.0]}, preset="quick", store=store)
    assert not store.runs()[0][0].figures
    monkeypatch.setattr(walk, "measure", lambda *_: pytest.fail("its measurement is stored"))
    assert run(build(walk, {"drift": 1.0}, "quick"), preset="quick", store=store).figures
    sweep(walk, {"drift": [1.0]}, preset="quick", store=store)
    assert store.runs()[0][0].figures


def test_a_point_is_not_the_last_run_of_its_experiment_until_it_is_run_by_itself(walk, store: Store):
    sweep(walk, GRID, base=SHORT, store=store)
    assert store.latest()[0] == {}
    assert all(found.sweep for found in store.runs()[0])
    run(walk(drift=1.0, steps=10), store=store, draw=False)
    assert store.latest()[0]["toy.walk"].config["drift"] == 1.0
    assert sum(found.sweep for found in store.runs()[0]) == 1
    sweep(walk, GRID, base=SHORT, store=store, force=True)
    assert store.latest()[0]["toy.walk"].config["drift"] == 1.0, "it was run by itself before"


def test_two_keys_of_any_kind_and_a_crash_among_the_points(walk, store: Store):
    data = sweep(walk, {"noise": ["normal", "uniform"], "crash_in": ["", "judge"]}, base=SHORT, store=store)
    assert [line[:34] for line in data.gaps] == [
        "noise=normal, crash_in=judge, seed",
        "noise=uniform, crash_in=judge, see",
    ]
    assert "told to crash in judge" in data.gaps[0]
    assert data.verdict.sel(claim="climbs", seed=0).values.tolist() == [["holds", "gap"], ["holds", "gap"]]
    assert np.isnan(data.share.sel(claim="climbs", crash_in="judge")).all()
    assert np.isnan(data.end.sel(crash_in="judge")).all()
    assert len(store.runs()[0]) == 2


def test_every_point_is_checked_before_the_first_runs(walk, store: Store):
    with pytest.raises(UsageError, match="steps must be an integer ≥ 1; got"):
        sweep(walk, {"steps": [10, -1]}, store=store)
    with pytest.raises(UsageError, match="at least one value"):
        sweep(walk, {"steps": []}, store=store)
    with pytest.raises(UsageError, match="grid steps: 10 is given twice"):
        sweep(walk, {"steps": [10, 10]}, store=store)
    with pytest.raises(UsageError, match="a sweep must have at most 1,000,000 runs; got 8,589,934,592"):
        sweep(walk, {"steps": [10, 20]}, seeds=2**32, store=store)
    with pytest.raises(ValueError, match="seeds must be an integer, at least 1; got 0"):
        sweep(walk, {"steps": [10]}, seeds=0, store=store)
    with pytest.raises(UsageError, match="part must be one from 1/3 to 3/3; got 4/3"):
        sweep(walk, {"steps": [10]}, part=(4, 3), store=store)
    assert not store.root.exists()


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, lambda: choose("local", 2), lambda: shuffled(InProcess())])
def test_any_executor_gives_the_same_bytes(walk, store: Store, tmp_path, pool):
    here = sweep(walk, GRID, base=SHORT, seeds=2, store=store, executor=InProcess())
    with pool() as executor:
        there = sweep(walk, GRID, base=SHORT, seeds=2, store=Store(tmp_path / "other"), executor=executor)
    for name in ("sweep.nc", "claims.csv", "numbers.csv", "sweep.json"):
        assert file(there, name).read_bytes() == file(here, name).read_bytes(), name


def test_numbers_are_one_sweep_however_they_are_written(walk, store: Store, tmp_path):
    one = sweep(walk, {"drift": [0, 1]}, base=SHORT, store=store)
    assert one.attrs["folder"] == sweep(walk, GRID, base=SHORT, store=store).attrs["folder"]
    assert one.drift.dtype == np.float64


def test_parts_are_stored_runs_and_the_whole_is_made_of_them(walk, store: Store, tmp_path, monkeypatch):
    grid = {"drift": [0.0, 1.0], "steps": [5, 6]}
    whole = sweep(walk, grid, seeds=2, store=Store(tmp_path / "whole"))
    parts = [sweep(walk, grid, seeds=2, store=store, part=(k, 3)) for k in (3, 1, 2)]
    assert [int((part.verdict.isel(claim=0) != "gap").sum()) for part in parts] == [2, 3, 3]
    assert not (store.root / "toy.walk" / "sweeps").exists()
    monkeypatch.setattr(walk, "measure", lambda *_: pytest.fail("the parts are stored"))
    joined = sweep(walk, grid, seeds=2, store=store)
    assert file(joined).read_bytes() == file(whole).read_bytes()


def test_a_plan_counts_what_is_missing(walk, store: Store):
    asked = plan(walk, {"drift": [0.0, 1.0, 2.0]}, preset="quick", seeds=2, store=store)
    assert (asked.total, len(asked.missing), asked.seconds()) == (6, 6, pytest.approx(0.6))
    sweep(walk, {"drift": [1.0]}, preset="quick", seeds=2, store=store)
    asked = plan(walk, {"drift": [0.0, 1.0, 2.0]}, preset="quick", seeds=2, store=store)
    assert asked.missing == [0, 1, 4, 5]
    assert asked.seconds(jobs=2) == pytest.approx(0.2)
    assert asked.name(5) == "drift=2.0, seed 1"


def test_the_control_is_swept(walk, store: Store):
    data = sweep(walk, {"steps": [10, 20]}, control=True, store=store)
    assert data.control
    assert data.verdict.sel(claim="climbs").values.tolist() == [["fails"], ["fails"]]


class Losing(Executor):
    """Carries out all runs but the second, which ends with an error."""

    def __init__(self, error: Exception):
        self.error, self.count = error, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        self.count += 1
        if self.count != 2:
            return InProcess().submit(fn, *args, **kwargs)
        future: Future = Future()
        future.set_exception(self.error)
        return future


def test_a_lost_worker_is_a_gap_and_a_lost_cluster_the_end(walk, store: Store):
    grid = {"drift": [0.0, 1.0, 2.0]}
    data = sweep(walk, grid, base=SHORT, store=store, executor=Losing(WorkerLost("its process was killed")))
    assert data.gaps == ["drift=1.0, seed 0: its process was killed"]
    assert data.verdict.isel(claim=0, seed=0).values.tolist() == ["fails", "gap", "holds"]
    for error in (ClusterLost("the scheduler went away"), DiskError("disk full")):
        with pytest.raises(type(error), match=str(error)):
            sweep(walk, grid, base={"steps": 11}, store=store, executor=Losing(error))
    assert sweep(walk, grid, base=SHORT, store=store).gaps == []


def test_few_runs_are_with_the_executor_at_once(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(points, "MOST_AT_ONCE", 2)
    most, lock, now = 0, threading.Lock(), 0

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
            nonlocal most, now
            with lock:
                now += 1
                most = max(most, now)

            def ended(_: Future) -> None:
                nonlocal now
                with lock:
                    now -= 1

            future = super().submit(fn, *args, **kwargs)
            future.add_done_callback(ended)
            return future

    with Counting(4) as executor:
        data = sweep(walk, {"drift": [float(k) for k in range(7)]}, base=SHORT, store=store, executor=executor)
    assert most <= 2
    assert data.gaps == []


def test_two_sweeps_at_once_share_the_work(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    measured: list[float] = []
    real = walk.measure

    def measure(self, seed: int) -> xr.Dataset:
        measured.append(self.drift)
        return real(self, seed)

    monkeypatch.setattr(walk, "measure", measure)
    grid = {"drift": [0.0, 1.0, 2.0]}
    found: list[xr.Dataset] = []

    def work() -> None:
        found.append(sweep(walk, grid, base={"steps": 5, "pause": 0.01}, store=store))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(measured) == grid["drift"]
    xr.testing.assert_identical(*found)
    assert found[0].gaps == []


def gathered(order: list[int], sizes: list[int]) -> Gathering:
    """Four runs, the last one a gap; `ends` changes its shape, and so does the coordinate `step`."""
    found = Gathering({"member": [2, 3], "word": ["a", "b"]}, 1)
    for k in order:
        reduced = xr.Dataset(
            {"same": ("step", [k, 2.0]), "ends": ("member", np.ones(sizes[k])), "name": ("x", ["a"])},
            {"step": [0, sizes[k]]},
        )
        claims = [{"id": name, "statement": name, "verdict": "holds", "measured": 1} for name in "cb"[: k + 1]]
        found.add(k, claims, reduced)
    return found


def test_what_changes_its_shape_over_the_grid_is_left_out_with_the_reason():
    found = gathered([0, 1, 2], [2, 3, 3])
    assert found.left_out() == {
        "ends": "it changes over the grid: (member_of_run 2) here, (member_of_run 3) there",
        "name": "it is not numbers",
    }
    data = found.dataset()
    assert {"ends", "name"}.isdisjoint(data.variables)
    assert "step" not in data.coords, "it differs from run to run"
    np.testing.assert_array_equal(data.same[:, :, 0, 0], [[0, 1], [2, np.nan]])
    assert data.verdict.sel(claim="b").values[..., 0].tolist() == [["not judged", "holds"], ["holds", "gap"]]
    same = gathered([0, 1, 2], [2, 2, 2]).dataset()
    assert same.ends.dims == ("member", "word", "seed", "member_of_run")
    assert same.step.values.tolist() == [0, 2]


def test_the_order_in_which_runs_come_does_not_matter():
    one, two = (gathered(order, [2, 3, 3]) for order in ([0, 1, 2], [2, 1, 0]))
    xr.testing.assert_identical(one.dataset(), two.dataset())
    assert one.dataset().claim.values.tolist() == two.dataset().claim.values.tolist() == ["c", "b"]
    assert one.left_out() == two.left_out()


def test_a_tree_is_flattened():
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"a": 1.0}), "/deep/er": xr.Dataset({"b": ("x", [1.0, 2.0])})})
    found = flat(tree)
    assert {name: found[name].dims for name in found.data_vars} == {"a": (), "deep_er_b": ("deep_er_x",)}


def test_carry_out_tells_of_each_gap(walk, store: Store):
    told: list[tuple[str, BaseException]] = []
    asked = plan(walk, {"crash_in": ["", "measure"]}, base=SHORT, store=store)
    done = carry_out(asked, on_gap=lambda line, error: told.append((line, error)))
    assert [line for line, _ in told] == list(done.gaps)
    assert "told to crash" in str(told[0][1].__cause__)
