"""First and second moments of a context of noisy in-context recall, given its target, from which gradients are
computed.

The input at position t is x_t = (z_t, z_{t-1}), both as unit vectors (Eq. 4.2 in one-hot coordinates: current tokens
0 to N, then previous ones; there is none at t = 1). With D the counts of the tokens before the last one, the trigger q,

    T xbar = (D + q, D),    sum_t E[x_t x_t^T] = [[diag(E D + q), J^T], [J, diag(E D)]],

J the expected number of adjacent pairs (previous, current): all exact, without sampling. All targets but the trigger
are alike up to a permutation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dynascope.theory.domains import check_arguments
from dynascope.theory.recall.chain import TRIGGER, Length, Noise, Size, occupation, transition

Vector = Float[np.ndarray, " coordinate"]
Square = Float[np.ndarray, "coordinate coordinate"]


class Contexts(NamedTuple):
    """Moments of contexts whose target is the trigger (first) or token 1 (second), with 2 (N + 1) coordinates."""

    mean: Float[np.ndarray, "2 coordinate"]
    """E xbar."""
    covariance: Float[np.ndarray, "2 coordinate coordinate"]
    """E[(1/T) sum_t x_t x_t^T - xbar xbar^T], the covariance within a context."""
    alpha: float
    """Noise level."""

    @property
    def size(self) -> int:
        """N."""
        return self.mean.shape[1] // 2 - 1

    def swaps(self) -> Int[np.ndarray, "target coordinate"]:
        """The places of the coordinates of the second moments, for every target but the trigger: token 1 and the target
        change places."""
        swap = np.tile(np.arange(self.size + 1), (self.size - 1, 1))
        row = np.arange(self.size - 1)
        swap[row, 1], swap[row, row + 1] = row + 1, 1
        return np.concatenate([swap, self.size + 1 + swap], axis=1)

    def means(self) -> Float[np.ndarray, "target coordinate"]:
        """E xbar of every target."""
        return np.concatenate([self.mean[:1], self.mean[1][self.swaps()]])

    def average_covariance(self) -> Square:
        """The covariance within a context, over all N targets."""
        other = np.block([[_symmetrize(block) for block in row] for row in _blocks(self.covariance[1])])
        return self.covariance[0] / self.size + (1 - 1 / self.size) * other


@check_arguments
def contexts(size: Size, length: Length, alpha: Noise) -> Contexts:
    """The moments of contexts, exactly.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
    """
    found = [_moments(size, length, alpha, target) for target in (TRIGGER, 1)]
    mean, covariance = (np.stack(parts) for parts in zip(*found, strict=True))
    return Contexts(mean, covariance, float(alpha))


def _moments(size: int, length: int, alpha: float, target: int) -> tuple[Vector, Square]:
    seen, square, last = occupation(size, length - 1, alpha, target)
    row = np.eye(size + 1)[TRIGGER]
    pairs = (seen - last)[:, None] * transition(size, alpha, target) + np.outer(last, row)
    whole = seen + row
    inputs = np.block([[np.diag(whole), pairs.T], [pairs, np.diag(seen)]])
    crossed = square + np.outer(row, seen)  # E[(D + q) D^T]
    full = crossed + np.outer(seen, row) + np.outer(row, row)
    averages = np.block([[full, crossed], [crossed.T, square]])
    return np.concatenate([whole, seen]) / length, inputs / length - averages / length**2


def _blocks(matrix: np.ndarray) -> list[list[np.ndarray]]:
    return [np.split(half, 2, axis=1) for half in np.split(matrix, 2)]


def _symmetrize(block: np.ndarray) -> np.ndarray:
    """The mean over all permutations of the tokens that are neither the trigger nor noise."""
    found, count = block.copy(), len(block) - 2
    inner, total, trace = found[1:-1, 1:-1], block[1:-1, 1:-1].sum(), np.trace(block[1:-1, 1:-1])
    inner[:] = (total - trace) / (count * (count - 1))
    np.fill_diagonal(inner, trace / count)
    for edge in (0, -1):
        found[edge, 1:-1] = block[edge, 1:-1].mean()
        found[1:-1, edge] = block[1:-1, edge].mean()
    return found
