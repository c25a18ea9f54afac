"""The time at which the symmetric model learns each concept, predicted from its start alone.

The paper (Section 4.2, Appendix D) says that the majors `w_kk` leave the initial phase in the order of descending
`a`. For numbers one needs the *pivots*: eliminate the stronger directions from `W(0)` first (Cholesky in the order of
descending `a`); `p_k` is the remainder of `w_kk(0)`, and major k follows the logistic curve of growth rate `2 a_k` from
`p_k`. `p_k = 0`, a start of too low a rank, means that stage k never happens.

Clock: times are in the paper clock, `t = 2 h * steps` for gradient descent on `U` with learning rate `h`; every `eta`
is the step in that clock, `eta = 2 h`. Concepts keep the order in which they are given.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dynascope.compilation import as_one_program
from dynascope.theory.concept.jacobian_recursion import jacobian_of
from dynascope.theory.domains import PositiveNumber, check_arguments


class StageTimes(NamedTuple):
    """Predictions for each major, concepts in the order given; times in the paper clock."""

    log_pivots: Float[Array, "*batch d"]
    """Log pivots `log p_k`. Shape (..., d)."""
    exit: Float[Array, "*batch d"]
    """First time at which `w_kk` reaches the exit threshold."""
    half: Float[Array, "*batch d"]
    """First time at which `w_kk` reaches 1/2: infinite if `p_k = 0`, a concept that is never learned (Figure 10)."""
    order: Int[Array, "*batch d"]
    """The concepts in the order in which they are learned."""


@check_arguments
def log_pivots(W0: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d"]:
    """`log p_k` from `W(0)`, -inf below its rounding: elimination in the order of descending `a`, without square roots.

    If `W(0) = U U^T` is nearly singular, use `log_pivots_of_factor`, which resolves pivots down to the square of the
    rounding.

    Args:
        W0: Initial Jacobian `W(0)`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    order = jnp.argsort(-a)
    scale = jnp.max(jnp.abs(W0), axis=(-2, -1), keepdims=True)
    W = (W0 / scale)[..., order, :][..., :, order]
    floor = W.shape[-1] * jnp.finfo(W.dtype).eps * jnp.diagonal(W, axis1=-2, axis2=-1)

    def eliminate(k: Array, rest: Array) -> Array:
        pivot, row = rest[..., k, k], rest[..., k, :]
        alive = (jnp.arange(rest.shape[-1]) > k) & (pivot > floor[..., k])[..., None]
        share = jnp.where(alive, row / jnp.where(alive, pivot[..., None], 1), 0)
        return rest - share[..., :, None] * jnp.where(alive, row, 0)[..., None, :]

    pivots = jnp.diagonal(lax.fori_loop(0, W.shape[-1], eliminate, W), axis1=-2, axis2=-1)
    logs = jnp.log(jnp.where(pivots > floor, pivots, 0)) + jnp.log(scale[..., 0])
    return logs[..., jnp.argsort(order)]


@check_arguments
def log_pivots_of_factor(U0: Float[Array, "*batch d width"], a: Float[Array, " d"]) -> Float[Array, "*batch d"]:
    """`log p_k` from `U(0)`, -inf beyond its rank: `p_k` is the squared length of row k beyond the span of the
    stronger.

    From a QR factorization, so a nearly dependent start keeps its digits.

    Args:
        U0: Initial factor `U(0)`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    order = jnp.argsort(-a)
    rows = U0[..., order, :]
    triangle = jnp.linalg.qr(jnp.swapaxes(rows, -1, -2), mode="r")
    lengths = jnp.abs(jnp.diagonal(triangle, axis1=-2, axis2=-1))
    lengths = jnp.pad(lengths, [(0, 0)] * (lengths.ndim - 1) + [(0, rows.shape[-2] - lengths.shape[-1])])
    floor = rows.shape[-2] * jnp.finfo(rows.dtype).eps * jnp.linalg.norm(rows, axis=-1)
    return 2 * jnp.log(jnp.where(lengths > floor, lengths, 0))[..., jnp.argsort(order)]


@check_arguments
def naive_log_pivots(W0: Float[Array, "*batch d d"]) -> Float[Array, "*batch d"]:
    """`log w_kk(0)`: the start of each major without elimination, the naive guess.

    Args:
        W0: Initial Jacobian `W(0)`. Shape (..., d, d).
    """
    return jnp.log(jnp.diagonal(W0, axis1=-2, axis2=-1))


@check_arguments
def exit_time(log_pivot: Float[Array, "*batch d"], a: Float[Array, " d"], threshold: PositiveNumber) -> Array:
    """`t_k(theta) = log(theta / p_k) / (2 a_k)`, paper clock.

    Args:
        log_pivot: Log pivots, as from `log_pivots`, `log_pivots_of_factor` or `naive_log_pivots`. Shape (..., d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        threshold: Small value theta of the major. Positive.
    """
    return jnp.maximum((jnp.log(threshold) - log_pivot) / (2 * a), 0)


@check_arguments
def half_time(log_pivot: Float[Array, "*batch d"], a: Float[Array, " d"]) -> Float[Array, "*batch d"]:
    """`t_k(1/2) = log((1 - p_k) / p_k) / (2 a_k)`, paper clock; 0 if `p_k >= 1/2`.

    Args:
        log_pivot: Log pivots, as from `log_pivots`, `log_pivots_of_factor` or `naive_log_pivots`. Shape (..., d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    below = jnp.minimum(log_pivot, jnp.log(jnp.asarray(0.5, a.dtype)))
    return (jnp.log1p(-jnp.exp(below)) - below) / (2 * a)


@check_arguments
def stage_times(
    log_pivot: Float[Array, "*batch d"], a: Float[Array, " d"], threshold: PositiveNumber = 0.1
) -> StageTimes:
    """The times at which each major leaves the initial phase and reaches 1/2, paper clock, and the order of concepts.

    Args:
        log_pivot: Log pivots, as from `log_pivots`, `log_pivots_of_factor` or `naive_log_pivots`. Shape (..., d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        threshold: Value of a major at which it has left the initial phase. Positive. Default: 0.1.
    """
    half = half_time(log_pivot, a)
    return StageTimes(log_pivot, exit_time(log_pivot, a, threshold), half, jnp.argsort(half, axis=-1))


@check_arguments
def steps_at(
    times: Float[Array, "*batch d"],
    a: Float[Array, " d"],
    eta: PositiveNumber,
    integrator: Literal["factor_gd", "jacobian_euler"] = "factor_gd",
) -> Float[Array, "*batch d"]:
    """Times in the paper clock as numbers of steps of size `eta`, with the finite step's own growth rate.

    A small major grows by `(1 + eta a)^2` in a step of `factor_gd` and by `1 + 2 eta a` in one of `jacobian_euler`,
    instead of `e^{2 eta a}`.

    Args:
        times: Times in the paper clock. Shape (..., d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
        integrator: The iteration: gradient descent on `U` or the recursion on `W`. Default: "factor_gd".
    """
    per_step = 2 * jnp.log1p(eta * a) if integrator == "factor_gd" else jnp.log1p(2 * eta * a)
    return times * 2 * a / per_step


@check_arguments
def half_steps(
    U0: Float[np.ndarray, "*batch d width"],
    a: Float[np.ndarray, " d"],
    learning_rate: PositiveNumber,
    naive: bool = False,
) -> Float[np.ndarray, "*batch d"]:
    """The step of gradient descent on `U` at which each major reaches 1/2.

    Args:
        U0: Initial factor `U(0)`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        learning_rate: Learning rate `h` on the gradient of (4.1). Positive.
        naive: Start each major from `w_kk(0)` instead of its pivot. Default: False.
    """
    return np.asarray(_half_steps(jnp.asarray(U0), jnp.asarray(a), learning_rate, naive))


@as_one_program
def _half_steps(U: Array, a: Array, learning_rate: float, naive: bool) -> Array:
    pivots = naive_log_pivots(jacobian_of(U)) if naive else log_pivots_of_factor(U, a)
    return steps_at(half_time(pivots, a), a, 2 * learning_rate)


@check_arguments
def plateau_length(log_pivot: Float[Array, "*batch d"], a: Float[Array, " d"]) -> Float[Array, "*batch d"]:
    """`log(1 / p_k) / (2 a_k)`, paper clock: the time that the loss stays at `1/2 sum_{missing} mu_k^2`.

    Args:
        log_pivot: Log pivots, as from `log_pivots`, `log_pivots_of_factor` or `naive_log_pivots`. Shape (..., d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    return -log_pivot / (2 * a)
