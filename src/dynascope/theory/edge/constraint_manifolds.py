"""The manifolds M and M_c, to which trajectories should be confined, for products fitted to 1.

"Simple structures in neural networks", Section 3.6.3, Propositions 5-7, Definition 4. With u the top eigenvector of the
Hessian, M = {lambda < 2/eta, grad L . u = 0} (Damian et al.), and M_c the same with the second eigenvalue in place of
lambda. The propositions are about minimizers: among those of (xy - 1)^2/2, M is {xy = 1, x + y < sqrt(2 + 2/eta)},
empty for eta >= 1, and M_c is all of {xy = 1}. By the literal definition both sets hold further points (see
`in_manifold`).
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from dynascope.tasks.products import ProductLoss
from dynascope.tasks.scalar_losses import real
from dynascope.theory.domains import NotNegativeNumber, Positive, PositiveNumber, check_arguments

Which = Literal["M", "M_c"]

LEAST_SHARPNESS = 2.0
"""The least of (2/n) sum_i 1/x_i^2 over prod x = 1, at x = (1, ..., 1), for every number of factors n (Proposition 7).
So M holds no minimizer for eta > 1."""
GRID = 4001
NEWTON_STEPS = 30


@check_arguments
def in_manifold(
    factors: Float[Array, " n"],
    rate: PositiveNumber,
    which: Which = "M",
    tolerance: NotNegativeNumber = 1e-9,
    task: ProductLoss | None = None,
    minimizers_only: bool = True,
) -> Bool[Array, ""]:
    """Whether a point lies on the manifold.

    Args:
        factors: The point. Shape (n,).
        rate: Learning rate eta. Positive.
        which: The manifold. Default: "M".
        tolerance: Largest entry of the gradient that counts as 0. Not negative. Default: 1e-09.
        task: The loss. Default: `ProductLoss()`, a product fitted to 1.
        minimizers_only: False admits grad L . u = 0, as printed, such as x = y < 1/sqrt(2) at small eta. Default: True.
    """
    task, factors = task or ProductLoss(), jnp.asarray(factors)
    values, vectors = jnp.linalg.eigh(task.hessian(factors))
    gradient = task.gradient(factors)
    flat = values[-1 if which == "M" else -2] < 2 / real(rate)
    still = jnp.max(jnp.abs(gradient)) if minimizers_only else jnp.abs(jnp.sum(gradient * vectors[:, -1]))
    return flat & (still <= tolerance)


@check_arguments
def on_hyperbola(x: Positive, rate: Positive) -> Bool[Array, " ..."]:
    """Whether (x, 1/x) lies on M: x + 1/x < sqrt(2 + 2/eta).

    Args:
        x: First factor. Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    return real(x) + 1 / real(x) < jnp.sqrt(2 + 2 / real(rate))


@check_arguments
def extent(rate: Positive) -> Float[Array, " 2"]:
    """The end points in x of M on xy = 1: x + 1/x = sqrt(2 + 2/eta); nan for eta > 1, when M has no minimizer.

    Args:
        rate: Learning rate eta. Positive, any shape.
    """
    total = jnp.sqrt(2 + 2 / real(rate))
    spread = jnp.sqrt(total**2 - 4)
    return jnp.stack([(total - spread) / 2, (total + spread) / 2])


@check_arguments
def project(factors: Float[Array, " 2"], rate: PositiveNumber, which: Which = "M") -> Float[Array, " 2"]:
    """The nearest point of the closure of the manifold on xy = 1 (x > 0); nan if M has none (eta > 1).

    Args:
        factors: The point to project. Shape (2,).
        rate: Learning rate eta. Positive.
        which: The manifold. Default: "M".
    """
    if which == "M_c":
        reach = jnp.max(jnp.abs(factors)) + 2
        return _nearest(factors, jnp.stack([1 / reach, reach]))
    return _nearest(factors, extent(rate))


def _nearest(factors: Float[Array, " 2"], ends: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """The nearest (x, 1/x) with x between the ends: the best of a grid, then Newton's method on the derivative of half
    the squared distance in s = ln x, (e^s - a) e^s - (e^-s - b) e^-s, held to one cell of the grid either side."""
    a, b = factors
    low, high = jnp.log(ends)
    grid = jnp.linspace(low, high, GRID)
    cell = (high - low) / (GRID - 1)

    def distance(s: Array) -> Array:
        return (jnp.exp(s) - a) ** 2 + (jnp.exp(-s) - b) ** 2

    best = grid[jnp.argmin(distance(grid))]
    left, right = jnp.maximum(best - cell, low), jnp.minimum(best + cell, high)

    def newton(_: Array, s: Array) -> Array:
        x, y = jnp.exp(s), jnp.exp(-s)
        slope, bend = (x - a) * x - (y - b) * y, 2 * x**2 - a * x + 2 * y**2 - b * y
        return jnp.clip(s - jnp.where(bend > 0, slope / bend, jnp.sign(slope) * cell), left, right)

    s = lax.fori_loop(0, NEWTON_STEPS, newton, best)
    return jnp.stack([jnp.exp(s), jnp.exp(-s)])
