"""The linear stability of the other directions while the first one oscillates, from which eta (sigma_1^2 + sigma_2^2) <
2 follows.

"Simple structures in neural networks", Appendix B.10.2. Beside the oscillating block y = |u_1^T Y|, z = |u_1^T Z|,
small off-diagonal entries [(YY^T)_{p1}, (ZZ^T)_{1p}, M_{p1}, M_{1p}] of a quasi-symmetric factorization move by a 4 x 4
matrix. The product of the two matrices on the orbit decides whether they vanish. Arguments include the rate: `first`
is eta sigma_1^2 = K, `bulk` is eta sigma_p^2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.domains import NotNegative, NotNegativeNumber, Positive, PositiveNumber, check_arguments
from dynascope.theory.edge.quartic_orbit import normalized_orbit

BISECTIONS = 40
ROUNDING = 1e-7
"""A radius up to 1 + 1e-7 counts as 1: the neutral eigenvalues of the product may be defective."""


@check_arguments
def transition(y: Reals, z: Reals, first: Positive, bulk: NotNegative, alpha: Positive) -> Float[Array, "4 4"]:
    """The matrix of one step. With m = yz - K its rows are
    [1, 0, -(yz + m(1 - z^2)), -b]; [0, 1, -b, -(yz + m(1 - y^2))];
    [-m, 0, 1 - z^2 - b al^2 + yz m, 0]; [0, -m, 0, 1 - y^2 - b/al^2 + yz m].

    Args:
        y: |u_1^T Y| in units in which eta = 1. Any shape.
        z: |u_1^T Z| in the same units. Any shape.
        first: K = eta sigma_1^2. Positive, any shape.
        bulk: b = eta sigma_p^2. Not negative, any shape.
        alpha: Imbalance alpha of the minimum. Positive, any shape.
    """
    y, z, K, b, square = real(y), real(z), real(first), real(bulk), real(alpha) ** 2
    m, one, none = y * z - K, jnp.ones_like(y * z * K * b * square), jnp.zeros_like(y * z * K * b * square)
    rows = [
        [one, none, -(y * z + m * (1 - z**2)), -b],
        [none, one, -b, -(y * z + m * (1 - y**2))],
        [-m, none, 1 - z**2 - b * square + y * z * m, none],
        [none, -m, none, 1 - y**2 - b / square + y * z * m],
    ]
    return jnp.stack([jnp.stack([jnp.broadcast_to(entry, one.shape) for entry in row]) for row in rows])


@check_arguments
def eigenvalues_at_minimum(first: PositiveNumber, bulk: NotNegativeNumber, alpha: PositiveNumber) -> Float[Array, " 4"]:
    """{1, 1, 1 - K/al^2 - b al^2, 1 - K al^2 - b/al^2}, of the matrix at y = al sigma_1, z = sigma_1/al.

    Args:
        first: K = eta sigma_1^2. Positive.
        bulk: b = eta sigma_p^2. Not negative.
        alpha: Imbalance alpha of the minimum. Positive.
    """
    K, b, square = real(first), real(bulk), real(alpha) ** 2
    return jnp.stack([jnp.ones_like(K), jnp.ones_like(K), 1 - K / square - b * square, 1 - K * square - b / square])


@check_arguments
def orbit_transition(first: PositiveNumber, bulk: NotNegativeNumber, alpha: PositiveNumber) -> Float[Array, "4 4"]:
    """Q(d2) Q(d1): two steps on the orbit y = z = sigma_1 rho_i.

    Args:
        first: K = eta sigma_1^2. Positive.
        bulk: b = eta sigma_p^2. Not negative.
        alpha: Imbalance alpha of the minimum. Positive.
    """
    scale = jnp.sqrt(real(first))
    low, high = (transition(scale * rho, scale * rho, first, bulk, alpha) for rho in normalized_orbit(first))
    return jnp.matmul(high, low, precision="highest")


@check_arguments
def spectral_radius(first: PositiveNumber, bulk: NotNegativeNumber, alpha: PositiveNumber = 1.0) -> Float[Array, ""]:
    """The radius of Q(d2) Q(d1): up to 1 the other directions do not grow; above 1 they do.

    Args:
        first: K = eta sigma_1^2. Positive.
        bulk: b = eta sigma_p^2. Not negative.
        alpha: Imbalance alpha of the minimum. Positive. Default: 1.0.
    """
    return jnp.max(jnp.abs(jnp.linalg.eigvals(orbit_transition(first, bulk, alpha))))


@check_arguments
def critical_bulk(
    first: PositiveNumber, alpha: PositiveNumber = 1.0, highest: PositiveNumber = 2.0
) -> Float[Array, ""]:
    """The eta sigma_p^2 at which the radius first exceeds 1, by a grid and then bisection.

    At alpha = 1 it is 2 - K, the bound of Observation 1.

    Args:
        first: K = eta sigma_1^2. Positive.
        alpha: Imbalance alpha of the minimum. Positive. Default: 1.0.
        highest: End of the grid. Positive. Default: 2.0.
    """

    def grows(bulk: Array) -> Array:
        return spectral_radius(first, bulk, alpha) > 1 + ROUNDING

    grid = jnp.linspace(0, highest, 201)
    at = jnp.argmax(jax.vmap(grows)(grid))

    def halve(_: Array, ends: tuple[Values, Values]) -> tuple[Values, Values]:
        middle = (ends[0] + ends[1]) / 2
        out = grows(middle)
        return jnp.where(out, ends[0], middle), jnp.where(out, middle, ends[1])

    return lax.fori_loop(0, BISECTIONS, halve, (grid[jnp.maximum(at - 1, 0)], grid[at]))[1]
