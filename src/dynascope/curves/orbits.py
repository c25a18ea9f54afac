"""Recorded orbits of an iterated map: their period, their last cycle, and the rate at which what lies beside them dies.

"Simple structures in neural networks", Chapter 3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

PERIODS = (1, 2, 4, 8, 16, 32)
APERIODIC = 0


def period(
    orbit: ArrayLike, burn_in: int = 0, tolerance: float = 1e-7, periods: tuple[int, ...] = PERIODS
) -> Int[np.ndarray, " ..."]:
    """The smallest p with |x_{t+p} - x_t| < tolerance for the last p steps t of the record; 0: aperiodic, or diverged.

    Orbits are arrays `(..., step)`, recorded at every step; the record must go on for 2 p steps after `burn_in`.
    """
    values = np.asarray(orbit)[..., burn_in:]
    if values.shape[-1] < 2 * max(periods):
        raise ValueError(
            f"to see periods up to {max(periods)}, record {2 * max(periods)} steps after the burn-in;"
            f" got {values.shape[-1]}"
        )
    found = np.full(values.shape[:-1], APERIODIC)
    for p in sorted(periods, reverse=True):
        with np.errstate(invalid="ignore", over="ignore"):
            closes = np.all(np.abs(values[..., -p:] - values[..., -2 * p : -p]) < tolerance, axis=-1)
        found = np.where(closes, p, found)
    return found


def last_cycle(orbit: ArrayLike, length: int) -> Float[np.ndarray, "... length"]:
    """The last `length` iterates, beginning with the smallest: comparable between runs that end in another phase."""
    tail = np.asarray(orbit, float)[..., -length:]
    first = np.argmin(np.where(np.isnan(tail), np.inf, tail), axis=-1)[..., None]
    return np.take_along_axis(tail, (first + np.arange(length)) % length, axis=-1)


def transverse_exponent(factors: ArrayLike) -> Float[np.ndarray, " ..."]:
    """mean_t log|factor_t| along `(..., step)`: the rate at which what these factors multiply dies (if negative).

    For the imbalance of a product loss the factor is 1 + eta (xy - mu).
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.mean(np.log(np.abs(np.asarray(factors, float))), axis=-1))
