"""The quadratic model of a two-layer ReLU network on one example: exact maps, their thresholds and fixed points.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 3.3, Appendices B.3 to B.9. The model
is g = (md)^(-1/2) sum_i v_i (u_i . x) 1{gate i is on}, trained on (g - y)^2/2 (convention "sum"). With r = g - y, the
kernel lambda = |grad g|^2 and the curvature c = |x|^2/(md), gradient descent at rate eta is exactly (3.11-3.12)

    r' = (1 - eta lambda + c eta^2 r g) r,    lambda' = lambda - eta c (4 r g - eta lambda r^2),

and in u = c eta^2 r^2, w = c eta^2 r y, v = eta lambda (3.13-3.14)

    u' = k^2 u,    w' = k w,    v' = v - u (4 - v) - 4 w,    k = 1 - v + u + w.

u and v alone are not closed: w^2 = c eta^2 y^2 u fixes the size of w, its sign flips with k. c = 0 is the linear model.
All functions act entry by entry.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.domains import (
    Count,
    NotNegative,
    NotNegativeNumber,
    Number,
    Positive,
    PositiveNumber,
    check_arguments,
)

CRITICAL, LARGEST = 2.0, 4.0
"""eta lambda_0 above which the loss rises, and above which it never comes back (Theorems 3.3.1 and B.7.1)."""


class State(NamedTuple):
    """The state of training."""

    residual: Values
    """r = g - y."""
    kernel: Values
    """lambda, the squared norm of the gradient of g."""


class Normalized(NamedTuple):
    """The state without units."""

    u: Values
    """c eta^2 r^2. Any shape."""
    w: Values
    """c eta^2 r y. Any shape."""
    v: Values
    """eta lambda. Any shape."""


@check_arguments
def curvature(squared_norm: Positive, width: Positive, dim: Positive = 1) -> Values:
    """c = |x|^2 / (m d).

    Args:
        squared_norm: |x|^2. Positive, any shape.
        width: Width m. Positive, any shape.
        dim: Dimension d. Positive, any shape. Default: 1.
    """
    return real(squared_norm) / (real(width) * real(dim))


@check_arguments
def step(state: State, rate: Positive, label: Reals, curvature: NotNegative) -> State:
    """One step of gradient descent, exactly (3.11-3.12).

    Args:
        state: Residual and kernel.
        rate: Learning rate eta. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Not negative, any shape.
    """
    r, kernel = state
    c, eta, output = real(curvature), real(rate), r + real(label)
    return State(
        (1 - eta * kernel + c * eta**2 * r * output) * r, kernel - eta * c * (4 * r * output - eta * kernel * r**2)
    )


@check_arguments
def path(state: State, rate: Positive, label: Reals, curvature: NotNegative, steps: Count) -> State:
    """The states at steps 0 to `steps` of gradient descent, along a new first axis.

    Args:
        state: Residual and kernel.
        rate: Learning rate eta. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Not negative, any shape.
        steps: Number of steps.
    """
    start = State(*jnp.broadcast_arrays(state.residual, state.kernel))
    return lax.scan(lambda now, _: (step(now, rate, label, curvature), now), start, None, length=steps + 1)[1]


@check_arguments
def normalize(state: State, rate: Positive, label: Reals, curvature: NotNegative) -> Normalized:
    """u, w and v of a state.

    Args:
        state: Residual and kernel.
        rate: Learning rate eta. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Not negative, any shape.
    """
    scale = real(curvature) * real(rate) ** 2
    return Normalized(scale * state.residual**2, scale * state.residual * real(label), real(rate) * state.kernel)


@check_arguments
def multiplier(state: Normalized) -> Values:
    """k = 1 - v + u + w, by which the residual is multiplied.

    Args:
        state: u, w and v.
    """
    return 1 - state.v + state.u + state.w


@check_arguments
def normalized_step(state: Normalized) -> Normalized:
    """One step in u, w, v (3.13-3.14).

    Args:
        state: u, w and v.
    """
    u, w, v = state
    k = multiplier(state)
    return Normalized(k**2 * u, k * w, v - u * (4 - v) - 4 * w)


@check_arguments
def normalized_path(state: Normalized, steps: Count) -> Normalized:
    """The states at steps 0 to `steps` of gradient descent in u, w, v, along a new first axis.

    Args:
        state: u, w and v at the start.
        steps: Number of steps.
    """
    start = Normalized(*jnp.broadcast_arrays(*state))
    _, path = lax.scan(lambda now, _: (normalized_step(now), now), start, None, length=steps + 1)
    return path


@check_arguments
def stays_bounded(state: Normalized, steps: Count = 3000, bound: PositiveNumber = 1e3) -> Bool[Array, " ..."]:
    """Whether the loss stays bounded, entry by entry.

    It stops as soon as every entry has left or has settled (u < 1e-14 while v < 2).

    Args:
        state: u, w and v at the start.
        steps: Largest number of steps. Default: 3000.
        bound: Bound on u, beyond which no run returns. Positive. Default: 1000.0.
    """

    def settled(now: Normalized) -> Array:
        left = ~(now.u <= bound)
        return left | ((now.u < 1e-14) & (now.v < CRITICAL))

    def going(carry: tuple[Array, Normalized]) -> Array:
        return (carry[0] < steps) & ~jnp.all(settled(carry[1]))

    def advance(carry: tuple[Array, Normalized]) -> tuple[Array, Normalized]:
        done = settled(carry[1])
        moved = jax.tree.map(
            lambda old, new: jnp.where(done, old, new), carry[1], normalized_step(carry[1])
        )  # a path that has left is frozen
        return carry[0] + 1, moved

    start = Normalized(*jnp.broadcast_arrays(*state))
    return lax.while_loop(going, advance, (jnp.asarray(0), start))[1].u <= bound


@check_arguments
def peak_loss(peak: NotNegative, rate: Positive, curvature: Positive) -> Values:
    """The loss at a height of u: u / (2 c eta^2).

    The peak of u tends to a number that does not depend on the width, so the loss climbs in proportion to the width.

    Args:
        peak: Height of u. Not negative, any shape.
        rate: Learning rate eta. Positive, any shape.
        curvature: c = |x|^2/(md). Positive, any shape.
    """
    return real(peak) / (2 * real(curvature) * real(rate) ** 2)


class SmallCatapult(NamedTuple):
    """A catapult just above the critical rate, to leading order in delta = eta lambda_0 - 2."""

    peak: Values
    """max u: delta^2/2."""
    final: Values
    """v at the end: 2 - delta. The kernel falls as far below the threshold as it began above."""
    time: Values
    """Steps to the peak: ln(peak/u_0) / (2 ln(1 + delta)); 10 to 20 % too few."""


@check_arguments
def small_catapult(excess: Positive, start: Positive) -> SmallCatapult:
    """A catapult just above the critical rate, from d(delta)/du = -1/delta while |r| grows by 1 + delta a step.

    Args:
        excess: delta = eta lambda_0 - 2. Positive, any shape.
        start: u at step 0. Positive, any shape.
    """
    delta = real(excess)
    peak = delta**2 / 2
    return SmallCatapult(peak, 2 - delta, jnp.log(peak / real(start)) / (2 * jnp.log1p(delta)))


@check_arguments
def monotone_change(state: State, rate: Positive, label: Reals, curvature: NotNegative) -> Values:
    """The change of the kernel when a run with v = eta lambda_0 < 2 has converged, to leading order in c:

        -eta c ((4 - v) sum r_t^2 + 4 y sum r_t),    sum r_t^2 = r_0^2 / (v (2 - v)),    sum r_t = r_0 / v,

    with r_t = (1 - v)^t r_0. This is the O(1/(m delta)) of Theorem B.3.1 with its constant.

    Args:
        state: Residual and kernel.
        rate: Learning rate eta. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Not negative, any shape.
    """
    r, v = state.residual, real(rate) * state.kernel
    squares, sums = r**2 / (v * (2 - v)), r / v
    return -real(rate) * real(curvature) * ((4 - v) * squares + 4 * real(label) * sums)


@check_arguments
def falling_threshold(v: Reals, label_size: NotNegative, width: Positive) -> Values:
    """The u above which v decreases, if v < 4 (Proposition B.5.2): 16 C^2 / (m (4 - v)^2).

    Sufficient for either sign of w, and necessary for one of them. Printed with 4 C.

    Args:
        v: eta lambda. Any shape.
        label_size: C = eta |x| |y| / sqrt(d). Not negative, any shape.
        width: Width m. Positive, any shape.
    """
    return 16 * real(label_size) ** 2 / (real(width) * (4 - real(v)) ** 2)


class GrowthPhase(NamedTuple):
    """The constants of Lemma 3.3.2, which holds while u <= C_u' delta^2 / log m."""

    multiplier: Values
    """C_kappa: k^2 >= (1 + delta - C_kappa delta/log m)^2."""
    kernel: Values
    """C_v: |v - v_0| <= C_v delta / log m."""
    width: Values
    """The width from which on it is proved."""


@check_arguments
def growth_phase(
    excess: Positive, label_size: NotNegative, height: Positive, start: Positive, margin: Positive
) -> GrowthPhase:
    """The constants of Lemma 3.3.2, for delta >= C_eps log m / sqrt(m) and u_0 <= C_u/m.

    Args:
        excess: delta = eta lambda_0 - 2. Positive, any shape.
        label_size: C = eta |x| |y| / sqrt(d). Not negative, any shape.
        height: C_u'. Positive, any shape.
        start: C_u. Positive, any shape.
        margin: C_eps. Positive, any shape.
    """
    delta, C, tall, low = real(excess), real(label_size), real(height), real(start)
    kappa = 28 * tall + tall * delta + C * jnp.sqrt(tall)
    kernel = 28 * tall
    conditions = (
        kappa * delta / (low * (C + 1)),
        ((2 * low + 4 * C * jnp.sqrt(low)) / (kappa * real(margin))) ** 2,
        576 * C**2 / (tall * delta**2),
        jnp.exp(kernel * delta),
        jnp.exp(4 * kappa),
    )
    return GrowthPhase(kappa, kernel, jnp.max(jnp.stack(jnp.broadcast_arrays(*conditions)), axis=0))


class FixedPoints(NamedTuple):
    """Fixed points of (r, lambda) besides the line r = 0 of minima, on which eta lambda < 2 is stable."""

    origin: State
    """g = 0 and lambda = 0: all active weights are zero."""
    high: State
    """u = 4, v = 4 + w, with r > 0; the document misses it."""
    low: State
    """The same with r < 0."""


@check_arguments
def fixed_points(rate: Positive, label: Reals, curvature: Positive) -> FixedPoints:
    """The points with k = 1 and v' = v: (u + w)(4 - u) = 0 with v = u + w.

    Args:
        rate: Learning rate eta. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Positive, any shape.
    """
    eta, y, c = real(rate), real(label), real(curvature)
    tall = 2 / (eta * jnp.sqrt(c))

    def at(r: Values) -> State:
        return State(r, (4 + c * eta**2 * r * y) / eta)

    return FixedPoints(State(-y, jnp.zeros_like(y)), at(tall), at(-tall))


@check_arguments
def jacobian(state: State, rate: PositiveNumber, label: Number, curvature: NotNegativeNumber) -> Float[Array, "2 2"]:
    """The derivative of `step` with respect to (r, lambda), at one state; if r = 0 its eigenvalues are 1 and 1 - v.

    Args:
        state: Residual and kernel.
        rate: Learning rate eta. Positive.
        label: Label y.
        curvature: c = |x|^2/(md). Not negative.
    """
    return jax.jacfwd(lambda now: jnp.stack(step(State(*now), rate, label, curvature)))(jnp.stack(state))


@check_arguments
def initial_kernel(squared_norm: Positive, dim: Positive) -> tuple[Values, Values, Values]:
    """|x|^2/(2d), |x|^2/d, 3|x|^2/(2d): bounds on lambda_0 with high probability, the mean between them (B.9.1).

    Args:
        squared_norm: |x|^2. Positive, any shape.
        dim: Dimension d. Positive, any shape.
    """
    mean = real(squared_norm) / real(dim)
    return mean / 2, mean, 3 * mean / 2
