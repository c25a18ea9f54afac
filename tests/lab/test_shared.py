"""A measurement that two experiments look at is made once, and never taken from a run that is not sound."""

from __future__ import annotations

import json
import shutil
import threading

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from dynascope.dynamics.monitor import current_monitor
from dynascope.lab import shared
from dynascope.lab.criteria import below
from dynascope.lab.errors import ExperimentCrash
from dynascope.lab.experiment import ComposedExperiment, Measurement, Source
from dynascope.lab.fingerprint import fingerprints
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.shared_index import runs_with
from dynascope.lab.stored_run import StoredRun

CALLS: list[tuple[float, int]] = []
"""The scale and the seed of every measurement that was made."""
FAILING: set[float] = set()
"""Scales whose measurement crashes."""


class Noise(Measurement):
    """Some random numbers."""

    scale: float = 1.0

    def measure(self, seed: int) -> xr.Dataset:
        CALLS.append((self.scale, seed))
        if self.scale in FAILING:
            raise RuntimeError("told to crash")
        current_monitor().keep("numbers", {"scale": np.asarray(self.scale)})
        drawn = self.scale * np.random.default_rng(seed).normal(size=4)
        return xr.Dataset({"drawn": ("member", drawn)}, {"member": list("abcd")}, attrs={"compile_seconds": 0.5})


class Largest(ComposedExperiment):
    """Is the largest of the numbers small?"""

    id = "toy.largest"
    source = Source("none", "Figure 1")
    cost = {"quick": 1, "full": 1}
    control = {"limit": 0.0}

    limit: float = 100.0

    def measurements(self) -> dict[str, Measurement]:
        return {"one": Noise()}

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        return xr.Dataset({name: abs(node["drawn"]).max() for name, node in measured.children.items()})

    def judge(self, reduced: xr.Dataset):
        yield below("small", "It is small", reduced.to_array(), self.limit)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> dict[str, Figure]:
        return {"nothing": Figure(figsize=(1, 1))}


class Both(Largest):
    """Are the largest of these and of others small?"""

    id = "toy.both"

    other: float = 2.0

    def measurements(self) -> dict[str, Measurement]:
        return {"first": Noise(), "second": Noise(scale=self.other)}


class Elsewhere(Largest):
    """Is it small in another system?"""

    id = "other.largest"


@pytest.fixture(autouse=True)
def _fresh():
    CALLS.clear()
    FAILING.clear()


def test_a_measurement_is_taken_from_a_run_of_another_experiment(store):
    first = run(Largest(), store=store, draw=False)
    second = run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (2.0, 0)], "the second experiment measures only what the first has not"
    taken = second.manifest["shared"]["first"]
    assert taken["from"] == f"toy.largest/{first.digest}"
    assert taken["key"] == first.manifest["shared"]["one"]["key"]
    assert taken["run_seconds"] == first.manifest["shared"]["one"]["run_seconds"]
    assert "from" not in second.manifest["shared"]["second"]
    assert sorted(path.name for path in second.folder.iterdir()) == sorted([*second.manifest["files"], "manifest.json"])


def test_what_is_taken_has_the_bits_of_what_is_measured(store, tmp_path):
    from dynascope.lab.store import Store

    run(Largest(), store=store, draw=False)
    taken, measured = run(Both(), store=store, draw=False), run(Both(), store=Store(tmp_path / "new"), draw=False)
    assert taken.manifest["files"]["measured.nc"] == measured.manifest["files"]["measured.nc"]
    alone = Both().measure(0)
    assert np.array_equal(taken.measured()["first/drawn"], alone["first/drawn"])
    assert taken.measured()["first"].attrs == {}, "timings are the manifest's"


def test_other_settings_seeds_and_systems_share_nothing(store):
    run(Both(), store=store, draw=False)
    run(Both(other=3.0), store=store, draw=False)
    run(Both(), seed=1, store=store, draw=False)
    run(Elsewhere(), store=store, draw=False)
    run(Largest(precision="float64"), store=store, draw=False)
    expected = [(1.0, 0), (2.0, 0), (3.0, 0), (1.0, 1), (2.0, 1), (1.0, 0), (1.0, 0)]
    assert expected == CALLS


def test_changed_code_of_the_measurement_measures_again(store, monkeypatch):
    run(Largest(), store=store, draw=False)
    known = fingerprints
    changed = {Noise: {"measure": "other"}, Both: {**known(Both), "measure": "other"}}
    monkeypatch.setattr(shared, "fingerprints", lambda kind: changed.get(kind) or known(kind))
    run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (1.0, 0), (2.0, 0)]


def test_code_in_no_file_is_not_shared(store, monkeypatch):
    monkeypatch.setattr(shared, "fingerprints", lambda kind: {"measure": ""})
    run(Largest(), store=store, draw=False)
    run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (1.0, 0), (2.0, 0)]


def test_a_damaged_or_an_unfinished_sibling_is_passed_over(store):
    sibling = run(Largest(), store=store, draw=False)
    (sibling.folder / "measured.nc").write_bytes(b"damaged")
    run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (1.0, 0), (2.0, 0)]
    FAILING.add(5.0)
    with pytest.raises(ExperimentCrash, match="told to crash"):
        run(Both(other=5.0), seed=1, store=store, draw=False)
    CALLS.clear()
    run(Largest(), seed=1, store=store, draw=False)
    assert CALLS == [(1.0, 1)], "a crashed run is not taken from"


def test_a_run_that_was_cut_short_goes_on_with_the_next_measurement(store):
    FAILING.add(2.0)
    with pytest.raises(ExperimentCrash):
        run(Both(), store=store, draw=False)
    FAILING.clear()
    done = run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (2.0, 0), (2.0, 0)]
    assert set(done.manifest["shared"]) == {"first", "second"}
    draft = done.folder.with_name(done.folder.name + ".unfinished")
    assert not draft.exists()


def test_what_a_cut_short_run_kept_is_used_only_if_it_is_intact(store):
    FAILING.add(2.0)
    with pytest.raises(ExperimentCrash):
        run(Both(), store=store, draw=False)
    FAILING.clear()
    (kept,) = store.root.glob("toy.both/*.unfinished/shared/first.nc")
    kept.write_bytes(kept.read_bytes()[:-1])
    run(Both(), store=store, draw=False)
    assert CALLS == [(1.0, 0), (2.0, 0), (1.0, 0), (2.0, 0)]


def test_force_measures_again(store):
    run(Largest(), store=store, draw=False)
    forced = run(Both(), store=store, draw=False, force=True)
    assert CALLS == [(1.0, 0), (1.0, 0), (2.0, 0)]
    assert all("from" not in origin for origin in forced.manifest["shared"].values())


def test_a_later_change_of_a_threshold_keeps_where_a_measurement_came_from(store, monkeypatch):
    run(Largest(), store=store, draw=False)
    first = run(Both(), store=store, draw=False)
    path = first.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["code"]["judge"] = "another"
    path.write_text(json.dumps(manifest))
    again = run(Both(), store=store, draw=False)
    assert again.manifest["shared"] == first.manifest["shared"]
    assert len(CALLS) == 2


def test_two_processes_that_want_the_same_measurement_make_it_once(store):
    """The second waits until the first has stored its run; threads have locks of their own, as processes do."""
    began, order = threading.Event(), []

    def second() -> None:
        began.wait()
        run(Largest(), store=store, draw=False)
        order.append("second")

    waiting = threading.Thread(target=second)
    waiting.start()
    with shared.reserved(Setting.of(Both()), store):
        began.set()
        waiting.join(timeout=0.5)
        assert waiting.is_alive(), "it waits"
        order.append("first")
    waiting.join(timeout=30)
    assert order == ["first", "second"]
    assert not list(store.root.glob(".*.lock"))


def test_a_measurement_returns_a_dataset(store, monkeypatch):
    monkeypatch.setattr(Noise, "measure", lambda self, seed: 1.0)
    with pytest.raises(ExperimentCrash, match="measure of Noise returned float, not an"):
        run(Largest(), store=store, draw=False)


def opened(monkeypatch) -> list[str]:
    """The runs whose manifests are read from now on."""
    names: list[str] = []
    real = StoredRun.open.__func__

    def open(cls, folder, reused=False):
        names.append(f"{folder.parent.name}/{folder.name}")
        return real(cls, folder, reused)

    monkeypatch.setattr(StoredRun, "open", classmethod(open))
    return names


def test_a_point_of_a_sweep_reads_as_many_manifests_however_many_are_stored(store, monkeypatch):
    names, reads = opened(monkeypatch), []
    for k in range(12):
        before = len(names)
        run(Both(other=float(k + 2)), store=store, draw=False)
        reads.append(len(names) - before)
    assert reads[-1] == reads[2], reads
    assert len(CALLS) == 13, "the first measurement is made once for all"


def test_a_run_that_was_replaced_or_removed_is_noticed(store):
    first = run(Largest(), store=store, draw=False)
    assert len(list(runs_with(store, "toy.both", key := first.manifest["shared"]["one"]["key"]))) == 1
    manifest = json.loads((first.folder / "manifest.json").read_text())
    manifest["shared"]["one"]["key"] = "another"
    other = first.folder.with_name("other")
    shutil.copytree(first.folder, other)
    (other / "manifest.json").write_text(json.dumps(manifest))
    first.folder.rename(first.folder.with_name(f"{first.digest}.removed"))
    assert not list(runs_with(store, "toy.both", key))
    other.rename(first.folder)
    assert not list(runs_with(store, "toy.both", key))
    assert len(list(runs_with(store, "toy.both", "another"))) == 1
