"""All contexts of a tiny noisy recall, with their probabilities: what exact moments and gradients are held against."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest


class Enumerated(NamedTuple):
    sequences: np.ndarray
    targets: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


@pytest.fixture(scope="session")
def enumerated():
    def all_of(size, length, alpha):
        rows = []
        for target, *tokens in itertools.product(range(size), *[range(size + 1)] * (length - 1)):
            weight = (tokens[0] < size) / size**2
            for now, then in itertools.pairwise(tokens):
                weight *= (1 - alpha) * (then == target) + alpha * (then == size) if now == 0 else (then < size) / size
            for label, share in ((target, 1 - alpha), (size, alpha)):
                if weight:
                    rows.append(([*tokens, 0], target, label, weight * share))
        return Enumerated(*(np.array(column) for column in zip(*rows, strict=True)))

    return all_of
