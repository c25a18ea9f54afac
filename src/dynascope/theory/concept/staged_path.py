"""A whole run of the symmetric model predicted from its start alone: stage by stage, and without noise terms."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope.theory.concept.linear_loss import out_of_distribution_loss
from dynascope.theory.concept.minor_entries import minor_entry
from dynascope.theory.concept.one_layer import strengths
from dynascope.theory.concept.stage_times import half_steps
from dynascope.theory.domains import PositiveNumber, check_arguments


@check_arguments
def staged_path(
    start: Float[np.ndarray, "s width"],
    a: Float[np.ndarray, " s"],
    learning_rate: PositiveNumber,
    steps: Int[np.ndarray, " time"],
) -> Float[np.ndarray, "time s s"]:
    """`W` at the given steps of gradient descent on `U`, from `U(0)`.

    Eliminating the strongest direction first writes `W(0) = sum_i c_i c_i^T / c_ii`, where `c_i` has only entries of
    directions not stronger than i. Each `c_ii` follows the logistic curve from its pivot and each `c_ij` the closed
    form of a minor entry (`minor_entries`); the sum is then a prediction for every entry, exact at step 0.

    Args:
        start: Factor `U(0)`. Shape (s, width).
        a: Strengths `a_k` of the concepts, positive. Shape (s,).
        learning_rate: Learning rate `h` on the gradient of (4.1). Positive.
        steps: Steps of gradient descent on `U`. Shape (time,).
    """
    order = np.argsort(-a)
    b, rest = a[order], (start @ start.T)[np.ix_(order, order)]
    floor = len(a) * np.finfo(float).eps * np.diagonal(rest).copy()
    columns = np.zeros_like(rest)
    for i in range(len(a)):
        if rest[i, i] > floor[i]:
            columns[i, i:] = rest[i, i:]
            rest = rest - np.outer(columns[i], columns[i]) / columns[i, i]
    with np.errstate(divide="ignore"):
        log_pivots = np.log(np.diagonal(columns))
    path = np.zeros((len(steps), *rest.shape))
    for i in np.flatnonzero(np.isfinite(log_pivots)):
        times = np.asarray(steps) * np.log1p(2 * learning_rate * b[i]) / b[i]
        entries = np.zeros((len(steps), len(a)))
        odds = np.log1p(-np.exp(log_pivots[i])) - log_pivots[i]
        entries[:, i] = 1 / (1 + np.exp(odds - 2 * b[i] * times))
        for j in range(i + 1, len(a)):
            weaker = max(log_pivots[j], -700.0)
            given = (times, columns[i, j], b[i], b[j], log_pivots[i], weaker)
            entries[:, j] = np.asarray(minor_entry(*(jnp.asarray(each) for each in given)))
        path += entries[:, :, None] * entries[:, None, :] / entries[:, i, None, None]
    back = np.argsort(order)
    return path[:, back][:, :, back]


@check_arguments
def predicted_runs(
    trace: xr.Dataset, mu: Sequence[float], sigma: Sequence[float], learning_rate: PositiveNumber
) -> xr.Dataset:
    """The `W(start, step, row, column)`, `test_loss(start, step)` and step `half_step(start, concept)` at which each
    major reaches 1/2, of runs of the symmetric model.

    Args:
        trace: A trace with `U(start, step, ...)`, whose first step is the start.
        mu: Signals of the s concepts.
        sigma: Spreads of the s concepts.
        learning_rate: Learning rate `h` on the gradient of (4.1). Positive.
    """
    a, steps, starts = strengths(mu, sigma), trace.step.values, trace.U.isel(step=0).values
    W = np.stack([staged_path(start, a, learning_rate, steps) for start in starts])
    loss = np.asarray(out_of_distribution_loss(jnp.asarray(W), jnp.asarray(mu, float)))
    table = {
        "W": (("start", "step", "row", "column"), W),
        "test_loss": (("start", "step"), loss),
        "half_step": (("start", "concept"), half_steps(starts, a, learning_rate)),
    }
    return xr.Dataset(table, {"step": trace.step})
