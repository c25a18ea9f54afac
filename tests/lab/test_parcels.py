"""Runs of workers that do not see the store come back by the wire, complete or not at all."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from pathlib import Path

import pytest

from dynascope.lab.errors import ExperimentCrash, StoreError
from dynascope.lab.run import run
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.sweeps.points import run_point
from dynascope.lab.workers.calls import result_of
from dynascope.lab.workers.parcels import Parcel, Place, place_of

ELSEWHERE = "a token that nobody finds"


def test_a_store_is_seen_by_its_token(store: Store):
    with place_of(store, far=True) as place:
        assert place.visible
        assert Path(place.root).is_absolute()
        assert not dataclasses.replace(place, token=ELSEWHERE).visible
        shutil.rmtree(store.root)
        assert not place.visible
        store.root.mkdir()
    assert list(store.root.iterdir()) == []
    with place_of(store, far=False) as near:
        assert near.visible


def test_a_run_made_elsewhere_is_stored_as_if_it_were_made_here(walk, store: Store, tmp_path: Path):
    place = Place(str(store.root), ELSEWHERE)
    parcel = run_point(Setting.parse(walk, changes={"steps": 5}, seed=3, sweep=True), place)
    assert isinstance(parcel, Parcel)
    assert not store.root.exists()
    claims, reduced = parcel.deliver()
    here = run(walk(steps=5), seed=3, store=Store(tmp_path / "here"), draw=False)
    (stored,) = store.runs()[0]
    assert (stored.digest, stored.verify().manifest["files"]) == (here.digest, here.manifest["files"])
    assert claims == [claim.model_dump(mode="json") for claim in stored.claims]
    assert reduced.identical(here.reduced())
    assert [path.name for path in stored.folder.parent.iterdir()] == [stored.digest]
    assert run(walk(steps=5), seed=3, store=store, draw=False).reused


def test_a_crash_elsewhere_leaves_its_log_here(walk, store: Store):
    parcel = run_point(
        Setting.parse(walk, changes={"steps": 5, "crash_in": "judge"}, seed=0, sweep=True),
        Place(str(store.root), ELSEWHERE),
    )
    with pytest.raises(ExperimentCrash, match="told to crash in judge") as crash:
        parcel.deliver()
    (log,) = store.root.glob("*/*/crash.log")
    assert str(crash.value).endswith(f"(traceback in {log})")
    assert "RuntimeError: told to crash" in log.read_text()
    assert store.runs()[0] == []


def test_what_arrives_damaged_or_would_leave_its_folder_is_refused(walk, store: Store):
    parcel = run_point(Setting.parse(walk, changes={"steps": 5}, seed=0, sweep=True), Place(str(store.root), ELSEWHERE))
    for name in ("../evil", "/evil", "figures/../../evil"):
        with pytest.raises(StoreError, match="outside its run"):
            dataclasses.replace(parcel, files={name: b"", **parcel.files}).deliver()
    with pytest.raises(StoreError, match=r"reduced.nc of toy.walk/.* arrived damaged from a worker"):
        dataclasses.replace(parcel, files={**parcel.files, "reduced.nc": b""}).deliver()
    assert store.runs()[0] == []


def test_a_store_that_cannot_be_written_is_one_line(walk, tmp_path: Path):
    parcel = run_point(
        Setting.parse(walk, changes={"steps": 5}, seed=0, sweep=True), Place(str(tmp_path / "file"), ELSEWHERE)
    )
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"while storing toy\.walk"):
        parcel.deliver()
    with pytest.raises(StoreError, match="cannot be written to"), place_of(_unchecked(tmp_path / "file"), True):
        pass


def _unchecked(root: Path) -> Store:
    store = Store(root.parent)
    store.root = root
    return store


def test_a_parcel_is_delivered_on_its_way_out_of_an_answer(walk, store: Store):
    parcel = run_point(Setting.parse(walk, changes={"steps": 5}, seed=0, sweep=True), Place(str(store.root), ELSEWHERE))
    claims, _ = result_of(pickle.dumps((True, parcel)))
    assert len(claims) == 2
    assert len(store.runs()[0]) == 1
