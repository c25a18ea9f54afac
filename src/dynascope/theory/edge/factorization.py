"""Matrix factorization above the threshold: the orbit of the sharpest direction, and conditions for stability of the
others.

"Simple structures in neural networks", Theorem B.3, Observations 1, 2 and 5, Appendix B.10.2. C has eigenvalues
sigma_1^2 > sigma_2^2 >= ..., K = eta sigma_1^2, and rho_i are the points of the orbit of the quartic with mu = 1 and
eta = K. (3.8) is in units of sigma_1; Observation 1 and Remark 4 omit that factor.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from dynascope.tasks.factorization import Factors, matmul
from dynascope.tasks.scalar_losses import Values, real
from dynascope.theory.domains import Keys, NotNegative, Positive, PositiveNumber, check_arguments
from dynascope.theory.edge.quartic_orbit import normalized_orbit

Pair = Annotated[Factors, Keys(("Y", "Z"))]


class TopDirection(NamedTuple):
    """The top eigenpair of the Hessian at a minimum Y Z^T = C, and the derivatives of the loss along it."""

    direction: Factors
    """The eigenvector, of norm 1, as `Y` and `Z`."""
    sharpness: Float[Array, ""]
    """Its eigenvalue. A scalar."""
    second: Float[Array, ""]
    """f''. A scalar."""
    third: Float[Array, ""]
    """f3. A scalar."""
    fourth: Float[Array, ""]
    """f4. A scalar."""
    flip_quantity: Float[Array, ""]
    """D = 96 s_y^2 s_z^2 c^2 / (s_y^2 + s_z^2)."""


@check_arguments
def top_direction(factors: Pair) -> TopDirection:
    """The top eigenvector ( s_z u_y v_z'^T, s_y v_y u_z'^T )/sqrt(s_y^2 + s_z^2) from the top singular triples of the
    factors, eigenvalue s_y^2 + s_z^2, and derivatives along it (Theorem B.3 with X = Y, Y = Z^T).

    Along it f'' = |A|^2, f3 = 6 <A, B>, f4 = 12 |B|^2 with A = dY Z^T + Y dZ^T, B = dY dZ^T, and D = 96 |A|^2 |B|^2 > 0
    unless the inner singular vectors are orthogonal.

    Args:
        factors: Factors `Y` (m, p) and `Z` (q, p).
    """
    Y, Z = factors["Y"], factors["Z"]
    (left_y, s_y, right_y), (left_z, s_z, right_z) = _top_triple(Y), _top_triple(Z)
    size = jnp.sqrt(s_y**2 + s_z**2)
    dY, dZ = s_z / size * jnp.outer(left_y, right_z), s_y / size * jnp.outer(left_z, right_y)
    A, B = matmul(dY, Z.T) + matmul(Y, dZ.T), matmul(dY, dZ.T)
    overlap = jnp.sum(right_y * right_z)
    return TopDirection(
        {"Y": dY, "Z": dZ},
        size**2,
        jnp.sum(A**2),
        6 * jnp.sum(A * B),
        12 * jnp.sum(B**2),
        96 * (s_y * s_z * overlap / size) ** 2,
    )


def _top_triple(matrix: Float[Array, "m p"]) -> tuple[Array, Array, Array]:
    left, sizes, right = jnp.linalg.svd(matrix, full_matrices=False)
    return left[:, 0], sizes[0], right[0]


@check_arguments
def flattest_sharpness(C: Float[Array, "m q"]) -> Float[Array, ""]:
    """2 sigma_1^2, the least of s_y^2 + s_z^2 over the minima (Remark 3).

    Args:
        C: The matrix to factorize. Shape (m, q).
    """
    return 2 * jnp.linalg.norm(C, ord=2)


@check_arguments
def orbit_sizes(sigma: Positive, K: Positive) -> Float[Array, "... 2"]:
    """r_i = sigma_1 rho_i: |u^T Y| = |u^T Z| on the orbit, for C with top eigenvalue sigma_1^2 (Observation 1).

    Args:
        sigma: sigma_1, the root of the top eigenvalue of C. Positive, any shape.
        K: K = eta sigma_1^2. Positive, any shape.
    """
    return real(sigma)[..., None] * jnp.stack(normalized_orbit(K), axis=-1)


@check_arguments
def orbit_losses(sigma: Positive, K: Positive) -> Float[Array, "... 2"]:
    """(r_i^2 - sigma_1^2)^2 / 2 on the orbit.

    Args:
        sigma: sigma_1, the root of the top eigenvalue of C. Positive, any shape.
        K: K = eta sigma_1^2. Positive, any shape.
    """
    return (orbit_sizes(sigma, K) ** 2 - real(sigma)[..., None] ** 2) ** 2 / 2


@check_arguments
def quasi_symmetric_limit(root: Float[Array, "d d"], alpha: PositiveNumber, rate: PositiveNumber) -> list[Factors]:
    """The two points of the limiting orbit (Observations 2 and 5), up to the size of the noise at the start:
    (alpha X0 + (rho_i - alpha) s1 u1 v1^T, X0/alpha + (rho_i - 1/alpha) s1 u1 v1^T) with X0 = sum_k s_k u_k v_k^T.

    Args:
        root: X0, a root of C. Shape (d, d).
        alpha: Imbalance alpha of the start. Positive.
        rate: Learning rate eta. Positive.
    """
    left, size, right = _top_triple(root)
    alpha = real(alpha)
    top = size * jnp.outer(left, right)
    return [
        {"Y": alpha * root + (rho - alpha) * top, "Z": root / alpha + (rho - 1 / alpha) * top}
        for rho in normalized_orbit(rate * size**2)
    ]


@check_arguments
def generic_condition(first: Positive, second: NotNegative) -> Bool[Array, " ..."]:
    """eta (sigma_1^2 + sigma_2^2) < 2 (Observation 1).

    Args:
        first: eta sigma_1^2. Positive, any shape.
        second: eta sigma_2^2. Not negative, any shape.
    """
    return real(first) + real(second) < 2


@check_arguments
def quasi_symmetric_condition(first: Positive, second: NotNegative, alpha: Positive) -> Bool[Array, " ..."]:
    """(3.9): eta max(s1^2/al^2 + s2^2 al^2, s2^2/al^2 + s1^2 al^2) <= 2, sufficient.

    Args:
        first: eta sigma_1^2. Positive, any shape.
        second: eta sigma_2^2. Not negative, any shape.
        alpha: Imbalance alpha of the start. Positive, any shape.
    """
    first, second, square = real(first), real(second), real(alpha) ** 2
    return jnp.maximum(first / square + second * square, second / square + first * square) <= 2


@check_arguments
def largest_bulk(first: Positive, alpha: Positive) -> Values:
    """The largest eta sigma_2^2 that (3.9) admits.

    Args:
        first: eta sigma_1^2. Positive, any shape.
        alpha: Imbalance alpha of the start. Positive, any shape.
    """
    first, square = real(first), real(alpha) ** 2
    return jnp.minimum((2 - first / square) / square, (2 - first * square) * square)


@check_arguments
def gram_difference_change(factors: Pair, C: Float[Array, "m q"], rate: PositiveNumber) -> Float[Array, "p p"]:
    """The change of Y^T Y - Z^T Z in a step, exactly: eta^2 (Z^T M^T M Z - Y^T M M^T Y), M = Y Z^T - C.

    Args:
        factors: Factors `Y` (m, p) and `Z` (q, p).
        C: The matrix to factorize. Shape (m, q).
        rate: Learning rate eta. Positive.
    """
    Y, Z = factors["Y"], factors["Z"]
    if C.shape != (len(Y), len(Z)):
        raise ValueError(f"C must have the shape {(len(Y), len(Z))} of Y Z^T; got {C.shape}")
    M = matmul(Y, Z.T) - C
    left, right = matmul(M, Z), matmul(M.T, Y)
    return real(rate) ** 2 * (matmul(left.T, left) - matmul(right.T, right))


@check_arguments
def extended_spectrum(
    strengths: Float[np.ndarray, " k"], couplings: Shaped[np.ndarray, "k k"]
) -> Float[np.ndarray, " k*k"]:
    """The eigenvalues of the Hessian of `tasks.separable.ExtendedLoss` with b = 0 at X = diag(sqrt(a)): 2 a_i, a_i +
    a_j for the coupled pairs, and 0.

    Args:
        strengths: The a_i. Shape (k,).
        couplings: Which pairs are coupled. Shape (k, k).
    """
    k = len(strengths)
    sums = np.add.outer(strengths, strengths)[np.triu(np.eye(k, dtype=bool) | (couplings != 0))]
    return np.sort(np.concatenate([sums, np.zeros(k * k - len(sums))]))


@check_arguments
def line_orbit(excess: NotNegative) -> Float[Array, "... 2"]:
    """The orbit of gradient descent along the top direction of a minimum, in units of 6 f''/f3.

    On this line the loss is (t + t^2)^2 / 2 up to a factor: the quartic, shifted.

    Args:
        excess: eta f'' - 2. Not negative, any shape.
    """
    return (jnp.stack(normalized_orbit(1 + real(excess) / 2), axis=-1) - 1) / 2
