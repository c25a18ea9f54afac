"""The end of a transition: the limit (13) of gradient flow from a plateau with one coordinate just switched on.

"Transformers learn through gradual rank increase", Algorithm 1. The start is balanced, v = s * u, and stays so: on the
active set d log|beta_i| / dt = 2 s_i g_i(beta), no sign changes, and every other coordinate stays 0. A coordinate
ends when its force vanishes, or leaves the support: |beta_i| goes to 0 with s_i g_i < 0. Forces are measured relative
to max |g(0)|, so that a multiple of a loss has the same transitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dynascope.theory.domains import PositiveNumber, check_arguments
from dynascope.theory.rank.diagonal_flow import LOG_CAP, Loss, Product, force

SEED = 1e-5
"""The size of u with which a coordinate is switched on."""
GONE, PUSHED = 1e-7, 1e-4
"""A coordinate has left the support if |beta| is below the first, and the force against its sign, relative to
max |g(0)|, above the second."""
LEVELS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""The flow is stopped and Newton's step tried as the forces on the support, relative to max |g(0)|, reach these."""
NEAR = 0.1
"""The flow has arrived if Newton's step changes no coordinate by more than this share and the loss is convex."""
NEWTON = 8
"""The number of Newton steps at the end."""
COLUMNS = 16
"""The number of columns of the Hessian computed at once."""


class Transition(NamedTuple):
    """The end of a transition, and whether it was reached."""

    beta: Product
    """beta at the end. Shape (p,)."""
    left: Bool[Array, " p"]
    """The coordinates of the active set that are 0 at the end."""
    arrived: Bool[Array, ""]
    """Whether the end was reached. A scalar."""
    residual: Float[Array, ""]
    """The largest |g| on the support; not small if the end was not reached."""


class _Progress(NamedTuple):
    """The state of a transition: log|beta|, the next of `LEVELS`, and whether it has arrived."""

    logs: Product
    level: Int[Array, ""]
    near: Bool[Array, ""]


@check_arguments
@eqx.filter_jit
def transition(
    loss: Loss, beta: Product, signs: Product, *, tolerance: PositiveNumber = 1e-5, max_steps: int = 20_000
) -> Transition:
    """The end of the balanced flow.

    Newton's method completes the flow, whose tolerance only has to bring it near. A flow that stops earlier is returned
    unchanged.

    Args:
        loss: Loss L as a function of beta.
        beta: The start; the coordinate just switched on has a small value of its sign. Shape (p,).
        signs: Sign of each active coordinate, 0 elsewhere. Shape (p,).
        tolerance: Relative tolerance of the flow. Positive. Default: 1e-05.
        max_steps: Largest number of steps of the flow. Default: 20000.
    """
    active = signs != 0
    unit = jnp.max(jnp.abs(force(loss, jnp.zeros_like(beta))))
    levels = unit * jnp.asarray(LEVELS, beta.dtype)

    def at(logs: Product) -> Product:
        return jnp.where(active, signs * jnp.exp(jnp.minimum(logs, LOG_CAP)), 0.0)

    def velocity(t: Any, logs: Product, args: None) -> Product:
        return jnp.where(active, 2 * signs * force(loss, at(logs)), 0.0)

    def gone(beta: Product) -> Bool[Array, " p"]:
        return active & (jnp.abs(beta) < GONE) & (signs * force(loss, beta) < -PUSHED * unit)

    def further(progress: _Progress) -> _Progress:
        def at_rest(t: Any, logs: Product, args: None, **_: Any) -> Bool[Array, ""]:
            here = at(logs)
            return jnp.all(gone(here) | ~active | (jnp.abs(force(loss, here)) < levels[progress.level]))

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            diffrax.Tsit5(),
            t0=0.0,
            t1=jnp.inf,
            dt0=1e-2 / unit,
            y0=progress.logs,
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
            max_steps=max_steps,
            event=diffrax.Event(at_rest),
            throw=False,
        )
        assert solution.ys is not None
        logs = solution.ys[-1]
        here = at(logs)
        step, convex = _newton_step(loss, here, active & ~gone(here))
        return _Progress(logs, progress.level + 1, convex & jnp.all(jnp.abs(step) <= NEAR * jnp.abs(here)))

    start = _Progress(jnp.log(jnp.where(active, jnp.abs(beta), 1.0)), jnp.asarray(0), jnp.asarray(False))
    progress = lax.while_loop(lambda progress: ~progress.near & (progress.level < len(LEVELS)), further, start)
    end = at(progress.logs)
    left = gone(end)
    support = active & ~left
    end = jnp.where(support, end, 0.0)
    steps = jnp.where(progress.near, NEWTON, 0)
    end = lax.fori_loop(0, steps, lambda _, here: here + _newton_step(loss, here, support)[0], end)
    residual = jnp.max(jnp.abs(jnp.where(support, force(loss, end), 0.0)))
    return Transition(end, left, progress.near, residual)


@check_arguments
def hessian(loss: Loss, beta: Product) -> Float[Array, "p p"]:
    """The Hessian in beta, a few columns at a time: computing all at once would copy the data for each of them.

    Args:
        loss: Loss L as a function of beta.
        beta: The product beta. Shape (p,).
    """
    _, product = jax.linearize(jax.grad(loss), beta)
    return lax.map(product, jnp.eye(beta.size, dtype=beta.dtype), batch_size=COLUMNS)


@check_arguments
@eqx.filter_jit
def least_curvature(loss: Loss, beta: Product) -> Float[Array, ""]:
    """The least eigenvalue of the Hessian 4 D H D of u -> L(u, s * u) on the support of beta, where s are the signs, D
    is diag(s * u) and H the Hessian in beta. Balanced flow relaxes at half this rate.

    Args:
        loss: Loss L as a function of beta.
        beta: The product beta. Shape (p,).
    """
    support = beta != 0
    weight = jnp.sign(beta) * jnp.sqrt(jnp.abs(beta))
    curvature = 4 * weight[:, None] * hessian(loss, beta) * weight[None, :]
    pairs = support[:, None] & support[None, :]
    elsewhere = (jnp.sum(jnp.abs(curvature)) + 1) * jnp.eye(beta.size, dtype=beta.dtype)
    return jnp.linalg.eigvalsh(jnp.where(pairs, curvature, jnp.where(support[None, :], 0.0, elsewhere)))[0]


def _newton_step(loss: Loss, beta: Product, support: Bool[Array, " p"]) -> tuple[Product, Bool[Array, ""]]:
    """Newton's step toward force 0 on the support, and whether the loss is convex there."""
    pairs = support[:, None] & support[None, :]
    curvature = jnp.where(pairs, hessian(loss, beta), jnp.eye(beta.size, dtype=beta.dtype))
    step = jnp.linalg.solve(curvature, jnp.where(support, force(loss, beta), 0.0))
    return step, jnp.linalg.eigvalsh(curvature)[0] > 0


@check_arguments
def constrained_least_squares(
    S: Float[np.ndarray, "p p"], c: Float[np.ndarray, " p"], signs: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """The end of a transition for a quadratic loss in closed form: least squares on the active set with given signs.

    Args:
        S: Second moment of the inputs. Shape (p, p).
        c: Correlation of inputs and labels. Shape (p,).
        signs: Sign of each active coordinate, 0 elsewhere. Shape (p,).
    """
    active = np.flatnonzero(signs)
    factor = np.linalg.cholesky(S[np.ix_(active, active)]).T * signs[active]
    target = np.linalg.solve(np.linalg.cholesky(S[np.ix_(active, active)]), c[active])
    beta = np.zeros(len(c))
    beta[active] = signs[active] * scipy.optimize.nnls(factor, target)[0]
    return beta
