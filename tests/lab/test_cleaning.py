"""Removing runs: what may go goes, and nothing else, whoever else is at work and wherever links lead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynascope.lab import cleaning
from dynascope.lab.cleaning import choose, find_named, parse_duration, remove
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.files import checksum
from dynascope.lab.inventory import inspect
from dynascope.lab.locks import lock
from dynascope.lab.run import run
from dynascope.lab.run_folders import lock_path
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

WALK = f"{Path(__file__).with_name('toy.py')}::toy.walk"


def keep(store: Store, digest: str = "0123456789ab", id: str = "toy.walk", **facts: object) -> StoredRun:
    """A run as small as one can be."""
    folder = store.root / id / digest
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"fields": {}}')
    head = {"format": 2, "status": "complete", "id": id, "digest": digest, "seed": 0, "dynascope": cleaning.__version__}
    claims = {"holds": 1, "fails": 0, "erratum": 0, "main": "holds", "news": []}
    rest = {"figures": [], "claims": claims, "command": "", "finished": "2026-01-01T00:00:00+00:00"}
    files = {"config.json": checksum(folder / "config.json")}
    (folder / "manifest.json").write_text(json.dumps({**head, **rest, "files": files, **facts}))
    return StoredRun.open(folder)


def folders(store: Store) -> set[str]:
    return {path.name for path in store.root.glob("*/*")}


def names(found: tuple[list, list]) -> dict[str, str]:
    return {item.folder.name: why for item, why in found[0]}


def test_a_named_run_goes_with_all_that_is_left_of_it(store: Store):
    one, other = keep(store), keep(store, "ba9876543210")
    for suffix in (".old", ".unfinished", ".removed"):
        (one.folder.with_name(one.digest + suffix)).mkdir()
    items = find_named(store, ["0123"])
    assert len(items) == 4
    assert remove(store, items, dry=True) == (items, [])
    assert len(folders(store)) == 5
    gone, left = remove(store, items)
    assert (len(gone), left) == (4, [])
    assert folders(store) == {other.digest}


def test_an_unfinished_folder_goes_alone(store: Store):
    one = keep(store)
    cut = one.folder.with_name(f"{one.digest}.unfinished")
    cut.mkdir()
    assert [item.folder for item in remove(store, find_named(store, [str(cut)]))[0]] == [cut]
    assert folders(store) == {one.digest}


@pytest.mark.parametrize("name", ["toy.walk/sweeps", ".", "..", "toy.walk", "toy.walk/mine"])
def test_what_is_no_run_of_the_store_is_refused(store: Store, name: str):
    keep(store)
    for other in ("sweeps", "mine"):
        (store.root / "toy.walk" / other).mkdir()
    path = f"{store.root}/{name}" if name != "toy.walk" else f"{store.root}/toy.walk/"
    with pytest.raises(UsageError, match="is not a run of the store"):
        find_named(store, [path])
    elsewhere = keep(Store(store.root.parent / "elsewhere"), "aaaaaaaaaaaa")
    with pytest.raises(UsageError, match="--runs names another store"):
        find_named(store, [str(elsewhere.folder)])


def test_a_run_that_is_being_written_is_left(store: Store):
    one = keep(store)
    cut = one.folder.with_name(f"{one.digest}.unfinished")
    cut.mkdir()
    with lock(lock_path(one.folder), "busy"):
        gone, left = remove(store, find_named(store, [one.digest]))
        assert gone == []
        assert [line.endswith("is being written or removed by another process: left") for line in left] == [True, True]
        assert choose(store, failed=True)[0] == []
    assert folders(store) == {one.digest, cut.name}
    assert names(choose(store, failed=True)) == {cut.name: "unfinished"}


def test_a_run_that_was_replaced_meanwhile_is_left(store: Store):
    one = keep(store)
    items = find_named(store, [one.digest])
    path = one.folder / "manifest.json"
    path.write_text(json.dumps({**one.manifest, "finished": "2026-02-02T00:00:00+00:00"}))
    gone, left = remove(store, items)
    assert (gone, left) == ([], [f"{one.folder} was written again in the meantime: not removed"])
    assert one.folder.exists()


def test_links_are_never_followed(store: Store, tmp_path: Path):
    precious = tmp_path / "precious"
    away = keep(Store(precious), "aaaaaaaaaaaa")
    (away.folder / "thesis.tex").write_text("years of work")
    store.root.mkdir()
    (store.root / "toy.linked").symlink_to(precious / "toy.walk")
    inside = keep(store)
    (inside.folder / "link").symlink_to(precious)
    (store.root / "toy.walk" / "bbbbbbbbbbbb").symlink_to(away.folder)
    items = [item for item, _ in choose(store, older_than=0.0, failed=True)[0]] + find_named(store, [inside.digest])
    assert {item.folder.name for item in items} == {inside.digest, "bbbbbbbbbbbb", "aaaaaaaaaaaa"}
    for dry in (True, False):
        gone, left = remove(store, items, dry=dry)
        assert [item.folder for item in gone] == [inside.folder]
        assert len(left) == 2
        assert all(line.endswith("is behind a link out of the store: not removed") for line in left)
    assert (away.folder / "thesis.tex").read_text() == "years of work"
    assert not inside.folder.exists()


def test_the_store_itself_may_be_a_link(tmp_path: Path):
    real = keep(Store(tmp_path / "real"))
    (tmp_path / "runs").symlink_to(tmp_path / "real")
    store = Store(tmp_path / "runs")
    assert len(remove(store, find_named(store, [real.digest]))[0]) == 1
    assert not real.folder.exists()


def test_what_crashed_was_cut_short_or_is_damaged_may_go(store: Store):
    keep(store)
    (keep(store, "aaaaaaaaaaaa").folder / "config.json").unlink()
    parent = store.root / "toy.walk"
    (parent / "bbbbbbbbbbbb.unfinished").mkdir()
    (parent / "cccccccccccc.unfinished").mkdir()
    (parent / "cccccccccccc.unfinished" / "crash.log").write_text("Traceback:\nValueError: no\n")
    (parent / "dddddddddddd.removed").mkdir()
    (parent / "my notes").mkdir()
    assert names(choose(store, failed=True)) == {
        "aaaaaaaaaaaa": "damaged",
        "bbbbbbbbbbbb.unfinished": "unfinished",
        "cccccccccccc.unfinished": "crashed",
        "dddddddddddd.removed": "left over",
    }
    assert names(choose(store, "edge.*", failed=True)) == {}
    remove(store, [item for item, _ in choose(store, failed=True)[0]])
    assert folders(store) == {"0123456789ab", "my notes"}


def test_ages_are_combined_with_the_rest(store: Store):
    keep(store, finished="2020-01-01T00:00:00+00:00")
    keep(store, "aaaaaaaaaaaa", finished="2999-01-01T00:00:00+00:00")
    fresh, stale = (store.root / "toy.walk" / f"{letter * 12}.unfinished" for letter in "bc")
    for folder in (fresh, stale):
        folder.mkdir()
        (folder / "draft.json").write_text("{}")
    old = time.time() - 10 * 86400
    os.utime(stale / "draft.json", (old, old))
    assert names(choose(store, older_than=parse_duration("2d"))).keys() == {"0123456789ab", stale.name}
    assert names(choose(store, older_than=parse_duration("2d"), failed=True)).keys() == {stale.name}
    assert names(choose(store, failed=True)).keys() == {fresh.name, stale.name}


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2592000.0), ("12h", 43200.0), ("0.5w", 302400.0)])
def test_a_duration_has_a_unit(text: str, seconds: float):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "30m", "1e9d", "nand", "٣d", "1" * 5000 + "d"])
def test_what_is_no_duration_is_one_line(text: str):
    with pytest.raises(UsageError, match=r"--older-than must be a number and h, d or w .* such as 30d; got"):
        parse_duration(text)


def test_old_code_is_code_whose_measurement_no_run_would_take(walk, store: Store):
    current = run(walk(steps=5), store=store, draw=False)
    redrawn = run(walk(steps=6), store=store, draw=False)
    changed = run(walk(steps=7), store=store, draw=False)
    released = run(walk(steps=8), store=store, draw=False)
    for stored, facts in (
        (redrawn, {"code": {**redrawn.manifest["code"], "draw": "0"}}),
        (changed, {"code": {**changed.manifest["code"], "measure": "0"}}),
        (released, {"dynascope": "0.0.1"}),
    ):
        (stored.folder / "manifest.json").write_text(json.dumps({**stored.manifest, **facts}))
    assert names(choose(store, WALK, old_code=True)) == {changed.digest: "old code", released.digest: "old code"}
    found, lines = choose(store, old_code=True)
    assert [item.digest for item, _ in found] == [released.digest]
    assert lines == ["toy.walk: its experiment is not found, so the code of its runs is not compared"]
    assert run(walk(steps=6), store=store, draw=False).digest == redrawn.digest
    assert current.folder.exists()


def test_a_store_that_cannot_be_written_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch):
    one = keep(store)

    def refuse(path: object, *_: object) -> int:
        raise OSError(30, "Read-only file system", str(path))

    items = find_named(store, [one.digest])
    monkeypatch.setattr("dynascope.lab.files.os.open", refuse)
    with pytest.raises(StoreError, match="Read-only file system while removing runs of") as caught:
        remove(store, items)
    assert "\n" not in str(caught.value)


def test_two_at_once_remove_everything_once(store: Store):
    for number in range(40):
        keep(store, f"{number:012x}")
    command = [sys.executable, "-m", "dynascope.cli", "gc", "--older-than", "1h", "--yes", "--runs", str(store.root)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert folders(store) == set()
    assert sum(out.count("0000000000") for out, _ in said) == 40
    assert not any("Traceback" in errors for _, errors in said)


def test_a_removal_that_was_cut_short_leaves_nothing_that_looks_like_a_run(store: Store, monkeypatch):
    one = keep(store)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    items = find_named(store, [one.digest])
    with monkeypatch.context() as patch:
        patch.setattr(cleaning.shutil, "rmtree", lambda path, ignore_errors=False: None if ignore_errors else killed())
        with pytest.raises(KeyboardInterrupt):
            remove(store, items)
    assert folders(store) == {f"{one.digest}.removed"}
    assert store.runs() == ([], [])
    assert inspect(store.root / "toy.walk" / f"{one.digest}.removed").state == "left over"
    remove(store, [item for item, _ in choose(store, failed=True)[0]])
    assert folders(store) == set()
