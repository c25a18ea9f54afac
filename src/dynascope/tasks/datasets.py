"""Any of the data sets by its name, and two of its classes as a standardised regression task."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from dynascope.tasks import audio, celeba, images, text
from dynascope.tasks.image_sources import SOURCES, Images

NAMES = (*SOURCES, "ag_news", "free_spoken_digits", "celeba")
"""Sets that are known by name, whether their files are here or not."""
NORMALISED = ("ag_news",)
"""Sets whose features come at the right size and are left as they are."""


class TwoClassSet(NamedTuple):
    """Inputs and labels -1 (the first class) or +1 (the second)."""

    x: Float[np.ndarray, "n ..."]
    y: Float[np.ndarray, " n"]
    x_test: Float[np.ndarray, "t ..."]
    y_test: Float[np.ndarray, " t"]


def load(name: str) -> Images:
    """ "ag_news", "free_spoken_digits", "celeba", or an image set of `images.load`."""
    own = {"ag_news": text.load, "free_spoken_digits": audio.load, "celeba": celeba.load}
    return own[name]() if name in own else images.load(name)


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
    """`count` training and `test` test examples (None: all there are) of two classes, drawn at random.

    Each channel is standardised by the mean and standard deviation over all pixels of the training examples drawn;
    text features stay as they are. `flat` makes vectors; else images are height x width x channels. A share `flips`
    of the training labels, exactly, is turned round.
    """
    if count < 1 or (test is not None and test < 0):
        raise ValueError(f"a set needs 1 training example or more and no less than 0 to test; got {count} and {test}")
    data = load(name)
    if classes[0] == classes[1] or not np.isin(classes, data.y_train).all():
        there = ", ".join(map(str, np.unique(data.y_train)[:20]))
        raise ValueError(f"two classes of {name} are two of {there}; got {classes[0]} and {classes[1]}")
    for_train, for_test, for_flips = jax.random.split(key, 3)
    x, y = _drawn(name, "training", data.x_train, data.y_train, classes, count, for_train)
    x_test, y_test = _drawn(name, "test", data.x_test, data.y_test, classes, test, for_test)
    if name not in NORMALISED:
        x, x_test = (part[..., None] if part.ndim == 3 else part for part in (x, x_test))
        axes = tuple(range(x.ndim - 1))
        centre, spread = x.mean(axis=axes), x.std(axis=axes)
        x, x_test = ((part - centre) / np.where(spread > 0, spread, 1) for part in (x, x_test))
    if flat:
        x, x_test = (part.reshape(len(part), -1) for part in (x, x_test))
    turned = np.asarray(jax.random.permutation(for_flips, count))[: round(flips * count)]
    y[turned] *= -1
    return TwoClassSet(x, y, x_test, y_test)


def _drawn(
    name: str, part: str, x: np.ndarray, y: np.ndarray, classes: tuple[int, int], count: int | None, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray]:
    of_two = np.flatnonzero(np.isin(y, classes))
    if count is not None and len(of_two) < count:
        raise ValueError(
            f"{name} has {len(of_two)} {part} examples of {classes[0]} and {classes[1]}; asked for {count}"
        )
    chosen = of_two[np.asarray(jax.random.permutation(key, len(of_two)))[:count]]
    return x[chosen].astype(float), np.where(y[chosen] == classes[1], 1.0, -1.0)
