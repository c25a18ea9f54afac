"""Losses of a linear model `f(x) = W x` on structured identity data, in population form.

"Dynamics of Concept Learning and Compositional Generalization", eq. (4.1): with the second moment `A = diag(a)`,
`L(W) = 1/2 ||(W - I) A^{1/2}||_F^2`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.compilation import as_one_program
from dynascope.theory.domains import check_arguments


@check_arguments
@as_one_program
def population_loss(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch"]:
    """`1/2 sum_ij a_j (w_ij - delta_ij)^2` (4.1), the training loss of an infinite sample.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    error = W - jnp.eye(W.shape[-1], dtype=W.dtype)
    return 0.5 * jnp.sum(a * error**2, axis=(-2, -1))


@check_arguments
@as_one_program
def out_of_distribution_loss(W: Float[Array, "*batch d d"], z: Float[Array, " d"]) -> Float[Array, "*batch"]:
    """`1/2 ||W z - z||^2` at a test point.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        z: Test point, in the paper the sum of all cluster means. Shape (d,).
    """
    return 0.5 * jnp.sum((jnp.sum(W * z, axis=-1) - z) ** 2, axis=-1)


@check_arguments
def combined_means(mu: Float[Array, " s"], dim: int) -> Float[Array, " d"]:
    """`xhat = sum_p mu_p 1_p`: every concept at once, a combination that no training cluster shows.

    Args:
        mu: Signals of the concepts. Shape (s,).
        dim: Dimension d of the point.
    """
    return jnp.pad(mu, (0, dim - mu.shape[0]))
