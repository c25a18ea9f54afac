"""Any of the data sets by its name, and some of its classes, standardized; two of them as a regression task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from dynascope.tasks.data import ag_news, celeba, images, spoken_digits
from dynascope.tasks.data.image_sources import SOURCES, Images

NAMES = (*SOURCES, "ag_news", "free_spoken_digits", "celeba")
"""Sets that are known by name, whether their files are here or not."""
NORMALIZED = ("ag_news",)
"""Sets whose features come at the right size and are left as they are."""


class TwoClassSet(NamedTuple):
    """Inputs and labels -1 (the first class) or +1 (the second)."""

    x: Float[np.ndarray, "n ..."]
    y: Float[np.ndarray, " n"]
    x_test: Float[np.ndarray, "t ..."]
    y_test: Float[np.ndarray, " t"]


def load(name: str) -> Images:
    """ "ag_news", "free_spoken_digits", "celeba", or an image set of `images.load`."""
    own = {"ag_news": ag_news.load, "free_spoken_digits": spoken_digits.load, "celeba": celeba.load}
    return own[name]() if name in own else images.load(name)


class Classes(NamedTuple):
    """Inputs, and which of the classes asked for each is: 0, 1, ..."""

    x: Float[np.ndarray, "n ..."]
    y: Int[np.ndarray, " n"]
    x_test: Float[np.ndarray, "t ..."]
    y_test: Int[np.ndarray, " t"]


def some_classes(
    name: str, classes: Sequence[int], count: int, test: int | None, key: PRNGKeyArray, *, flat: bool = True
) -> Classes:
    """`count` training and `test` test examples (None: all there are) of these classes, drawn at random.

    Each channel is standardized by the mean and standard deviation over all pixels of the training examples drawn;
    text features stay as they are. `flat` makes vectors; else images are height x width x channels.
    """
    if count < 1 or (test is not None and test < 0):
        raise ValueError(f"a set needs 1 training example or more and no less than 0 to test; got {count} and {test}")
    data = load(name)
    if len(set(classes)) < len(classes) or not np.isin(classes, data.y_train).all():
        there = ", ".join(map(str, np.unique(data.y_train)[:20]))
        raise ValueError(f"classes of {name} are different ones of {there}; got {_listed(classes)}")
    for_train, for_test, _ = jax.random.split(key, 3)
    x, y = _drawn(name, "training", data.x_train, data.y_train, classes, count, for_train)
    x_test, y_test = _drawn(name, "test", data.x_test, data.y_test, classes, test, for_test)
    if name not in NORMALIZED:
        x, x_test = (part[..., None] if part.ndim == 3 else part for part in (x, x_test))
        axes = tuple(range(x.ndim - 1))
        center, spread = x.mean(axis=axes), x.std(axis=axes)
        x, x_test = ((part - center) / np.where(spread > 0, spread, 1) for part in (x, x_test))
    if flat:
        x, x_test = (part.reshape(len(part), -1) for part in (x, x_test))
    elif x.ndim != 4:
        raise ValueError(f"{name} has no pictures: its examples are vectors of {x.shape[1]} numbers")
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
) -> TwoClassSet:
    """The same of two classes, with labels -1 and +1. A share `flips` of the training labels, exactly, is turned
    round."""
    found = some_classes(name, classes, count, test, key, flat=flat)
    y, y_test = (2.0 * part - 1 for part in (found.y, found.y_test))
    for_flips = jax.random.split(key, 3)[2]
    turned = np.asarray(jax.random.permutation(for_flips, count))[: round(flips * count)]
    y[turned] *= -1
    return TwoClassSet(found.x, y, found.x_test, y_test)


def _drawn(
    name: str, part: str, x: np.ndarray, y: np.ndarray, classes: Sequence[int], count: int | None, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.flatnonzero(np.isin(y, classes))
    if count is not None and len(wanted) < count:
        raise ValueError(f"{name} has {len(wanted)} {part} examples of {_listed(classes)}; asked for {count}")
    chosen = wanted[np.asarray(jax.random.permutation(key, len(wanted)))[:count]]
    return x[chosen].astype(float), np.argmax(y[chosen, None] == np.asarray(classes), axis=1)


def _listed(classes: Sequence[int]) -> str:
    """0, 1 and 2."""
    return ", ".join(map(str, classes[:-1])) + f" and {classes[-1]}"
