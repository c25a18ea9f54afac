"""What the package carries, where data are found, their checksums, and what is said about those that are missing."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dynascope.tasks.data import ag_news, catalog, citation_graphs, datasets, files, image_folder, images, text
from dynascope.tasks.data.files import DataNotFoundError
from dynascope.tasks.data.known import KNOWN

INCLUDED = [name for name, known in KNOWN.items() if known.sha256]
REAL = Path(os.environ.get("DYNASCOPE_DATA", "nowhere"))
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No data but those of the package."""
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write(folder: Path, name: str, value: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    x, y = np.full((4, 2, 2), value, np.uint8), np.arange(4)
    np.savez(folder / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return folder / f"{name}.npz"


def test_the_package_carries_three_data_sets_in_two_megabytes_with_their_licenses():
    assert INCLUDED == ["digits", "tiny_shakespeare", "cora"]
    here = {path.name: path for path in files.PACKAGE.iterdir()}
    assert set(here) == {"digits.npz", "tiny_shakespeare.txt.gz", "cora.npz", "LICENSES.md"}
    assert sum(path.stat().st_size for path in here.values()) < 2e6
    told = here["LICENSES.md"].read_text(encoding="utf-8")
    for name in INCLUDED:
        assert KNOWN[name].parts[0][0] in told
        assert KNOWN[name].license in told


@pytest.mark.parametrize("name", INCLUDED)
def test_what_the_package_carries_is_intact(name):
    (path,) = catalog.find(name)
    assert path.parent == files.PACKAGE
    assert catalog.checksum(name) == KNOWN[name].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_the_package_carries_can_be_loaded():
    digits = images.load("digits")
    assert digits.x_train.shape == (5000, 28, 28)
    assert digits.x_test.shape == (1000, 28, 28)
    assert np.bincount(digits.y_train).min() > 450
    assert len(text.read_text()) == 1_115_394
    graph = citation_graphs.load()
    assert graph.x.shape == (2708, 1433)
    assert graph.edges.shape == (5278, 2)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert set(graph.y) == set(range(7))
    assert [len(part) for part in (graph.train, graph.validation, graph.test)] == [140, 500, 1000]
    same = graph.y[graph.edges[:, 0]] == graph.y[graph.edges[:, 1]]
    assert same.mean() > 0.8, "papers cite papers of their field"


@pytest.mark.skipif(not (REAL / "mnist.npz").is_file(), reason="needs mnist.npz in $DYNASCOPE_DATA")
def test_the_digits_are_the_first_of_mnist():
    with np.load(REAL / "mnist.npz") as mnist:
        for key, part in images.load("digits")._asdict().items():
            np.testing.assert_array_equal(part, mnist[key][: len(part)])


def test_the_wheel_takes_all_of_the_package():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/dynascope"]
    assert wheel.keys() <= {"packages", "force-include"}, "nothing is left out"
    assert (ROOT / "src" / "dynascope") in files.PACKAGE.resolve().parents
    assert str(files.PACKAGE.relative_to(ROOT) / "LICENSES.md") in build["project"]["license-files"]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert not re.search(r"npz|gz|included", ignored), "hatch leaves out what git ignores"


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in INCLUDED])
def test_a_missing_data_set_is_one_sentence(name, nowhere):
    with pytest.raises(DataNotFoundError) as told:
        catalog.checksum(name)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"no data set '{name}' on this machine; ")
    assert KNOWN[name].parts[0][0] in sentence
    assert str(nowhere / "cache" / "data") in sentence
    assert (f"`dynascope data fetch {name}`" in sentence) == (KNOWN[name].source is not None)
    with pytest.raises(DataNotFoundError) as again:
        text.read_text(name) if name == "wikitext103" else datasets.load(name)
    assert str(again.value) == sentence


def test_a_misspelled_name_gets_the_nearest():
    with pytest.raises(DataNotFoundError, match=r"no data set 'fashon_mnist' .*\(did you mean 'fashion_mnist'\?\)"):
        catalog.checksum("fashon_mnist")


def test_the_users_folder_comes_first_then_the_cache_then_the_package(nowhere, monkeypatch):
    carried = catalog.checksum("digits")
    cached = write(nowhere / "cache" / "data", "digits", 1)
    assert catalog.find("digits") == (cached,)
    given = write(nowhere / "given", "digits", 2)
    monkeypatch.setenv("DYNASCOPE_DATA", str(nowhere / "given"))
    assert catalog.find("digits") == (given,)
    assert len({carried, catalog.checksum("digits"), hashlib.sha256(cached.read_bytes()).hexdigest()}) == 3
    assert [what for what, _ in catalog.where()] == ["$DYNASCOPE_DATA", "cache", "package"]


def test_the_checksum_changes_with_the_file(nowhere):
    file = write(nowhere / "cache" / "data", "mine")
    first = catalog.checksum("mine")
    assert first == hashlib.sha256(file.read_bytes()).hexdigest()
    write(nowhere / "cache" / "data", "mine", 9)
    os.utime(file, ns=(1, 1))
    assert catalog.checksum("mine") == hashlib.sha256(file.read_bytes()).hexdigest() != first


def test_texts_and_folders_have_checksums_too(nowhere):
    mine = nowhere / "mine.txt"
    mine.write_text("abba")
    assert catalog.checksum(str(mine)) == hashlib.sha256(b"abba").hexdigest()
    with pytest.raises(DataNotFoundError, match="give the path of one that exists"):
        catalog.checksum(str(nowhere / "other.txt"))
    pictures = nowhere / "pictures" / "cats"
    pictures.mkdir(parents=True)
    (pictures / "a.png").write_bytes(b"a")
    first = catalog.checksum(str(pictures.parent))
    (pictures / "b.png").write_bytes(b"b")
    assert catalog.checksum(str(pictures.parent)) != first


def test_two_files_have_the_sum_of_their_sums(nowhere, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(nowhere))
    (nowhere / "ag_news_csv").mkdir()
    for part in ("train.csv", "test.csv"):
        (nowhere / "ag_news_csv" / part).write_text('"1","a title","a description"\n')
    first = catalog.checksum("ag_news")
    assert ag_news.load(2).y_train.tolist() == [0]
    (nowhere / "ag_news_csv" / "test.csv").write_text('"2","another title","a description"\n')
    assert catalog.checksum("ag_news") != first
    assert ag_news.load(2).y_test.tolist() == [1], "a changed file is read again"


def test_digit_pairs_have_the_checksum_of_the_digits():
    assert catalog.checksum("digit-pairs") == catalog.checksum("digits")


def test_a_name_of_a_text_is_not_a_file_that_happens_to_lie_here(nowhere, monkeypatch):
    monkeypatch.chdir(nowhere)
    (nowhere / "tiny_shakespeare").write_text("not Shakespeare")
    assert len(text.read_text("tiny_shakespeare")) == 1_115_394
    (nowhere / "notes").write_text("mine")
    assert text.read_text("notes") == "mine"


def test_entries_say_what_is_where(nowhere, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(nowhere / "given"))
    write(nowhere / "given", "mine")
    (nowhere / "given" / "poems.txt.gz").write_bytes(gzip.compress(b"o rose"))
    found = {entry.name: entry for entry in catalog.entries()}
    assert set(KNOWN) | {"mine", "poems"} == set(found)
    assert (found["digits"].where, found["digits"].sha256) == ("package", KNOWN["digits"].sha256)
    assert (found["mnist"].where, found["mnist"].size, found["mnist"].sha256) == ("missing", 0, "")
    assert found["mnist"].source.startswith("https://")
    assert found["celeba"].source.startswith("by hand: ")
    assert (found["mine"].where, found["mine"].what) == ("$DYNASCOPE_DATA", "your own arrays")
    assert found["poems"].what == "your own text"
    assert (round(found["digits"].size, -3), found["digits"].license) == (988_000, "CC BY-SA 3.0")


def test_what_is_read_is_recorded(nowhere):
    mine = nowhere / "mine.txt"
    mine.write_text("abba")
    for label in ("cats", "dogs"):
        (nowhere / "pictures" / label).mkdir(parents=True)
        for number in range(5):
            Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(nowhere / "pictures" / label / f"{number}.png")
    with files.record_reads() as outer:
        images.load("digits")
        with files.record_reads() as inner:
            text.read_text(mine)
            text.read_text()
        image_folder.image_folder(nowhere / "pictures")
        with pytest.raises(DataNotFoundError):
            images.load("mnist")
    images.load("digits")
    assert inner == {str(mine), "tiny_shakespeare"}
    assert outer == inner | {"digits", str(nowhere / "pictures")}
    assert all(len(catalog.checksum(name)) == 64 for name in outer)


def test_a_data_set_in_memory_is_recorded_each_time(nowhere, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(nowhere))
    (nowhere / "ag_news_csv").mkdir()
    for part in ("train.csv", "test.csv"):
        (nowhere / "ag_news_csv" / part).write_text('"1","a title","a description"\n')
    for _ in range(2):
        with files.record_reads() as read:
            ag_news.load()
        assert read == {"ag_news"}


def test_threads_record_for_themselves():
    seen: dict[str, set[str]] = {}

    def work(name: str) -> None:
        with files.record_reads() as read:
            files.record(name)
            barrier.wait(10)
        seen[name] = read

    barrier = threading.Barrier(2)
    with files.record_reads() as mine:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == {"a": {"a"}, "b": {"b"}}
    assert mine == set()
