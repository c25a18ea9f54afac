"""The shape of a path through concept space: which way it bends, whether it turns back, how it slows at the end.

Paths have axes `(..., step, concept)`, single curves `(..., step)`; leading axes are batched over. Normalized outputs
are `z_p = o_p / mu_p`, with the target at 1. Arrays or labeled arrays (their values) in, NumPy out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from dynascope import checks
from dynascope.curves._inputs import as_array, check_times, estimate_noise
from dynascope.curves.stages import Crossing, first_crossing

Values = Float[np.ndarray, "..."]
Counts = Int[np.ndarray, "..."]


class TerminalRate(NamedTuple):
    """The slope of `log speed` against time at the end of learning."""

    slope: Values
    """The slope of `log speed` against time."""
    standard_error: Values
    """The standard error of the slope, from the residuals of the line."""
    r_squared: Values
    """The share of the variance of `log speed` that the line explains."""
    points: Counts
    """Number of speeds that the line was fitted to; below 3 everything else is nan."""


def signed_area(z_1: ArrayLike, z_2: ArrayLike) -> Values:
    """The area between the path `(z_1, z_2)` and its chord: positive if direction 2 is learned first.

    `sum_k 1/2 (z2_k + z2_{k+1}) (z1_{k+1} - z1_k) - 1/2 (z2_0 + z2_T) (z1_T - z1_0)`.

    Args:
        z_1: The normalized output of the first concept, `(..., step)`.
        z_2: That of the second.
    """
    x, y = _same_shape(z_1, z_2)
    under_path = np.sum(0.5 * (y[..., 1:] + y[..., :-1]) * np.diff(x, axis=-1), axis=-1)
    return np.asarray(under_path - 0.5 * (y[..., 0] + y[..., -1]) * (x[..., -1] - x[..., 0]))


def largest_difference(z_1: ArrayLike, z_2: ArrayLike) -> Values:
    """The value of `z_2 - z_1` at the step at which its size is largest, with its sign: positive if 2 leads.

    Args:
        z_1: The normalized output of the first concept, `(..., step)`.
        z_2: That of the second.
    """
    x, y = _same_shape(z_1, z_2)
    difference = y - x
    where = np.argmax(np.abs(difference), axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(difference, where, axis=-1)[..., 0])


def half_times(z: ArrayLike, times: ArrayLike | None = None) -> Crossing:
    """The first time at which each normalized output reaches 1/2.

    Args:
        z: A path `(..., step, concept)`.
        times: The time of each step, `(step,)`. Default: its index.
    """
    return first_crossing(np.moveaxis(as_array("z", z, min_ndim=2), -2, -1), 0.5, times)


def reversal(z: ArrayLike) -> Values:
    """How far a curve falls back from its running maximum: `max_t [max_{t' <= t} z(t') - z(t)]`.

    Args:
        z: Normalized outputs, `(..., step)`.
    """
    values = as_array("z", z)
    return np.asarray(np.max(np.maximum.accumulate(values, axis=-1) - values, axis=-1))


def illusion_gap(outputs: ArrayLike, at: ArrayLike, strongest_mean: ArrayLike, target: ArrayLike) -> Values:
    """`||o - strongest training mean|| / ||target||` at one step: small if the model memorizes. nan if `at` is
    negative.

    Args:
        outputs: The outputs, `(..., step, coordinate)`.
        at: The index of a step for each path, `(...)`, such as that of `curves.memorization_peak`.
        strongest_mean: The mean of the training cluster with the strongest signal, `(coordinate,)` or one per path.
        target: The target, `(coordinate,)`.
    """
    path, index = as_array("outputs", outputs, min_ndim=2), np.asarray(checks.array("at", at, empty=True))
    if index.dtype.kind not in "iu" or index.shape != path.shape[:-2] or np.any(index >= path.shape[-2]):
        raise ValueError(
            f"at must hold an index of a step for each path, below {path.shape[-2]}; got {checks.shown(at)}"
        )
    mean, aim = (as_array(*named) for named in (("strongest_mean", strongest_mean), ("target", target)))
    if mean.shape[-1] != path.shape[-1] or aim.ndim != 1:
        got = f"{mean.shape} and {aim.shape}"
        raise ValueError(f"strongest_mean must have {path.shape[-1]} coordinates and target 1 axis; got shapes {got}")
    there = np.take_along_axis(path, np.maximum(index, 0)[..., None, None], axis=-2)[..., 0, :]
    gap = np.linalg.norm(there - mean, axis=-1) / np.linalg.norm(aim)
    return np.where(index < 0, np.nan, gap)


def terminal_rate(
    outputs: ArrayLike,
    times: ArrayLike,
    loss: ArrayLike,
    *,
    loss_share: float = 0.05,
    speed_share: float = 1e-6,
) -> TerminalRate:
    """Least squares of `log ||o_{k+1} - o_k|| / (t_{k+1} - t_k)` on time, when learning is nearly over.

    A speed is placed at the middle of its interval. The window ends before noise on the outputs makes up the speed: at
    the first one below ten times that of the noise alone, which is estimated from the changes between steps. The
    standard error grows if a line does not fit, as when several modes still decay. Theory: `-min a_k` for one layer,
    `-2 min a_k` in the paper's time for the symmetric model.

    Args:
        outputs: The outputs, `(..., step, coordinate)`.
        times: The time of each step, `(step,)`.
        loss: The loss, `(..., step)`.
        loss_share: The window begins when the loss stays below this share of `loss[0]`, not at a dip before a rise.
        speed_share: Speeds below this share of the largest one are left out.

    Returns:
        The slope with its standard error, shape `(...)` each.
    """
    checks.real("loss_share", loss_share, above=0)
    checks.real("speed_share", speed_share, at_least=0)
    path, losses = as_array("outputs", outputs, min_ndim=2), as_array("loss", loss)
    clock = check_times(times, path.shape[-2])
    if losses.shape[-1] != len(clock):
        raise ValueError(f"loss must have {len(clock)} steps, as the outputs; got {losses.shape[-1]}")
    speed = np.linalg.norm(np.diff(path, axis=-2), axis=-1) / np.diff(clock)
    middle = 0.5 * (clock[1:] + clock[:-1])
    low = losses < loss_share * losses[..., :1]
    late = np.logical_and.accumulate(low[..., ::-1], axis=-1)[..., -1:0:-1]  # low from here on
    noise = np.linalg.norm(estimate_noise(np.moveaxis(path, -1, -2), clock), axis=-1)
    lost = late & (speed <= 10 * np.sqrt(2) * noise[..., None] / np.diff(clock))
    clear = ~np.logical_or.accumulate(lost, axis=-1)
    window = late & clear & (speed > speed_share * np.max(speed, axis=-1, keepdims=True))
    return _masked_line(np.broadcast_to(middle, speed.shape), np.log(np.where(window, speed, 1.0)), window)


def _same_shape(z_1: ArrayLike, z_2: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = as_array("z_1", z_1), as_array("z_2", z_2)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"z_1 and z_2 must have the same number of steps; got {x.shape[-1]} and {y.shape[-1]}")
    return x, y


def _masked_line(x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> TerminalRate:
    points = mask.sum(axis=-1)
    enough = points >= 3
    count = np.where(enough, points, 1)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.where(mask, values, 0), axis=-1) / count)

    dx, dy = x - mean(x)[..., None], y - mean(y)[..., None]
    xx, xy, yy = (np.where(enough, mean(product), np.nan) for product in (dx * dx, dx * dy, dy * dy))
    slope = xy / xx
    residual = np.maximum(yy - slope * xy, 0)
    independent = _independent_share(np.where(mask, dy - slope[..., None] * dx, 0))
    standard_error = np.sqrt(residual / xx / np.where(enough, points - 2, 1) / independent)
    r_squared = 1 - residual / np.where(yy == 0, np.nan, yy)
    return TerminalRate(slope, standard_error, r_squared, np.asarray(points))


def _independent_share(residuals: np.ndarray) -> np.ndarray:
    """(1 - r) / (1 + r) for residuals whose neighbors correlate by r: if a line does not fit, neighbors are alike, and
    many of them carry no more information than a few."""
    squares = np.sum(residuals**2, axis=-1)
    products = np.sum(residuals[..., 1:] * residuals[..., :-1], axis=-1)
    alike = np.clip(products / np.where(squares > 0, squares, 1), 0, 1 - 1 / residuals.shape[-1])
    return np.asarray((1 - alike) / (1 + alike))
