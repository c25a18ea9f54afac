"""Recorded curves as arrays of NumPy, checked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dynascope import checks


def as_float(name: str, curve: ArrayLike, *, ndim: int | None = None, min_ndim: int = 1) -> Float[np.ndarray, ...]:
    """The values of a curve as float64."""
    return np.asarray(checks.array(name, curve, ndim=ndim, min_ndim=min_ndim), dtype=float)


def as_array(name: str, curve: ArrayLike, *, min_ndim: int = 1) -> np.ndarray:
    """The values of a curve in the precision they were recorded in."""
    return np.asarray(checks.array(name, curve, min_ndim=min_ndim))


def check_times(times: ArrayLike, steps: int) -> Float[np.ndarray, " step"]:
    """Increasing times as float64, one for each step."""
    clock = as_float("times", times, ndim=1)
    if len(clock) != steps or not np.all(np.diff(clock) > 0):
        raise ValueError(f"times must increase, one for each of {steps} steps; got {checks.shown(times)}")
    return clock
