"""The check that a search missed nothing: Lanczos from a random vector, with the pairs found projected out.

The mathematics, with its sources, is that of `dynascope.geometry.remainder`: an eigenvalue above a level that was
declared clear is there with a probability of at most `MISSED`.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

MISSED = 1e-3
"""The probability that an eigenvalue above a clear level was missed is at most this."""
LEVELS = 4.0 ** np.arange(12) / 2
"""The third level and those that follow lie this far above the last value, in units of the error that is allowed."""
NEEDED = 1
"""The index of the level that has to be clear."""


class Remainder:
    """The state of Lanczos, and its bounds on eigenvalues above each level, or on both sides of zero.

    The `number` of the check, from 1, lowers its part of `MISSED`, so that all checks of a search together have that.
    """

    def __init__(
        self, vector: Float[Tensor, " n"], pairs: Float[Tensor, "k n"], levels: np.ndarray, sides: int, number: int = 1
    ):
        for _ in range(2):
            vector = vector - (pairs @ vector) @ pairs
            vector = vector / torch.linalg.norm(vector)
        self.pairs = pairs
        self.enough = 2 * (len(vector) - len(pairs)) / np.pi / (MISSED / (number * (number + 1))) ** 2
        self.levels = levels
        self.sides = np.array([1.0, -1.0])[:sides, None]
        self.vector = vector
        """The next vector to be multiplied."""
        self.before = torch.zeros_like(vector)
        self.coupling = 0.0
        self.parts = np.ones((sides, len(levels)))
        """The Lanczos polynomials at the levels, for this vector and for the one before."""
        self.parts_before = np.zeros_like(self.parts)
        self.squares = np.ones_like(self.parts)
        """The sum of their squares; -inf once a Ritz value has passed the level."""
        self.toward = [vector.clone() for _ in range(sides)]
        """The direction of a value that has passed the level that has to be clear."""
        self.signs = np.ones(sides)
        """The sign of the vector in the Lanczos basis of the operator, and in that of its negative."""
        self.clear = np.zeros(len(levels), bool)
        self.found: Tensor | None = None
        """A direction with a larger value than that level, if one came up."""

    def learn(self, image: Float[Tensor, " n"]) -> None:
        """One step of Lanczos; `image` is the product with `vector`."""
        diagonal = float(self.vector @ image)
        left = image - diagonal * self.vector - self.coupling * self.before
        for _ in range(2):
            left = left - (self.pairs @ left) @ self.pairs
        coupling = float(torch.linalg.norm(left))
        tiny = torch.finfo(image.dtype).tiny
        vector = left / max(coupling, tiny)
        parts = (self.levels - self.sides * diagonal) * self.parts - self.coupling * self.parts_before
        with np.errstate(over="ignore"):  # an infinite sum is clear
            parts = np.where(self.clear, 1, parts / max(coupling, tiny))  # at clear levels it need not grow further
            self.squares = np.where(parts > 0, self.squares + parts**2, -np.inf)
        self.clear |= np.all(self.squares >= self.enough, axis=0)
        self.signs = self.signs * self.sides[:, 0]
        for toward, part, sign in zip(self.toward, parts[:, NEEDED], self.signs, strict=True):
            if part <= 0:
                self.found = toward
                break
            toward += sign * part * vector
        self.before, self.vector, self.coupling = self.vector, vector, coupling
        self.parts, self.parts_before = parts, self.parts
