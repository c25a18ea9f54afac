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


def estimate_noise(curve: Float[np.ndarray, "... step"], times: np.ndarray | None = None) -> Float[np.ndarray, ...]:
    """The standard deviation of white noise on a smooth curve, from the third differences of neighboring values.

    A smooth curve nearly cancels in them, most of all where it moves least: the median is taken in eight blocks, and
    the smallest one counts. 0 if the curve has fewer than 32 values, too few to tell; NaN if it is not finite to its
    end.
    """
    steps = curve.shape[-1]
    if steps < 32:
        return np.zeros(curve.shape[:-1])
    clock = np.arange(steps) if times is None else times
    places = np.lib.stride_tricks.sliding_window_view(clock.astype(float), 4)
    gaps = places[:, :, None] - places[:, None, :] + np.eye(4)
    weights = 1 / gaps.prod(axis=-1)  # of divided differences
    weights /= np.linalg.norm(weights, axis=-1, keepdims=True)
    curve = np.where(np.isfinite(curve), curve, np.nan)
    size = np.abs(np.sum(np.lib.stride_tricks.sliding_window_view(curve, 4, axis=-1) * weights, axis=-1))
    blocks = np.array_split(size, min(8, size.shape[-1] // 16), axis=-1)
    with np.errstate(invalid="ignore"):  # of a curve that is not finite to its end nothing is known
        quietest = np.min([np.median(block, axis=-1) for block in blocks], axis=0)
    return np.asarray(quietest / 0.6745)  # the median of a normal variable's size


def check_times(times: ArrayLike, steps: int) -> Float[np.ndarray, " step"]:
    """Increasing times as float64, one for each step."""
    clock = as_float("times", times, ndim=1)
    if len(clock) != steps or not np.all(np.diff(clock) > 0):
        raise ValueError(f"times must increase, one for each of {steps} steps; got {checks.shown(times)}")
    return clock
