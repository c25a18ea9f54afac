"""The store reads what is complete and right, and says in one line what is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pydantic import Field

from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.files import checksum
from dynascope.lab.inventory import inventory
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun


@pytest.fixture
def stored(walk, store: Store) -> StoredRun:
    return run(walk(), store=store)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name",
    ["measured.nc", "predicted.nc", "reduced.nc", "claims.json", "config.json", "figures/walk.png", "figures/walk.svg"],
)
@pytest.mark.parametrize("how", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_named_and_can_be_replaced(stored: StoredRun, store: Store, walk, name: str, how: str):
    path = stored.folder / name
    {"flip": damage, "truncate": lambda p: p.write_bytes(b""), "remove": Path.unlink}[how](path)
    with pytest.raises(StoreError) as caught:
        run(walk(), store=store)
    assert str(path) in str(caught.value)
    assert "--force" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert run(walk(), store=store, force=True).verify()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"complete"',
        "{}",
        '{"format": 99, "status": "complete"}',
    ],
)
def test_a_manifest_that_is_none_is_reported(stored: StoredRun, store: Store, walk, text: str):
    (stored.folder / "manifest.json").write_text(text)
    runs, problems = store.runs()
    assert runs == []
    assert len(problems) == 1
    assert "manifest.json" in problems[0]
    with pytest.raises(StoreError, match="--force"):
        run(walk(), store=store)
    assert run(walk(), store=store, force=True).verify()


def test_a_missing_manifest_is_not_a_run(stored: StoredRun, store: Store, walk):
    (stored.folder / "manifest.json").unlink()
    assert store.runs()[0] == []
    with pytest.raises(StoreError, match=r"manifest.json is missing.*--force"):
        run(walk(), store=store)


def test_foreign_folders_are_skipped_and_said(stored: StoredRun, store: Store):
    (store.root / "notes").mkdir()
    (store.root / "notes" / "things").mkdir()
    (store.root / "toy.walk" / "readme.txt").write_text("hello")
    (store.root / "file").write_text("hello")
    runs, problems = store.runs()
    assert [found.digest for found in runs] == [stored.digest]
    assert len(problems) == 1
    assert "notes/things" in problems[0]


def test_a_run_that_was_moved_under_another_name_is_not_taken_for_it(stored: StoredRun, store: Store, walk):
    other = store.root / "toy.walk" / "000000000000"
    shutil.copytree(stored.folder, other)
    runs, problems = store.runs()
    assert [found.digest for found in runs] == [stored.digest]
    assert len(problems) == 1
    assert "000000000000" in problems[0]


def test_an_empty_or_absent_store_is_empty(tmp_path: Path):
    assert Store(tmp_path / "nowhere").runs() == ([], [])


def test_a_store_that_is_a_file_is_one_line(tmp_path: Path, walk, store: Store):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the run store must be a folder; got the file"):
        Store(tmp_path / "file")
    store.root.write_text("")  # it became one later
    with pytest.raises(StoreError, match="cannot be read"):
        store.runs()
    with pytest.raises(StoreError, match=r"running toy\.walk"):
        run(walk(), store=store)


def test_readers_find_the_old_run_while_it_is_being_replaced(stored: StoredRun, store: Store, walk):
    old = stored.folder.with_name(stored.folder.name + ".old")
    stored.folder.rename(old)  # as a kill between the two renames leaves it
    assert [found.folder for found in store.runs()[0]] == [old]
    assert run(walk(), store=store).reused
    assert not old.exists()
    assert store.find("toy.walk", stored.digest) is not None


def test_the_last_run_of_each_experiment(walk, store: Store):
    run(walk(), store=store)
    second = run(walk(drift=0), store=store)
    last, problems = store.latest()
    assert (last["toy.walk"].digest, last["toy.walk"].verdict, problems) == (second.digest, "fails", [])


def test_the_root_is_the_one_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert Store().root == Path("runs")
    monkeypatch.setenv("DYNASCOPE_RUNS", str(tmp_path))
    assert Store().root == tmp_path
    assert Store("here").root == Path("here")


def test_infinite_fields_are_kept_as_strict_json(walk, store: Store):
    class Endless(walk):
        drift: float = Field(default=1.0, allow_inf_nan=True)

    done = run(Endless(drift=float("inf"), steps=1, members=1), store=store)
    text = (done.folder / "config.json").read_text()
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word))["fields"]["drift"] == "inf"
    assert Endless(**done.config).drift == float("inf")


def rewrite(stored: StoredRun, **entries: object) -> None:
    """Give entries of the manifest other values; None removes one."""
    manifest = {name: value for name, value in ({**stored.manifest, **entries}).items() if value is not None}
    (stored.folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("figures", ["../../x"]),
        ("figures", ["/tmp/x"]),
        ("figures", [".x"]),
        ("figures", ["a\\b"]),
        ("figures", ["a\nb"]),
        ("figures", [""]),
        ("figures", "walk"),
        ("figures", [1]),
        ("files", {"../x": "0" * 64}),
        ("files", {"/etc/passwd": "0" * 64}),
        ("files", {"measured.nc": 5}),
        ("files", {"measured.nc": "abc"}),
        ("files", ["measured.nc"]),
        ("seed", "0"),
        ("seed", -1),
        ("seed", True),
        ("claims", {"holds": 1}),
        ("claims", [1]),
        ("command", ["dynascope"]),
        ("finished", 5),
        ("data", ["digits"]),
        ("versions", {"jax": 0}),
        ("code", "abc"),
        ("run_seconds", "long"),
        ("shared", {"a": "b"}),
        ("preset", 3),
        ("dynascope", None),
        ("figures", None),
    ],
)
def test_a_manifest_that_no_run_would_write_is_damaged(
    stored: StoredRun, store: Store, walk, entry: str, value: object
):
    rewrite(stored, **{entry: value})
    intact = run(walk(), seed=1, store=store)
    runs, problems = store.runs()
    assert [found.digest for found in runs] == [intact.digest]
    (line,) = problems
    assert f"manifest.json is damaged (the entry {entry}" in line
    assert "\n" not in line
    assert sorted(item.state for item in inventory(store)) == ["complete", "damaged"]


@pytest.mark.parametrize(
    ("name", "text"), [("config.json", '{"fields": 5}'), ("config.json", "[]"), ("claims.json", "5")]
)
def test_a_file_whose_checksum_is_right_is_still_read_with_care(stored: StoredRun, name: str, text: str):
    (stored.folder / name).write_text(text)
    rewrite(stored, files={**stored.manifest["files"], name: checksum(stored.folder / name)})
    changed = StoredRun.open(stored.folder)
    with pytest.raises(StoreError, match=f"{name} holds no (fields|claims): run again with --force"):
        _ = changed.config, changed.claims
