"""Recorded orbits of an iterated map: their period, their last cycle, and how fast perturbations off them decay.

"Simple structures in neural networks", Chapter 3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from dynascope import checks

PERIODS = (1, 2, 4, 8, 16, 32)
APERIODIC = 0


def period(
    orbit: ArrayLike, burn_in: int = 0, *, tolerance: float = 1e-7, periods: tuple[int, ...] = PERIODS
) -> Int[np.ndarray, " ..."]:
    """The period of each orbit at the end of its record: the smallest p with |x_{t+p} - x_t| < `tolerance` for the last
    p steps t. 0 if the orbit is aperiodic or has diverged.

    Args:
        orbit: Iterates `(..., step)`, recorded at every step, with at least twice the longest period after `burn_in`.
        burn_in: Number of steps to drop from the start.
        tolerance: The largest distance between states that count as equal.
        periods: The periods to try.
    """
    checks.real("tolerance", tolerance, above=0)
    if not isinstance(periods, tuple | list) or not periods:
        raise TypeError(f"periods must be a tuple of integers; got {checks.shown(periods)}")
    longest = max(checks.whole("periods", p, at_least=1) for p in periods)
    whole = np.asarray(checks.array("orbit", orbit, min_ndim=1))
    values = whole[..., checks.whole("burn_in", burn_in, at_least=0) :]
    if values.shape[-1] < 2 * longest:
        got = f"{values.shape[-1]} after the burn-in"
        raise ValueError(f"orbit must have {2 * longest} steps to show periods up to {longest}; got {got}")
    found = np.full(values.shape[:-1], APERIODIC)
    for p in sorted(periods, reverse=True):
        with np.errstate(invalid="ignore", over="ignore"):
            closes = np.all(np.abs(values[..., -p:] - values[..., -2 * p : -p]) < tolerance, axis=-1)
        found = np.where(closes, p, found)
    return found


def last_cycle(orbit: ArrayLike, length: int) -> Float[np.ndarray, "... length"]:
    """The last `length` iterates, beginning with the smallest, so that runs that end in different phases can be
    compared.

    Args:
        orbit: Iterates `(..., step)`.
        length: Number of iterates to keep: the period.
    """
    values = np.asarray(checks.array("orbit", orbit, min_ndim=1), float)
    tail = values[..., -checks.whole("length", length, at_least=1, at_most=values.shape[-1]) :]
    first = np.argmin(np.where(np.isnan(tail), np.inf, tail), axis=-1)[..., None]
    return np.take_along_axis(tail, (first + np.arange(length)) % length, axis=-1)


def transverse_exponent(factors: ArrayLike) -> Float[np.ndarray, " ..."]:
    """mean_t log|factor_t|: the exponential rate of the product of these factors, which decays if it is negative.

    Args:
        factors: The factors `(..., step)`; for the imbalance of a product loss, 1 + eta (xy - mu).
    """
    with np.errstate(divide="ignore"):
        values = np.asarray(checks.array("factors", factors, min_ndim=1), float)
        return np.asarray(np.mean(np.log(np.abs(values)), axis=-1))
