"""Image data sets as arrays, and two-class reductions of them.

A data set is one file, `<name>.npz` with `x_train, y_train, x_test, y_test` (whole numbers, images as they come). It is
looked for in $DYNASCOPE_DATA, then in the user's cache, and then fetched from its official source, checked, and kept in
the cache. Nothing is ever unpickled.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

KEYS = ("x_train", "y_train", "x_test", "y_test")
PATIENCE_SECONDS = 30


class Images(NamedTuple):
    """Images and labels, as stored."""

    x_train: Shaped[np.ndarray, "train ..."]
    y_train: Shaped[np.ndarray, " train"]
    x_test: Shaped[np.ndarray, "test ..."]
    y_test: Shaped[np.ndarray, " test"]


class Source(NamedTuple):
    """Where a data set comes from: its files with their MD5 sums, and how to read their bytes."""

    base: str
    files: Mapping[str, str]
    read: Callable[[Mapping[str, bytes]], Images]


class DataNotFoundError(FileNotFoundError):
    """A data set is neither on this machine nor to be had; the message says which file goes where."""


def load(name: str) -> Images:
    """The data set `name` ("mnist", "fashion_mnist", "cifar10", or any other whose file is in one of the folders)."""
    for folder in _folders():
        file = folder / f"{name}.npz"
        if file.is_file():
            with np.load(file, allow_pickle=False) as arrays:
                missing = [key for key in KEYS if key not in arrays]
                if missing:
                    raise ValueError(f"{file} lacks {', '.join(missing)}; a data set holds {', '.join(KEYS)}")
                return Images(*(arrays[key] for key in KEYS))
    wanted = f"put {name}.npz (with {', '.join(KEYS)}) into {_folders()[0]}"
    if name not in SOURCES:
        raise DataNotFoundError(f"no data set '{name}' (known: {', '.join(SOURCES)}); {wanted}")
    try:
        images = _fetch(SOURCES[name])
    except OSError as error:
        raise DataNotFoundError(f"'{name}' is not here and could not be fetched ({error}); {wanted}") from None
    _keep(_folders()[-1], name, images)
    return images


class TwoClasses(NamedTuple):
    """A reduced two-class task: inputs, one-hot targets, and which pixels were kept."""

    x: Float[np.ndarray, "n channels"]
    y: Float[np.ndarray, "n 2"]
    channels: Int[np.ndarray, " channels"]


def two_class_digits(
    count: int = 2000,
    threshold: float | int = 110.0,
    *,
    name: str = "mnist",
    classes: tuple[int, int] = (0, 1),
    expect: tuple[int, int] | None = (65, 95),
) -> TwoClasses:
    """The first `count` training images of two classes, reduced to the pixels whose standard deviation (on the scale
    0..255) is at least `threshold`, divided by 255; targets are one-hot.

    "Simple structures in neural networks", Section 3.7.2: 2000 images of 0 and 1 leave 79 pixels. The number depends on
    which images are taken, so it is held to the range `expect` (None: to nothing).
    """
    images = load(name)
    of_two = np.flatnonzero(np.isin(images.y_train, classes))[:count]
    if len(of_two) < count:
        raise ValueError(
            f"{name} has {len(of_two)} training images of {classes[0]} and {classes[1]}; asked for {count}"
        )
    return reduce_images(images.x_train[of_two], images.y_train[of_two] == classes[1], threshold, expect)


def reduce_images(
    images: Shaped[np.ndarray, "n ..."],
    second: Shaped[np.ndarray, " n"],
    threshold: float | int,
    expect: tuple[int, int] | None = None,
) -> TwoClasses:
    """Images flattened, reduced to their varying pixels and scaled to 0..1; `second` marks the second class."""
    flat = images.reshape(len(images), -1).astype(float)
    channels = np.flatnonzero(flat.std(axis=0) >= threshold)
    if expect is not None and not expect[0] <= len(channels) <= expect[1]:
        raise ValueError(f"{len(channels)} pixels vary by at least {threshold}; expected {expect[0]} to {expect[1]}")
    return TwoClasses(flat[:, channels] / 255, np.eye(2)[second.astype(int)], channels)


def _folders() -> list[Path]:
    """Where to look: $DYNASCOPE_DATA if it is set, then the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("DYNASCOPE_CACHE") or Path(base) / "dynascope") / "data"
    given = os.environ.get("DYNASCOPE_DATA")
    return [Path(given), cache] if given else [cache]


def _fetch(source: Source) -> Images:
    contents = {}
    for file, checksum in source.files.items():
        with urllib.request.urlopen(source.base + file, timeout=PATIENCE_SECONDS) as answer:
            contents[file] = answer.read()
        found = hashlib.md5(contents[file], usedforsecurity=False).hexdigest()
        if found != checksum:
            raise OSError(f"{source.base}{file} has MD5 {found}, not {checksum}")
    return source.read(contents)


def _keep(folder: Path, name: str, images: Images) -> None:
    """Write the file wholly or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
        np.savez_compressed(part, **images._asdict())
    os.replace(part.name, folder / f"{name}.npz")


def _read_idx(contents: Mapping[str, bytes]) -> Images:
    """The four files of MNIST's format: two zero bytes, the type, the rank, the sizes, then the values."""
    arrays = []
    for packed in contents.values():
        raw = gzip.decompress(packed)
        sizes = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
        arrays.append(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes))
    return Images(*arrays)


def _read_cifar(contents: Mapping[str, bytes]) -> Images:
    """The binary version: in each row the label, then 3 x 32 x 32 pixels."""
    (packed,) = contents.values()
    rows: dict[str, np.ndarray] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.name.endswith(".bin") else None
            if file is not None:
                rows[Path(entry.name).stem] = np.frombuffer(file.read(), np.uint8).reshape(-1, 3073)
    train = np.concatenate([rows[f"data_batch_{k}"] for k in range(1, 6)])
    split = []
    for part in (train, rows["test_batch"]):
        split += [np.moveaxis(part[:, 1:].reshape(-1, 3, 32, 32), 1, -1), part[:, 0]]
    return Images(*split)


_IDX = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz")
_IDX_FILES = (*_IDX, "t10k-labels-idx1-ubyte.gz")

SOURCES: dict[str, Source] = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        dict(
            zip(
                _IDX_FILES,
                (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                ),
                strict=True,
            )
        ),
        _read_idx,
    ),
    "fashion_mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        dict(
            zip(
                _IDX_FILES,
                (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                ),
                strict=True,
            )
        ),
        _read_idx,
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
        _read_cifar,
    ),
}
"""The official sources. MNIST's own page no longer answers; PyTorch keeps its files."""
