"""Downloads: https only, checked, kept completely or not at all; what is said when they fail."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import urllib.error
import wave
import zipfile
from dataclasses import replace
from email.message import Message
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from dynascope.tasks.data import catalog, datasets, download, files, known, spoken_digits
from dynascope.tasks.data.known import KNOWN, Source

NEWS_ROWS = Path(os.environ.get("DYNASCOPE_DATA", "nowhere")) / "ag_news_test_7600.csv.gz"
NEWS = b'"3","Fears for ""T N""","Unions say, so"\n"2","A goal","Two to one"\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    return tmp_path / "data"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What the network answers, by the last part of the address."""
    contents: dict[str, bytes] = {}

    class Answer(io.BytesIO):
        def __init__(self, address: str) -> None:
            super().__init__(contents[address.rsplit("/", 1)[1]])
            self.headers = {"Content-Length": str(len(self.getvalue()))}

    monkeypatch.setattr(download, "open_address", Answer)
    return contents


def serve(served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, name: str, contents: dict[str, bytes]) -> None:
    """The data set `name` now has these files, with the sums of these contents."""
    served |= contents
    sums = {file: hashlib.md5(content).hexdigest() for file, content in contents.items()}
    monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], source=Source("https://x/", sums)))


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_what_is_fetched_is_kept_and_progress_is_told(cache, served, monkeypatch):
    x, y = np.arange(12).reshape(3, 2, 2), np.arange(3)
    contents = {"a": idx(x), "b": idx(y), "c": idx(x[:1]), "d": idx(y[:1])}
    serve(served, monkeypatch, "mnist", contents)
    told: list[tuple[str, int, int | None]] = []
    assert download.fetch("mnist", lambda *news: told.append(news)) == (str(cache / "mnist.npz"),)
    assert told == [(name, len(content), len(content)) for name, content in contents.items()]
    np.testing.assert_array_equal(datasets.load("mnist").x_train, x)
    assert [file.name for file in cache.iterdir()] == ["mnist.npz"]
    served.clear()
    assert download.fetch("mnist") == (str(cache / "mnist.npz"),), "what is here is not fetched again"


def test_a_wrong_sum_is_refused_and_nothing_is_kept(cache, served):
    served |= dict.fromkeys(KNOWN["mnist"].source.sums, b"something else")  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(
        download.FetchError, match=r"MD5 \w{32}, not f68b3c2dcbeaaa9fbdd348bbdeb94873; nothing was kept"
    ):
        download.fetch("mnist")
    assert not cache.exists()


def test_loading_never_downloads(served, monkeypatch):
    serve(served, monkeypatch, "mnist", {"a": b""})
    with pytest.raises(files.DataNotFoundError, match="run `dynascope data fetch mnist`"):
        datasets.load("mnist")


def test_offline_says_so_in_one_line(cache, monkeypatch):
    def no_network(address: str) -> None:
        raise urllib.error.URLError(OSError(101, "Network is unreachable"))

    monkeypatch.setattr(download, "open_address", no_network)
    with pytest.raises(
        download.FetchError, match=r"'mnist' could not be fetched .*unreachable.*put mnist\.npz"
    ) as told:
        download.fetch("mnist")
    assert "\n" not in str(told.value)
    assert str(cache) in str(told.value)


def test_only_https_is_followed():
    with pytest.raises(download.FetchError, match="http://x/a is not an https address"):
        download.open_address("http://x/a")
    request = download.urllib.request.Request("https://x/a")
    with pytest.raises(download.FetchError, match="leads on to http://y/a, which is not https"):
        download._OnlyHttps().redirect_request(request, None, 302, "", Message(), "http://y/a")
    assert all(
        kind.source.base.startswith(("https://", "pip:"))
        for name, kind in KNOWN.items()
        if kind.source and name != "svhn"
    )


def test_what_is_offered_over_http_only_is_taken_from_ones_own_folder(cache, monkeypatch):
    with pytest.raises(
        download.FetchError, match=r"not offered over https: download train_32x32.mat and test_32x32.mat"
    ):
        download.fetch("svhn")
    file = io.BytesIO()
    savemat(file, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [3]])})
    (cache / "svhn").mkdir(parents=True)
    for name in ("train_32x32.mat", "test_32x32.mat"):
        (cache / "svhn" / name).write_bytes(file.getvalue())
    with pytest.raises(download.FetchError, match=r"train_32x32\.mat has MD5"):
        download.fetch("svhn")
    source = KNOWN["svhn"].source
    assert source is not None
    sums = dict.fromkeys(source.sums, hashlib.md5(file.getvalue()).hexdigest())
    monkeypatch.setitem(KNOWN, "svhn", replace(KNOWN["svhn"], source=Source(source.base, sums)))
    download.fetch("svhn")
    assert datasets.load("svhn").y_train.tolist() == [0, 3]


def test_news_is_kept_as_its_own_files(cache, served, monkeypatch):
    serve(served, monkeypatch, "ag_news", {"train.csv": NEWS, "test.csv": NEWS})
    download.fetch("ag_news")
    assert (cache / "ag_news_csv" / "train.csv").read_bytes() == NEWS
    assert datasets.load("ag_news").y_test.tolist() == [2, 1]


def test_spoken_digits_are_kept_as_arrays(cache, served, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, length in (("7_theo_5", 900), ("3_lucas_0", 800)):
            path = f"free-spoken-digit-dataset-1.0.10/recordings/{name}.wav"
            with archive.open(path, "w") as file, wave.open(file, "wb") as clip:
                clip.setparams((1, 2, spoken_digits.RATE, length, "NONE", ""))
                clip.writeframes(np.arange(length, dtype="<i2").tobytes())
        archive.writestr("free-spoken-digit-dataset-1.0.10/README.md", "")
    served["v1.0.10.zip"] = packed.getvalue()
    with pytest.raises(download.FetchError, match=r"SHA256 .*, not c680098f"):
        download.fetch("free_spoken_digits")
    serve(served, monkeypatch, "free_spoken_digits", {"v1.0.10.zip": packed.getvalue()})
    download.fetch("free_spoken_digits")
    data = datasets.load("free_spoken_digits")
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([7], [3])
    with np.load(cache / "free_spoken_digits.npz") as kept:
        assert kept["offsets"].tolist() == [0, 800, 1700]


def test_a_failure_while_writing_leaves_no_part(cache, served, monkeypatch):
    serve(served, monkeypatch, "ag_news", {"train.csv": NEWS, "test.csv": NEWS})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(download.FetchError, match=r"'ag_news' cannot be kept in .* \(No space left on device\)"):
        download.fetch("ag_news")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_unknown_names_get_the_nearest_and_what_is_ones_own_to_get_is_said():
    with pytest.raises(download.UnknownDataError, match=r"no data set 'cifar' \(did you mean 'cifar10'\?\)"):
        download.fetch("cifar")
    with pytest.raises(files.DataNotFoundError, match=r"get it by hand \(from its authors"):
        download.fetch("celeba")
    assert set(download.KEEP) | set(download.image_formats.READ) == set(known.FETCHED)


def test_what_the_package_carries_is_not_fetched():
    assert download.fetch("digits") == tuple(map(str, catalog.find("digits")))


@pytest.mark.skipif(not NEWS_ROWS.is_file(), reason="needs the test rows of AG News in $DYNASCOPE_DATA")
def test_the_sum_of_the_official_test_file_is_that_of_its_rows():
    rows = gzip.decompress(NEWS_ROWS.read_bytes()).split(b"\n", 1)[1]
    source = KNOWN["ag_news"].source
    assert source is not None
    assert hashlib.md5(rows).hexdigest() == source.sums["test.csv"]
