"""A run is found by its id, its setting, its seed, its digest or its folder; what is not found is one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import dynascope as ds
from dynascope.lab import registry
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.fields import build
from dynascope.lab.lookup import Wanted, find, locate
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

WALK = f"{Path(__file__).with_name('toy.py')}::toy.walk"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredRun]:
    walk, store = registry.load(WALK), Store(tmp_path_factory.mktemp("made"))
    asked = {
        "full": (walk(), None, 0),
        "quick": (build(walk, {}, "quick"), "quick", 0),
        "quick:1": (build(walk, {}, "quick"), "quick", 1),
        "control": (build(walk, {}, "quick", control=True), "quick", 0),
        "own": (build(walk, {"drift": 2.0}, "quick"), "quick", 0),
    }
    return {
        name: run(each, preset=preset, seed=seed, store=store, draw=False)
        for name, (each, preset, seed) in asked.items()
    }


@pytest.fixture
def several(made: dict[str, StoredRun], store: Store) -> dict[str, StoredRun]:
    """A full run, two of the quick preset, its control, and a setting of one's own; the last one is the latest."""
    shutil.copytree(made["full"].folder.parent.parent, store.root)
    return {name: StoredRun.open(store.root / run.id / run.digest) for name, run in made.items()}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("toy.walk", "own"),
        (WALK, "own"),
        ("toy.walk:1", "quick:1"),
        (f"{WALK}:1", "quick:1"),
        (f"{WALK}@full", "full"),
        (f"{WALK}@quick", "quick:1"),
        (f"{WALK}@quick:0", "quick"),
    ],
)
def test_a_name_means_the_latest_run_that_fits(several, store: Store, name: str, found: str):
    assert find(store, name).digest == several[found].digest


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"preset": "quick", "seed": 0}, "quick"),
        ({"preset": "quick"}, "quick:1"),
        ({"preset": "quick", "control": True}, "control"),
        ({"preset": "quick", "drift": 2.0}, "own"),
        ({"steps": 50}, "full"),
        ({"steps": 20, "seed": 1}, "quick:1"),
    ],
)
def test_a_notebook_loads_a_run_by_its_setting(several, store: Store, options: dict, found: str):
    loaded = ds.lab.load(WALK, store=store, **options)
    assert loaded.digest == several[found].digest
    assert loaded.measured().sizes["seed"] == 4
    assert ds.lab.load(registry.load(WALK), store=store, **options).digest == loaded.digest


def test_digests_and_folders_name_runs(several, store: Store, monkeypatch: pytest.MonkeyPatch):
    one = several["quick"]
    for name in (one.digest, one.digest[:6], f"toy.walk/{one.digest[:5]}", str(one.folder)):
        assert find(store, name).digest == one.digest
    monkeypatch.chdir(one.folder.parent)
    assert find(store, one.digest).digest == one.digest
    assert find(store, f"./{one.digest}/").digest == one.digest
    assert find(store, f"../toy.walk/{one.digest}").folder == one.folder
    with pytest.raises(UsageError, match="already names one run"):
        find(store, one.digest, Wanted(preset="quick"))


def test_an_ambiguous_digest_is_refused(several, store: Store):
    digest = several["quick"].digest
    (store.root / "toy.other" / f"{digest[:6]}000000").mkdir(parents=True)
    with pytest.raises(UsageError, match=rf"{digest[:6]} is short for 2 runs: toy.other/.*, toy.walk/.*; give more"):
        find(store, digest[:6])
    assert find(store, f"toy.walk/{digest[:6]}").digest == digest


@pytest.mark.parametrize(
    ("name", "wanted", "line"),
    [
        ("toy.wlak", Wanted(), "no experiment 'toy.wlak'; did you mean 'toy.walk'?"),
        ("", Wanted(), "a run is named by an id, a digest or a folder; got ''"),
        ("x" * 5000, Wanted(), "no experiment"),
        ("a\0b", Wanted(), "no experiment"),
        ("../../evil", Wanted(), "no experiment '../../evil'"),
        (f"{WALK}@quikc", Wanted(), "has no preset 'quikc'; it has quick, full; did you mean 'quick'?"),
        (f"{WALK}@quick", Wanted(preset="full"), "the preset is given twice: quick and full"),
        (f"{WALK}:1", Wanted(seed=0), "the seed is given twice: 1 and 0"),
        (WALK, Wanted(changes={"drfit": 1}), "toy.walk has no field 'drfit'; did you mean 'drift'?"),
        (WALK, Wanted(changes={"steps": 0}), "toy.walk: steps must be an integer"),
        ("toy.walk@quick", Wanted(), "toy.walk is stored, but its experiment is not found"),
    ],
)
def test_a_wrong_name_is_one_line(several, store: Store, name: str, wanted: Wanted, line: str):
    with pytest.raises(UsageError) as caught:
        find(store, name, wanted)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_there_is_no_run_the_command_that_makes_it_is_said(several, store: Store, walk):
    with pytest.raises(StoreError) as caught:
        ds.lab.load(WALK, preset="quick", seed=7, drift=3.0, store=store)
    command = "dynascope run toy.py::toy.walk --preset quick --set drift=3.0 --seed 7"
    assert f"create it with `{command}`" in str(caught.value)
    with pytest.raises(StoreError, match=r"create it with `dynascope run edge\.product`"):
        ds.lab.load("edge.product", store=store)
    with pytest.raises(StoreError, match="no run whose digest begins with 0000"):
        find(store, "0000")


def test_a_point_of_a_sweep_is_found_by_its_setting_only(several, store: Store):
    path = several["own"].folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sweep": True}))
    assert find(store, "toy.walk").digest == several["control"].digest
    assert ds.lab.load(WALK, preset="quick", drift=2.0, store=store).digest == several["own"].digest


def test_an_unfinished_run_is_said_to_be_so(several, store: Store):
    folder = several["own"].folder
    cut = folder.with_name(f"{folder.name}.unfinished")
    folder.rename(cut)
    for name in (folder.name, str(cut)):
        with pytest.raises(StoreError, match="is unfinished: repeat the command that began it to continue"):
            find(store, name)
    assert locate(store, folder.name) == folder
    assert find(store, "toy.walk").digest == several["control"].digest
