"""The official sources of image data sets: their files, MD5 sums and formats.

The sums are those published with the data, or those that common libraries check. The downloads of CIFAR-100, SVHN and
USPS are untested.
"""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynascope.tasks.data.files import TrainTest


class Source(NamedTuple):
    """A data set's files with their MD5 sums below the address `base`, and the function that reads their contents."""

    base: str
    files: Mapping[str, str]
    read: Callable[[Mapping[str, bytes]], TrainTest]


def read_idx(contents: Mapping[str, bytes]) -> TrainTest:
    """Four files in MNIST's format: two zero bytes, the type, the rank, the sizes, then the values."""
    arrays = []
    for packed in contents.values():
        raw = gzip.decompress(packed)
        sizes = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
        arrays.append(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes))
    return TrainTest(*arrays)


def read_cifar10(contents: Mapping[str, bytes]) -> TrainTest:
    """The binary version: each row is a label, then 3 x 32 x 32 pixels."""
    rows = _cifar_rows(contents, 1)
    train = np.concatenate([rows[f"data_batch_{k}"] for k in range(1, 6)])
    return _cifar_images(train, rows["test_batch"], 1)


def read_cifar100(contents: Mapping[str, bytes]) -> TrainTest:
    """The binary version with two labels, of which the second, the fine one (0 to 99), is read."""
    rows = _cifar_rows(contents, 2)
    return _cifar_images(rows["train"], rows["test"], 2)


def _cifar_rows(contents: Mapping[str, bytes], labels: int) -> dict[str, np.ndarray]:
    (packed,) = contents.values()
    rows: dict[str, np.ndarray] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.name.endswith(".bin") else None
            if file is not None:
                rows[Path(entry.name).stem] = np.frombuffer(file.read(), np.uint8).reshape(-1, 3072 + labels)
    return rows


def _cifar_images(train: np.ndarray, test: np.ndarray, labels: int) -> TrainTest:
    split = []
    for part in (train, test):
        split += [np.moveaxis(part[:, labels:].reshape(-1, 3, 32, 32), 1, -1), part[:, labels - 1]]
    return TrainTest(*split)


def read_svhn(contents: Mapping[str, bytes]) -> TrainTest:
    """Matlab files: X of shape 32 x 32 x 3 x n, y of shape n x 1, in which 10 is the digit 0."""
    from scipy.io import loadmat

    split = []
    for packed in contents.values():
        arrays = loadmat(io.BytesIO(packed))
        split += [np.moveaxis(arrays["X"], -1, 0), (arrays["y"].ravel() % 10).astype(np.uint8)]
    return TrainTest(*split)


def read_usps(contents: Mapping[str, bytes]) -> TrainTest:
    """LIBSVM lines `label 1:v 2:v ...` with labels 1..10 for the digits 0..9 and 16 x 16 values in [-1, 1], which are
    stored as 0..255."""
    split = []
    for packed in contents.values():
        lines = bz2.decompress(packed).decode("ascii").splitlines()
        values = np.zeros((len(lines), 256))
        labels = np.zeros(len(lines), np.uint8)
        for row, line in enumerate(lines):
            label, *entries = line.split()
            labels[row] = int(float(label)) - 1
            for entry in entries:
                place, value = entry.split(":")
                values[row, int(place) - 1] = float(value)
        split += [np.rint((values + 1) * 127.5).astype(np.uint8).reshape(-1, 16, 16), labels]
    return TrainTest(*split)


def _idx(*sums: str) -> dict[str, str]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return {f"{part}-ubyte.gz": checksum for part, checksum in zip(parts, sums, strict=True)}


SOURCES: dict[str, Source] = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        read_idx,
    ),
    "fashion_mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        _idx(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        read_idx,
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        read_cifar10,
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        read_cifar100,
    ),
    "svhn": Source(
        "http://ufldl.stanford.edu/housenumbers/",
        {
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        },
        read_svhn,
    ),
    "usps": Source(
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",
        {"usps.bz2": "ec16c51db3855ca6c91edd34d0e9b197", "usps.t.bz2": "8ea070ee2aca1ac39742fdd1ef5ed118"},
        read_usps,
    ),
}
"""The official sources. MNIST's own page no longer answers; PyTorch hosts its files."""
