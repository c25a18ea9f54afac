"""How learning slows at its end: what the experiments on diversity, slow-down and depth have in common."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dynascope.curves import paths
from dynascope.curves.paths import TerminalRate
from dynascope.figures.forms import THEORY

SINGLE_SPEEDS = 1e-4
"""Share of the largest speed down to which a speed is read: in float32, rounding of the outputs sets in below it."""
DOUBLE_SPEEDS = 1e-6
"""The same in float64."""


def speeds(trace: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The middle of every recorded interval, and the speed `||o_{k+1} - o_k|| / (t_{k+1} - t_k)` there."""
    steps = trace.step.values.astype(float)
    path = trace.output.transpose(..., "step", "concept").values.astype(float)
    return (steps[1:] + steps[:-1]) / 2, np.linalg.norm(np.diff(path, axis=-2), axis=-1) / np.diff(steps)


def rate_between(
    trace: xr.Dataset, upper: float = 0.05, lower: float = 0.0, speed_share: float = DOUBLE_SPEEDS
) -> TerminalRate:
    """The slope per step of the log speed while the test loss is between two shares of its first value.

    The path is held still once the loss is below the band: it has no speed there, so the fit leaves it out.
    """
    path = trace.output.transpose(..., "step", "concept").values.astype(float)
    loss = trace.test_loss.transpose(..., "step").values.astype(float)
    below = np.logical_or.accumulate(loss < lower * loss[..., :1], axis=-1)
    last = loss.shape[-1] - 1 - below.sum(axis=-1)
    index = np.minimum(np.arange(loss.shape[-1]), last[..., None])
    held = np.take_along_axis(path, index[..., None], axis=-2)
    return paths.terminal_rate(held, trace.step.values, loss, loss_share=upper, speed_share=speed_share)


def settled_step(a: np.ndarray, mu: np.ndarray, step_size: float, share: float = 0.05) -> float:
    """The step from which Theorem 4.1 leaves the faster of two concepts less than `share` of the slower one's speed:
    `a_f mu_f e^{-a_f t} = share * a_s mu_s e^{-a_s t}`, with `t = step_size * steps` and no initial weights."""
    slow, fast = np.argmin(a), np.argmax(a)
    return float(np.log(a[fast] * mu[fast] / (share * a[slow] * mu[slow])) / (a[fast] - a[slow]) / step_size)


def draw_speed(axes: Axes, steps: ArrayLike, speed: np.ndarray, rate: float, floor: float, **style: object) -> None:
    """One curve of speed on a logarithmic axis, and beside it the predicted slope (dashed), laid on its second half."""
    x = np.asarray(steps)
    shown = speed > floor * speed.max()
    axes.semilogy(x[shown], speed[shown], **style)  # pyright: ignore[reportArgumentType]
    tail = np.flatnonzero(shown)[shown.sum() // 3 :]
    end = tail[len(tail) // 2 :]
    level = np.mean(np.log(speed[end]) - rate * x[end])
    axes.semilogy(x[tail], np.exp(level + rate * x[tail]), **THEORY)
