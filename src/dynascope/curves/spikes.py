"""Spikes of a curve, such as the loss of a run: their places, heights and ends.

Curves are `(..., step)`; leading axes are batched over. A spike is a `Rise` from a trough to a peak. The definition
depends on the question: `spikes` finds every local peak, `first_spike` the first departure from the lowest value so
far, `largest_rise` the largest one of a curve. NaN is never a peak; infinity is, like any other value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from dynascope import checks

Steps = Int[np.ndarray, "..."]
Values = Float[np.ndarray, "..."]


class Rise(NamedTuple):
    """The steps (indices along the curve) between which a curve rises; equal if it does not.

    One for each of several curves `(..., step)`, or any number of them for a single curve `(step,)`.
    """

    trough: Steps
    """The step at which the rise begins."""
    peak: Steps
    """The step at which it ends."""

    def height(self, curve: ArrayLike) -> Values:
        """The ratio of the value at the peak to that at the trough. 1 if there is no rise.

        Args:
            curve: The values, `(..., step)`.
        """
        return np.asarray(_at(curve, self.peak) / _at(curve, self.trough))

    def share(self, part: ArrayLike, curve: ArrayLike) -> Values:
        """How much of the rise of a curve is due to one of its summands. 0 if there is no rise.

        Args:
            part: The summand, `(..., step)`.
            curve: The sum, `(..., step)`.
        """
        with np.errstate(invalid="ignore"):
            rise, of_part = (_at(values, self.peak) - _at(values, self.trough) for values in (curve, part))
            return np.where(rise == 0, 0, of_part / np.where(rise == 0, 1, rise))

    def recovery(self, curve: ArrayLike) -> Steps:
        """The first step from the peak on at which the curve is back at the value of the trough. The last step if it
        never is, or does not rise.

        Args:
            curve: The values, `(..., step)`, with one rise each.
        """
        values, peak = np.asarray(curve), self.peak[..., None]
        low = values <= _at(values, self.trough)[..., None]
        back = low & (np.arange(values.shape[-1]) >= peak) & (peak > self.trough[..., None])
        return np.where(back.any(axis=-1), back.argmax(axis=-1), values.shape[-1] - 1)


def spikes(curve: ArrayLike, factor: float, *, before: int = 1, after: int = 0) -> Bool[np.ndarray, "... step"]:
    """At which steps a curve has the peak of a spike.

    A peak is above `factor` times the lowest value of the steps before, and not below any value around it. With the
    defaults these are the steps that multiply the curve by more than `factor`.

    Args:
        curve: The values, `(..., step)`, not negative.
        factor: The ratio of a peak to the lowest value before it.
        before: Number of steps before the peak to compare with.
        after: Number of steps after it that must not be higher.
    """
    values = _as_positive(curve, factor)
    checks.whole("after", after, at_least=0, at_most=2**20)
    lowest = np.fmin.reduce(_window(values, before, 0), axis=-1)
    highest = np.fmax.reduce(_window(values, before, after), axis=-1)
    return (values >= highest) & (values > factor * lowest)


def troughs(curve: ArrayLike, before: int = 1) -> Int[np.ndarray, "... step"]:
    """The step of the lowest value among each step and those before it.

    Args:
        curve: The values, `(..., step)`.
        before: Number of steps before each step to look at.
    """
    windows = _window(_as_array(curve), before, 0)
    lowest = np.argmin(np.where(np.isnan(windows), np.inf, windows), axis=-1)
    return np.maximum(np.arange(windows.shape[-2]) - before + lowest, 0)


def first_spike(curve: ArrayLike, factor: float, *, within: int) -> Rise:
    """The first rise above `factor` times the lowest value so far. Both of its steps are 0 if there is none.

    Args:
        curve: The values, `(..., step)`, not negative.
        factor: The ratio to the lowest value so far.
        within: The peak is the highest value up to this many steps after the curve exceeds that ratio.
    """
    values, step = _as_positive(curve, factor), np.arange(np.shape(curve)[-1])
    checks.whole("within", within, at_least=0)
    above = values > factor * np.fmin.accumulate(values, axis=-1)
    onset = above.argmax(axis=-1)[..., None]
    trough = np.argmin(np.where((step <= onset) & ~np.isnan(values), values, np.inf), axis=-1)
    near = (step >= onset) & (step <= onset + within) & ~np.isnan(values)
    peak = np.argmax(np.where(near, values, -np.inf), axis=-1)
    found = above.any(axis=-1)
    return Rise(np.where(found, trough, 0), np.where(found, peak, 0))


def largest_rise(curve: ArrayLike) -> Rise:
    """The rise from the lowest value so far to the step at which the curve is the largest multiple of it.

    Args:
        curve: The values, `(..., step)`, not negative.
    """
    values = _as_positive(curve)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = values / np.fmin.accumulate(values, axis=-1)
    peak = np.argmax(np.where(np.isnan(ratio), -np.inf, ratio), axis=-1)
    earlier = (np.arange(values.shape[-1]) <= peak[..., None]) & ~np.isnan(values)
    return Rise(np.asarray(np.argmin(np.where(earlier, values, np.inf), axis=-1)), np.asarray(peak))


def _as_array(curve: ArrayLike) -> np.ndarray:
    return np.asarray(checks.array("curve", curve, min_ndim=1))


def _as_positive(curve: ArrayLike, factor: float = 1) -> np.ndarray:
    checks.real("factor", factor, above=0)
    values = _as_array(curve)
    if np.any(values < 0):
        raise ValueError(f"curve must not be negative, since its rises are ratios; got {checks.shown(curve)}")
    return values


def _window(values: np.ndarray, before: int, after: int) -> np.ndarray:
    """The values around every step, `(..., step, before + 1 + after)`, with NaN beyond the ends."""
    checks.whole("before", before, at_least=0, at_most=2**20)
    edges = [(0, 0)] * (values.ndim - 1) + [(before, after)]
    padded = np.pad(values.astype(np.result_type(values, np.float32)), edges, constant_values=np.nan)
    return np.lib.stride_tricks.sliding_window_view(padded, before + 1 + after, axis=-1)


def _at(curve: ArrayLike, step: Steps) -> np.ndarray:
    """The values at one step of each curve, or at several of a single curve."""
    values = np.asarray(curve)
    found = values[step] if values.ndim == 1 else np.take_along_axis(values, step[..., None], axis=-1)[..., 0]
    return np.asarray(found)
