"""Packed files are read up to a limit, whatever their headers say, and damaged ones are told in one line."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dynascope.checks import InputError
from dynascope.tasks.data import ag_news, citation_graphs, files, graph_files, graph_sets, gsm8k, packed, text


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A limit of a megabyte, and the folder of the data."""
    monkeypatch.setattr(packed, "MOST_BYTES", 1 << 20)
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def gzip_bomb(path: Path, size: int = 8 << 20) -> Path:
    path.write_bytes(gzip.compress(bytes(size)))
    return path


def npz_bomb(path: Path, size: int = 8 << 20) -> Path:
    names = ("x_train", "y_train", "x_test", "y_test", "edges", "node_offset", "graph_label", "feat_data", "label")
    np.savez_compressed(path, **{name: np.zeros(size // len(names), np.uint8) for name in names})  # pyright: ignore
    return path


def test_the_limit_is_generous_for_the_data_sets_that_are_read():
    cifar, wikitext = 60_000 * 3073, 541_000_000
    assert 4 * max(cifar, wikitext) < packed.MOST_BYTES


@pytest.mark.parametrize("read", [packed.read_bytes, text.read_text, ag_news.read_rows])
def test_a_gzip_file_that_unpacks_to_more_is_refused(limit, read):
    with pytest.raises(ValueError, match=r"bomb\.gz unpacks to more than .* GiB"):
        read(gzip_bomb(limit / "bomb.gz"))


def test_it_is_not_unpacked_further_than_the_limit(limit, monkeypatch):
    read = []
    unpack = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda file, size: read.append(size) or unpack(file, size))
    with pytest.raises(ValueError, match="unpacks to more"):
        packed.read_bytes(gzip_bomb(limit / "bomb.gz", 64 << 20))
    assert sum(read) < 4 << 20


def test_arrays_that_unpack_to_more_are_refused(limit):
    for name, read in {"own": files.read_arrays, "any": packed.read_arrays}.items():
        with pytest.raises(ValueError, match="unpacks to more than"):
            read(npz_bomb(limit / f"{name}.npz"))
    npz_bomb(limit / "cora.npz")
    with pytest.raises(ValueError, match="unpacks to more than"):
        citation_graphs.load("cora")
    npz_bomb(limit / "tu_IMDBBINARY.npz")
    with pytest.raises(ValueError, match="unpacks to more than"):
        graph_sets.load("tu_IMDBBINARY")
    with pytest.raises(InputError, match="plain arrays"):
        graph_files.load(str(npz_bomb(limit / "mine.npz")))
    with pytest.raises(InputError, match="not gzipped text"):
        graph_files.load(str(gzip_bomb(limit / "mine.edges.gz")))


def test_a_gzipped_set_of_problems_is_refused_in_one_line(limit):
    gzip_bomb(limit / "gsm8k_test.jsonl.gz")
    with pytest.raises(ValueError, match="is damaged, or no file of questions and answers"):
        gsm8k.problems()


def test_a_large_file_may_hold_what_it_is_large_for(limit):
    values = np.random.default_rng(0).integers(0, 256, 4 << 20, np.uint8)
    np.savez_compressed(limit / "large.npz", values=values)
    np.testing.assert_array_equal(packed.read_arrays(limit / "large.npz")["values"], values)


def test_a_header_that_states_a_smaller_size_does_not_help(limit):
    bomb = npz_bomb(limit / "a.npz")
    with zipfile.ZipFile(bomb) as archive:
        stated = archive.infolist()[0].file_size
    bomb.write_bytes(bomb.read_bytes().replace(struct.pack("<I", stated), struct.pack("<I", 500)))
    with pytest.raises(ValueError, match="is damaged, or is not a file of plain arrays"):
        packed.read_arrays(bomb)


def test_an_array_whose_header_states_more_than_there_is_is_damaged(limit):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(limit / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(ValueError, match="is damaged, or is not a file of plain arrays"):
        packed.read_arrays(limit / "a.npz")


@pytest.mark.parametrize(
    "content",
    [b"nonsense", gzip.compress(b"words")[:-6], gzip.compress(b"words") + b"x"],
    ids=["nonsense", "cut off", "with more behind it"],
)
def test_a_damaged_gzip_file_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.gz cannot be unpacked \("):
        packed.read_bytes(path)
