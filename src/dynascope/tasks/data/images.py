"""Image data sets as arrays, and two-class reductions of them.

A data set is one file, `<name>.npz` with `x_train, y_train, x_test, y_test` (whole numbers, images as they come). It is
looked for in $DYNASCOPE_DATA, then in the user's cache, and then fetched from its official source, checked, and kept in
the cache. Nothing is ever unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from dynascope.tasks.data import files
from dynascope.tasks.data.files import DataNotFoundError as DataNotFoundError
from dynascope.tasks.data.image_sources import SOURCES, Images

KEYS = ("x_train", "y_train", "x_test", "y_test")


def load(name: str) -> Images:
    """The data set `name`: "mnist", "fashion_mnist", "cifar10", "cifar100", "svhn", "usps", or any other whose file is
    in one of the folders."""
    file = files.find(f"{name}.npz")
    if file is not None:
        found = _read(file)
        missing = [key for key in KEYS if key not in found]
        if missing:
            raise ValueError(f"{file} lacks {', '.join(missing)}; a data set holds {', '.join(KEYS)}")
        return Images(**found)
    wanted = f"{name}.npz (with {', '.join(KEYS)})"
    if name not in SOURCES:
        raise DataNotFoundError(
            f"no data set '{name}' (known: {', '.join(SOURCES)}); put {wanted} into {files.folders()[0]}"
        )
    source = SOURCES[name]
    images = source.read(files.fetch_for(name, wanted, source.base, source.files))
    files.keep(name, images._asdict())
    return images


def _read(file: Path) -> dict[str, np.ndarray]:
    try:
        if not zipfile.is_zipfile(file):
            raise zipfile.BadZipFile("File is not a zip file")
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in KEYS if key in arrays}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{file} is damaged, or no file of plain arrays ({error})") from None


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
