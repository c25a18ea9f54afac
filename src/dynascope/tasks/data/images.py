"""Image data sets as arrays, and the two-class digits of the sharpness experiments.

A data set is one file, `<name>.npz` with `x_train, y_train, x_test, y_test` (integers, images as published). It is
looked for in $DYNASCOPE_DATA, then in the cache, then in the package, which carries "digits": the first 5,000 training
and 1,000 test images of MNIST (a balanced part of it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from dynascope.checks import real, sizes
from dynascope.tasks.data import catalog, files
from dynascope.tasks.data.files import DataNotFoundError as DataNotFoundError, TrainTest


def load(name: str) -> TrainTest:
    """An image data set by its name.

    Args:
        name: "digits" (in the package), another of `datasets.IMAGES`, or that of any `<name>.npz` in the folders.
    """
    (file,) = catalog.find(name)
    files.record(name)
    return files.read_arrays(file)


class ReducedImages(NamedTuple):
    """Images of two classes reduced to some of their pixels."""

    x: Float[np.ndarray, "n channels"]
    """The pixels that are kept, from 0 to 1."""
    y: Float[np.ndarray, "n 2"]
    """One-hot targets."""
    channels: Int[np.ndarray, " channels"]
    """The indices of those pixels."""


def two_class_digits(
    count: int = 2000,
    threshold: float = 110.0,
    *,
    name: str = "mnist",
    classes: tuple[int, int] = (0, 1),
    expect: tuple[int, int] | None = (65, 95),
) -> ReducedImages:
    """The first training images of two classes, reduced to the pixels that vary.

    "Simple structures in neural networks", Section 3.7.2: 2000 images of 0 and 1 keep 79 pixels.

    Args:
        count: Number of images.
        threshold: The smallest standard deviation of a pixel that is kept, on the scale 0 to 255.
        name: The data set; see `load`.
        classes: The two classes.
        expect: The range in which the number of pixels must lie, since it depends on the images. None: no check.
    """
    sizes(count=count)
    real("threshold", threshold, at_least=0)
    images = load(name)
    of_two = np.flatnonzero(np.isin(images.y_train, classes))[:count]
    if len(of_two) < count:
        raise ValueError(
            f"{name} has {len(of_two)} training images of {classes[0]} and {classes[1]}; got count={count}"
        )
    return reduce_images(images.x_train[of_two], images.y_train[of_two] == classes[1], threshold, expect)


def reduce_images(
    images: Shaped[np.ndarray, "n ..."],
    second: Shaped[np.ndarray, " n"],
    threshold: float,
    expect: tuple[int, int] | None = None,
) -> ReducedImages:
    """Images flattened, reduced to their varying pixels and scaled to 0 to 1.

    Args:
        images: Integer images, (n, ...).
        second: Marks of the second class, (n,).
        threshold: The smallest standard deviation of a pixel that is kept, on the scale 0 to 255.
        expect: The range in which the number of pixels must lie. None: no check.
    """
    flat = images.reshape(len(images), -1).astype(float)
    channels = np.flatnonzero(flat.std(axis=0) >= threshold)
    if expect is not None and not expect[0] <= len(channels) <= expect[1]:
        raise ValueError(f"{len(channels)} pixels vary by at least {threshold}; expected {expect[0]} to {expect[1]}")
    return ReducedImages(flat[:, channels] / 255, np.eye(2)[second.astype(int)], channels)
