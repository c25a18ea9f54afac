"""Two classes of a data set for the experiments on quadratic models, pooled where asked, or a stand-in."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from dynascope.tasks import datasets, files
from dynascope.tasks.files import DataNotFoundError

STAND_IN = "a stand-in for {}, two Gaussians"
"""What a sample is called where the data set is not to be had."""


class Sample(NamedTuple):
    """Inputs, labels ±1, and what they are."""

    x: Float[np.ndarray, "n ..."]
    y: Float[np.ndarray, " n"]
    x_test: Float[np.ndarray, "t ..."]
    y_test: Float[np.ndarray, " t"]
    name: str


def known(data: str) -> str:
    """The name of a data set, if it is one: what is misspelt gets no stand-in."""
    if data not in ("gaussians", *datasets.NAMES) and files.find(f"{data}.npz") is None:
        raise ValueError(f"no data set of this name; known are gaussians, {', '.join(datasets.NAMES)}")
    return data


def sample(
    data: str, classes: tuple[int, int], count: int, test: int, seed: int, *, pool: int = 1, flat: bool = True
) -> Sample:
    """`count` training and up to `test` test examples of two classes of `data`, standardised; images averaged over
    squares of `pool` pixels a side first, and then standardised again. With data="gaussians", or where the file is
    not to be had, two Gaussians of 49 dimensions."""
    if data != "gaussians":
        try:
            found = datasets.two_classes(data, classes, count, None, jax.random.key(seed), flat=flat and pool == 1)
        except DataNotFoundError:
            pass
        else:
            x, x_test = found.x, found.x_test[:test]
            if pool > 1 and x.ndim == 4:
                x, x_test = (_pooled(part, pool) for part in (x, x_test))
                axes = tuple(range(x.ndim - 1))
                centre, spread = x.mean(axis=axes), x.std(axis=axes)
                x, x_test = ((part - centre) / np.where(spread > 0, spread, 1) for part in (x, x_test))
            if flat:
                x, x_test = (part.reshape(len(part), -1) for part in (x, x_test))
            return Sample(x, found.y, x_test, found.y_test[:test], f"{data}, classes {classes[0]} and {classes[1]}")
    x, y = _gaussians(count + test, seed)
    if not flat:
        x = x.reshape(-1, 7, 7, 1)
    return Sample(x[:count], y[:count], x[count:], y[count:], STAND_IN.format(data))


def _pooled(images: np.ndarray, pool: int) -> np.ndarray:
    n, height, width, channels = images.shape
    rows, columns = height // pool, width // pool
    cut = images[:, : rows * pool, : columns * pool]
    return cut.reshape(n, rows, pool, columns, pool, channels).mean(axis=(2, 4))


def _gaussians(count: int, seed: int, dim: int = 49) -> tuple[np.ndarray, np.ndarray]:
    """Labels ±1, a class pattern that explains a part of the spread, and a few strong directions beside it."""
    draw, pattern = np.random.default_rng(seed), np.random.default_rng(0)
    y = draw.choice([-1.0, 1.0], count)
    mean, factors = 0.3 * pattern.standard_normal(dim), 0.5 * pattern.standard_normal((6, dim))
    x = y[:, None] * mean + draw.standard_normal((count, 6)) @ factors + 0.5 * draw.standard_normal((count, dim))
    return x / x.std(), y
