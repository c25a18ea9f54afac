"""Pairs of small digits in a hundred classes: a task for transformers that a CPU can train.

Digits have 8 x 8 pixels, made from MNIST by padding with two pixels and averaging over 4 x 4 (as the 8 x 8 digits of
the UCI repository were made from 32 x 32 bitmaps). The images are the "digits" that the package carries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped, UInt8

from dynascope.checks import sizes
from dynascope.tasks.data import images
from dynascope.tasks.data.files import TrainTest

SIDE = 8


class DigitPairs(NamedTuple):
    """Images of 8 x 16 pixels with class 10 left + right, and a description of them."""

    images: TrainTest
    name: str


def digit_pairs(
    train: int = 6000, test: int = 1000, *, digits: int = 1400, held_out: int = 397, seed: int = 0
) -> DigitPairs:
    """`train` pairs drawn from `digits` different digits, and `test` pairs drawn from `held_out` others."""
    sizes(train=train, test=test, digits=digits, held_out=held_out)
    stored = images.load("digits")
    if len(stored.x_train) < digits + held_out:
        raise ValueError(f"digits + held_out must be at most {len(stored.x_train)}; got {digits} + {held_out}")
    singles, labels = small_digits(stored.x_train[: digits + held_out]), stored.y_train[: digits + held_out]
    draw, made = np.random.default_rng(seed), []
    for pool, count in ((np.arange(digits), train), (digits + np.arange(held_out), test)):
        left, right = draw.choice(pool, (2, count))
        x = np.concatenate([singles[left], singles[right]], axis=2)[..., None]
        made += [x, 10 * labels[left].astype(np.int32) + labels[right].astype(np.int32)]
    return DigitPairs(TrainTest(*made), "pairs of MNIST digits, 8 x 8 pixels each")


def small_digits(x: Shaped[np.ndarray, "n 28 28"]) -> UInt8[np.ndarray, "n 8 8"]:
    """Images padded by 2 pixels, then averaged over blocks of 4 x 4."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (2, 2), (2, 2)))
    return np.rint(wide.reshape(len(x), SIDE, 4, SIDE, 4).mean(axis=(2, 4))).astype(np.uint8)
