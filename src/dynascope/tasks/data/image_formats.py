"""The formats of the official files of image data sets."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from dynascope.tasks.data.files import TrainTest


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


READ: dict[str, Callable[[Mapping[str, bytes]], TrainTest]] = {
    "mnist": read_idx,
    "fashion_mnist": read_idx,
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    "svhn": read_svhn,
    "usps": read_usps,
}
"""The readers of the official files of each image set."""
