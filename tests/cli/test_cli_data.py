"""`dynascope data`: the list, fetching, the folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dynascope import cli
from dynascope.tasks.data import catalog, download, files


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `dynascope data` in this process, without data but those of the package."""
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))

    def call(*words: str) -> tuple[int, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["dynascope", "data", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, errors = capsys.readouterr()
        return int(ended.value.code or 0), out, errors.splitlines()

    return call


def test_it_lists_what_there_is(data):
    status, out, lines = data()
    assert (status, lines) == (0, [])
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "package" in rows["digits"]
    assert "988 kB" in rows["digits"]
    assert "CC BY-SA 3.0" in rows["digits"]
    assert "missing" in rows["mnist"]


def test_the_list_as_json_has_checksums(data):
    status, out, _ = data("--json")
    said = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert said["digits"]["sha256"] == catalog.checksum("digits")
    assert said["mnist"]["where"] == "missing"


def test_where_names_the_folders_in_order(data, tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path / "mine"))
    assert data("where")[1].splitlines() == [
        f"{tmp_path / 'mine'}  ($DYNASCOPE_DATA)", f"{tmp_path / 'data'}  (cache)", f"{files.PACKAGE}  (package)",
    ]  # fmt: skip


def test_fetch_prints_the_paths(data, monkeypatch):
    monkeypatch.setattr(download, "fetch", lambda name, progress: (f"/cache/{name}.npz",))
    assert data("fetch", "mnist", "usps") == (0, "/cache/mnist.npz\n/cache/usps.npz\n", [])


def test_what_cannot_be_fetched_is_status_one_and_the_others_are_fetched(data, monkeypatch):
    def fails(address: str) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(download, "open_address", fails)
    status, out, lines = data("fetch", "mnist", "celeba", "digits")
    assert status == 1
    assert out.strip() == str(files.PACKAGE / "digits.npz")
    assert len(lines) == 2
    assert lines[0].startswith("dynascope: 'mnist' could not be fetched from https://")
    assert "no route to host" in lines[0]
    assert "get it by hand" in lines[1]


def test_an_unknown_name_is_status_two_before_anything_is_fetched(data, monkeypatch):
    monkeypatch.setattr(download, "fetch", lambda *_: pytest.fail("something was fetched"))
    status, out, lines = data("fetch", "mnist", "cifr10")
    assert (status, out) == (2, "")
    assert len(lines) == 1
    assert "no data set 'cifr10' (did you mean 'cifar10'?)" in lines[0]
