"""What the store has, as a list and as a table: states, settings that differ, ages and sizes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dynascope as ds
from dynascope.lab import formatting
from dynascope.lab.errors import LabError, UsageError
from dynascope.lab.inventory import Item, inventory
from dynascope.lab.listing import fields_that_differ, rows
from dynascope.lab.locks import lock
from dynascope.lab.run import run
from dynascope.lab.run_folders import lock_path
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

TOY = Path(__file__).with_name("toy.py")


def rewrite(stored: StoredRun, **facts: object) -> None:
    path = stored.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def states(store: Store) -> dict[str, str]:
    return {item.digest: item.state for item in inventory(store)}


def test_runs_are_listed_latest_first_with_the_settings_that_differ(walk, store: Store):
    first = run(walk(steps=5), store=store, draw=False)
    second = run(walk(steps=6, note="[bold]"), seed=3, preset="quick", store=store, draw=False)
    items = inventory(store)
    assert [item.digest for item in items] == [second.digest, first.digest]
    assert fields_that_differ(items) == {"toy.walk": ["steps", "note"]}
    head, *_ = rows(items)
    assert head["settings"] == {"steps": 6, "note": "[bold]"}
    assert (head["preset"], head["seed"], head["holds"], head["fails"]) == ("quick", 3, 2, 0)
    assert head["bytes"] == sum(path.stat().st_size for path in second.folder.rglob("*"))


def test_settings_are_compared_within_an_experiment(walk, store: Store):
    still = ds.lab.registry.load(f"{TOY}::toy.still")
    run(walk(steps=5), store=store, draw=False)
    run(still(steps=6), store=store, draw=False)
    assert fields_that_differ(inventory(store)) == {"toy.walk": [], "toy.still": []}


def test_points_of_sweeps_are_left_out_unless_asked_for(walk, store: Store):
    point = run(walk(steps=5), store=store, draw=False)
    rewrite(point, sweep=True)
    single = run(walk(steps=6), store=store, draw=False)
    assert [item.digest for item in inventory(store, sweeps=False)] == [single.digest]
    assert len(inventory(store)) == 2
    rewrite(single, sweep=True)
    assert store.latest()[0] == {}


def test_what_is_not_a_complete_run_is_named_with_its_state(walk, store: Store):
    damaged = run(walk(steps=5), store=store, draw=False)
    (damaged.folder / "reduced.nc").unlink()
    changed = run(walk(steps=6), store=store, draw=False)
    (changed.folder / "config.json").write_text("{}")
    earlier = run(walk(steps=7), store=store, draw=False)
    rewrite(earlier, format=1)
    with pytest.raises(LabError):
        run(walk(steps=8, crash_in="judge"), store=store)
    (crash,) = store.root.glob("*/*.unfinished")
    cut = crash.with_name("0123456789ab.unfinished")
    cut.mkdir()
    told = {item.folder.name: (item.state, item.problem) for item in inventory(store)}
    assert told.pop(cut.name) == ("unfinished", "")
    assert told.pop(crash.name) == ("crashed", "RuntimeError: told to crash in judge")
    assert {state for state, _ in told.values()} == {"damaged", "earlier version"}
    assert told[damaged.digest][1].startswith(f"{damaged.folder / 'reduced.nc'} is missing")
    assert "config.json is damaged" in told[changed.digest][1]
    with lock(lock_path(cut), "busy"):
        assert states(store)["0123456789ab"] == "running"
    assert states(store)["0123456789ab"] == "unfinished"


@pytest.mark.parametrize("files", [None, 3, ["x"], {"config.json": 1}])
def test_a_manifest_of_the_wrong_form_is_damage_and_no_crash(walk, store: Store, files: object):
    rewrite(run(walk(steps=5), store=store, draw=False), files=files)
    assert list(states(store).values()) == ["damaged"]


def test_an_age_is_never_negative(walk, store: Store):
    stored = run(walk(steps=5), store=store, draw=False)
    rewrite(stored, finished=(datetime.now(UTC) + timedelta(days=3)).isoformat())
    (item,) = inventory(store)
    assert item.age == 0
    assert formatting.age(item.age) == "just now"
    for stamp in ("yesterday", None, "2026-01-01T00:00:00", "9999-12-31T23:59:59-12:00"):
        rewrite(stored, finished=stamp)
        (item,) = inventory(store)
        assert item.age >= 0


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "just now"), (90, "1 min"), (7200, "2 h"), (3e5, "3 d"), (1e9, "11574 d")]
)
def test_ages_in_words(seconds: int | float, said: str):
    assert formatting.age(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_600, "1.0 MB"), (12_300_000, "12 MB")]
)
def test_sizes_in_words(count: int, said: str):
    assert formatting.size(count) == said


def test_sizes_do_not_count_what_lies_behind_a_link(tmp_path: Path):
    folder = tmp_path / "runs" / "x" / "0123456789ab"
    folder.mkdir(parents=True)
    (tmp_path / "big").write_bytes(bytes(100_000))
    (folder / "link").symlink_to(tmp_path / "big")
    assert Item(folder, "damaged").size < 1000


def test_a_wrong_pattern_is_refused_and_an_experiment_without_runs_is_empty(walk, store: Store):
    run(walk(steps=5), store=store, draw=False)
    with pytest.raises(UsageError, match=r"no experiment 'toy.wlak'; did you mean 'toy.walk'\?"):
        inventory(store, "toy.wlak")
    with pytest.raises(UsageError, match=r"did you mean 'edge.product'\?"):
        inventory(store, "edge.prodct")
    assert inventory(store, "edge.*") == []
    assert len(inventory(store, f"{TOY}::toy.walk")) == len(inventory(store, "toy.*")) == 1


def test_the_table_for_a_notebook(walk, store: Store):
    run(walk(steps=5), store=store, draw=False)
    run(walk(steps=6), seed=2, store=store, draw=False)
    (store.root / "toy.walk" / "foreign").mkdir()
    table = ds.lab.runs("toy.*", store=store)
    assert list(table.columns) == [
        "id", "digest", "preset", "seed", "steps", "holds", "errata", "fails", "finished", "bytes", "folder"
    ]  # fmt: skip
    assert list(table.steps) == [6, 5]
    assert str(table.finished.dt.tz) == "UTC"
    assert ds.lab.load(table.digest[1], store=store).config["steps"] == 5
    assert ds.lab.runs("edge.*", store=store).empty
