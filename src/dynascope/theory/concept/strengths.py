"""The strength of a concept: its signal and its diversity, as the second moment of the data on its axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Settings = Sequence[float] | Sequence[Sequence[float]] | np.ndarray


def strengths(mu: Settings, sigma: Settings, origin: bool = False) -> Float[np.ndarray, "*setting s"]:
    """`a_p = sigma_p^2 + mu_p^2 / s` for signals and spreads of shape `(..., s)`; with a cluster at the origin the
    denominator is `s + 1`."""
    return np.asarray(sigma, float) ** 2 + np.asarray(mu, float) ** 2 / (np.shape(mu)[-1] + origin)


def spread_of_equal_strengths(mu: tuple[float, float], second_spread: float, origin: bool = False) -> float:
    """The spread `sigma_1` at which two concepts are equally strong, `a_1 = a_2`; 0 where no spread is small enough."""
    excess = second_spread**2 + (mu[1] ** 2 - mu[0] ** 2) / (2 + origin)
    return float(np.sqrt(max(0.0, excess)))
