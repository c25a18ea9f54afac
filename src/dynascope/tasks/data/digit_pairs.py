"""Two small digits side by side: a hundred classes that a small transformer has to work for.

A stand-in for CIFAR that a CPU can train on. Digits are of 8 x 8 pixels, made from MNIST by a margin of two pixels and
means over 4 x 4 (as the 8 x 8 digits of the UCI repository were made from 32 x 32 bitmaps). Where MNIST is not to be
had, ten fixed glyphs, shifted by up to a pixel and noisy, take its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from dynascope.tasks.data import images
from dynascope.tasks.data.image_sources import Images

SIDE = 8


class DigitPairs(NamedTuple):
    """Images of 8 x 16 pixels with the class 10 left + right, and what they are made of."""

    images: Images
    name: str


def digit_pairs(
    train: int = 6000, test: int = 1000, *, digits: int = 1400, held_out: int = 397, seed: int = 0
) -> DigitPairs:
    """`train` pairs of `digits` different digits, and `test` pairs of `held_out` others."""
    try:
        stored = images.load("mnist")
    except images.DataNotFoundError:
        singles, labels, name = *glyphs(digits + held_out), "a substitute for MNIST digits, ten noisy glyphs"
    else:
        if len(stored.x_train) < digits + held_out:
            raise ValueError(f"mnist has {len(stored.x_train)} training images; asked for {digits} + {held_out}")
        singles, labels = small_digits(stored.x_train[: digits + held_out]), stored.y_train[: digits + held_out]
        name = "pairs of MNIST digits, 8 x 8 pixels each"
    draw, made = np.random.default_rng(seed), []
    for pool, count in ((np.arange(digits), train), (digits + np.arange(held_out), test)):
        left, right = draw.choice(pool, (2, count))
        x = np.concatenate([singles[left], singles[right]], axis=2)[..., None]
        made += [x, 10 * labels[left].astype(np.int32) + labels[right].astype(np.int32)]
    return DigitPairs(Images(*made), name)


def small_digits(x: Shaped[np.ndarray, "n 28 28"]) -> UInt8[np.ndarray, "n 8 8"]:
    """A margin of 2 pixels, then means over blocks of 4 x 4."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (2, 2), (2, 2)))
    return np.rint(wide.reshape(len(x), SIDE, 4, SIDE, 4).mean(axis=(2, 4))).astype(np.uint8)


def glyphs(count: int) -> tuple[UInt8[np.ndarray, "n 8 8"], Int[np.ndarray, " n"]]:
    """Ten random patterns of 6 x 6 blots, each shown anywhere in 8 x 8 pixels, with noise."""
    draw = np.random.default_rng(0)
    patterns = np.kron(draw.uniform(size=(10, 3, 3)) > 0.5, np.ones((2, 2)))
    labels = draw.integers(0, 10, count)
    x = np.zeros((count, SIDE, SIDE))
    for image, label, (row, column) in zip(x, labels, draw.integers(0, 3, (count, 2)), strict=True):
        image[row : row + 6, column : column + 6] = patterns[label]
    noisy = 200 * x + draw.normal(0, 30, x.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), labels.astype(np.int64)
