"""Ten points of two classes, as Figure 2.2 has them, and what stands in for them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.experiments.seeds import run_key
from dynascope.tasks.data import datasets, images

Data = Literal["cifar", "digits", "gaussians"]
POOL = 4


class Points(NamedTuple):
    """Inputs, each coordinate of order 1, labels -1 and +1, and what they are."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    name: str


def points(data: Data, count: int, seed: int) -> Points:
    """`count` points: aeroplanes and birds of CIFAR-10; the digits 3 and 8 of MNIST, averaged over squares of 4 x 4
    pixels and standardized; or, asked for or where the file is not to be had, two Gaussians in as many dimensions."""
    key = run_key(seed)
    try:
        if data == "cifar":
            found = datasets.two_classes("cifar10", (0, 2), count, 0, key)
            return Points(found.x, found.y, f"aeroplanes and birds of CIFAR-10, {count} points")
        if data == "digits":
            found = datasets.two_classes("mnist", (3, 8), count, 0, key, flat=False)
            pooled = found.x.reshape(count, 28 // POOL, POOL, 28 // POOL, POOL).mean(axis=(2, 4)).reshape(count, -1)
            pooled = (pooled - pooled.mean()) / pooled.std()
            return Points(pooled, found.y, f"3 and 8 of MNIST, {pooled.shape[1]} averaged pixels, {count} points")
    except images.DataNotFoundError:
        pass
    draw = np.random.default_rng(seed)
    dim = 3072 if data == "cifar" else 49
    y = np.where(np.arange(count) % 2, 1.0, -1.0)
    x = draw.standard_normal((count, dim)) + 0.5 * y[:, None] * draw.choice([-1.0, 1.0], dim)
    what = "two Gaussians" if data == "gaussians" else f"a substitute for {data}: two Gaussians"
    return Points(x / x.std(), y, f"{what} in {dim} dimensions, {count} points")
