"""The training that is raced: a linear MLP on the structured identity task, minibatch SGD, plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Setting(NamedTuple):
    name: str
    dim: int
    depth: int
    members: int
    steps: int
    batch: int = 128
    samples: int = 10_000
    learning_rate: float = 0.1


DEEP = Setting("4-layer d=64 (Fig 2c)", 64, 4, 2, 3120)
SMALL = Setting("3-layer d=3 (Figs 13, 14)", 3, 3, 32, 3120)


def numbers(setting: Setting, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Initial weights (members first) and one data set per member, for contenders that take plain arrays."""
    rng = np.random.default_rng(seed)
    bound = setting.dim**-0.5
    shape = (setting.members, setting.dim, setting.dim)
    weights = [rng.uniform(-bound, bound, shape).astype(np.float32) for _ in range(setting.depth)]
    half = setting.samples // 2
    data = np.zeros((setting.members, setting.samples, setting.dim), np.float32)
    data[:, :half, 0], data[:, half:, 1] = 1.0, 2.0
    data[:, :, :2] += 0.05 * rng.standard_normal((setting.members, setting.samples, 2)).astype(np.float32)
    return weights, data
