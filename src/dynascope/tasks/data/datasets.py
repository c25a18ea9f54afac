"""Any data set by its name, and standardized examples of some of its classes; two classes with labels -1 and +1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope.checks import flags, key as check_key, real, whole
from dynascope.compilation import as_one_program
from dynascope.tasks.data import ag_news, celeba, images, spoken_digits
from dynascope.tasks.data.files import TrainTest

IMAGES = ("digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "svhn", "usps")
NAMES = (*IMAGES, "ag_news", "free_spoken_digits", "celeba")
"""The data sets with a known source, whether their files are on this machine or not."""
NORMALIZED = ("ag_news",)
"""The data sets whose features are already normalized."""


class Classes(NamedTuple):
    """Training and test inputs with labels: 0, 1, ... in the order of the requested classes, or -1.0 and +1.0."""

    x: Float[np.ndarray, "n ..."]
    """Training inputs."""
    y: Int[np.ndarray, " n"] | Float[np.ndarray, " n"]
    """Training labels."""
    x_test: Float[np.ndarray, "t ..."]
    """Test inputs."""
    y_test: Int[np.ndarray, " t"] | Float[np.ndarray, " t"]
    """Test labels."""


def load(name: str) -> TrainTest:
    """A data set by its name.

    Args:
        name: "ag_news", "free_spoken_digits", "celeba", or an image set of `images.load`.
    """
    own = {"ag_news": ag_news.load, "free_spoken_digits": spoken_digits.load, "celeba": celeba.load}
    return own[name]() if name in own else images.load(name)


def some_classes(
    name: str, classes: Sequence[int], count: int, test: int | None, key: PRNGKeyArray, *, flat: bool = True
) -> Classes:
    """Examples of some classes for training and testing, drawn at random, with labels 0, 1, ... in the order of
    `classes`.

    Each channel is standardized by its mean and standard deviation over all pixels of the training examples drawn; text
    features are already normalized.

    Args:
        name: The data set; see `load`.
        classes: The classes.
        count: Number of training examples.
        test: Number of test examples. None: all.
        key: Key of the draw.
        flat: Whether examples are vectors; otherwise images of height x width x channels.
    """
    whole("count", count, at_least=1)
    flags(flat=flat)
    check_key("key", key)
    if not isinstance(name, str) or not isinstance(classes, Sequence) or isinstance(classes, str):
        raise TypeError(f"name must be a data set's name and classes a list of labels; got {name!r} and {classes!r}")
    for label in classes:
        whole("classes", label)
    if test is not None:
        whole("test", test, at_least=0)
    data = load(name)
    if not classes or len(set(classes)) < len(classes) or not np.isin(classes, data.y_train).all():
        known = ", ".join(map(str, np.unique(data.y_train)[:20]))
        raise ValueError(f"classes of {name} must be different ones of {known}; got {_listed(classes)}")
    for_train, for_test, _ = jax.random.split(key, 3)
    x, y = _drawn(name, "training", data.x_train, data.y_train, classes, count, for_train)
    x_test, y_test = _drawn(name, "test", data.x_test, data.y_test, classes, test, for_test)
    if name not in NORMALIZED:
        x, x_test = (part[..., None] if part.ndim == 3 else part for part in (x, x_test))
        axes = tuple(range(x.ndim - 1))
        center, spread = x.mean(axis=axes), x.std(axis=axes)
        x, x_test = ((part - center) / np.where(spread > 0, spread, 1) for part in (x, x_test))
    if flat:
        x, x_test = (part.reshape(len(part), math.prod(part.shape[1:])) for part in (x, x_test))
    elif x.ndim != 4:
        raise ValueError(f"flat must be True for {name}, whose examples are vectors of {x.shape[1]} numbers")
    return Classes(x, y, x_test, y_test)


def two_classes(
    name: str,
    classes: tuple[int, int],
    count: int,
    test: int | None,
    key: PRNGKeyArray,
    *,
    flat: bool = True,
    flips: float = 0.0,
) -> Classes:
    """Examples of two classes for training and testing, with labels -1 and +1; see `some_classes`.

    Args:
        name: The data set; see `datasets.load`.
        classes: The two classes.
        count: Number of training examples.
        test: Number of test examples. None: all.
        key: Key of the draw.
        flat: Whether examples are vectors; otherwise images of height x width x channels.
        flips: The exact share of training labels that are flipped.
    """
    if not isinstance(classes, Sequence) or len(classes) != 2:
        raise ValueError(f"classes must be two classes; got {classes}")
    real("flips", flips, at_least=0, at_most=1)
    found = some_classes(name, classes, count, test, key, flat=flat)
    y, y_test = (2.0 * part - 1 for part in (found.y, found.y_test))
    for_flips = jax.random.split(key, 3)[2]
    flipped = np.asarray(_permutation(for_flips, count))[: round(flips * count)]
    y[flipped] *= -1
    return Classes(found.x, y, found.x_test, y_test)


@as_one_program
def _permutation(key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
    return jax.random.permutation(key, count)


def _drawn(
    name: str, part: str, x: np.ndarray, y: np.ndarray, classes: Sequence[int], count: int | None, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.flatnonzero(np.isin(y, classes))
    if count is not None and len(wanted) < count:
        raise ValueError(f"{name} has {len(wanted)} {part} examples of {_listed(classes)}; got count={count}")
    chosen = wanted[np.asarray(_permutation(key, len(wanted)))[:count]]
    return x[chosen].astype(float), np.argmax(y[chosen, None] == np.asarray(classes), axis=1)


def _listed(classes: Sequence[int]) -> str:
    """The classes as words: 0, 1 and 2."""
    *first, last = map(str, classes or ("none",))
    return f"{', '.join(first)} and {last}" if first else last
