"""The symmetric two-layer model `f(U; x) = U U^T x`: the dynamics of the entries of its Jacobian `W = U U^T`.

"Dynamics of Concept Learning and Compositional Generalization", Section 4.2 and Appendix D. The exact gradient of the
population loss (4.1) is `grad_U L = [(W - I) A + A (W - I)] U`, and gradient flow on `U` moves `W` by
`dW/dt = 2 (W A + A W) - (A W^2 + W^2 A + 2 W A W)`.

Clock: the paper's eq. (4.3) and (D.2) are half of this. Every `eta` and time here is in that *paper clock*. Gradient
descent on `U` with learning rate `h` on the gradient of (4.1) has `eta = 2 h`, so that `t = 2 h * steps`.

In the paper clock `dw_ij/dt = G_ij - S_ij - N_ij`: growth, suppression, noise.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.compilation import as_one_program
from dynascope.theory.domains import PositiveNumber, check_arguments


@check_arguments
def product(left: Float[Array, "*batch i k"], right: Float[Array, "*batch k j"]) -> Float[Array, "*batch i j"]:
    """The matrix product at full precision.

    Short sums are written out, which for batches of small matrices is ten times faster on a CPU than a library call
    each.

    Args:
        left: First factor. Shape (..., i, k).
        right: Second factor. Shape (..., k, j).
    """
    if left.shape[-1] > 8:
        return jnp.matmul(left, right, precision="highest")
    total = left[..., :, 0, None] * right[..., None, 0, :]
    for k in range(1, left.shape[-1]):
        total = total + left[..., :, k, None] * right[..., None, k, :]
    return total


@check_arguments
@as_one_program
def jacobian_of(U: Float[Array, "*batch d width"]) -> Float[Array, "*batch d d"]:
    """`W = U U^T`.

    Args:
        U: Factor `U`. Shape (..., d, width).
    """
    return product(U, jnp.swapaxes(U, -1, -2))


@check_arguments
@as_one_program
def gradient(U: Float[Array, "*batch d width"], a: Float[Array, " d"]) -> Float[Array, "*batch d width"]:
    """`grad_U L = [(W - I) A + A (W - I)] U`, the exact gradient of (4.1), no factor of any clock.

    Args:
        U: Factor `U`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    W = jacobian_of(U)
    return product((W - jnp.eye(W.shape[-1], dtype=W.dtype)) * (a[:, None] + a), U)


@check_arguments
def flow(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d d"]:
    """`dW/dt` of gradient flow on `U`, true clock: twice the paper's (4.3).

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    return 2 * velocity(W, a)


@check_arguments
@as_one_program
def velocity(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d d"]:
    """`dW/dt` in the paper clock, eq. (4.3): `W A + A W - 1/2 (A W^2 + W^2 A + 2 W A W)`.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    pair = a[:, None] + a
    return pair * W - 0.5 * pair * product(W, W) - product(W * a, W)


@check_arguments
@as_one_program
def growth(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d d"]:
    """`G_ij = w_ij (a_i + a_j)`, paper clock.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    return W * (a[:, None] + a)


@check_arguments
@as_one_program
def suppression(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d d"]:
    """`S_ij = 1/2 w_ij [w_ii (3 a_i + a_j) + 1{i != j} w_jj (3 a_j + a_i)]`, paper clock.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    own = jnp.diagonal(W, axis1=-2, axis2=-1)
    by_row = own[..., :, None] * (3 * a[:, None] + a)
    by_column = own[..., None, :] * (3 * a + a[:, None])
    off_diagonal = 1 - jnp.eye(W.shape[-1], dtype=W.dtype)
    return 0.5 * W * (by_row + off_diagonal * by_column)


@check_arguments
@as_one_program
def noise(W: Float[Array, "*batch d d"], a: Float[Array, " d"]) -> Float[Array, "*batch d d"]:
    """`N_ij = 1/2 sum_{k != i,j} w_ki w_kj (a_i + a_j + 2 a_k)`, paper clock.

    With `V` = `W` without its diagonal, `N = 1/2 [(a_i + a_j) o (V^T V) + 2 V^T A V]`.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    V = W * (1 - jnp.eye(W.shape[-1], dtype=W.dtype))
    V_transposed = jnp.swapaxes(V, -1, -2)
    return 0.5 * (a[:, None] + a) * product(V_transposed, V) + product(V_transposed * a, V)


@check_arguments
def jacobian_euler(
    W: Float[Array, "*batch d d"], a: Float[Array, " d"], eta: PositiveNumber
) -> Float[Array, "*batch d d"]:
    """The next `W` of the paper's discrete system (D.1), `W + eta (G - S - N)`.

    It omits the `dropped_term` of gradient descent on `U`, so it does not keep `W` positive semi-definite.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
    """
    return W + eta * velocity(W, a)


@check_arguments
def factor_gd(
    U: Float[Array, "*batch d width"], a: Float[Array, " d"], eta: PositiveNumber
) -> Float[Array, "*batch d width"]:
    """The next `U` of gradient descent, `U - (eta/2) grad_U L`.

    Args:
        U: Factor `U`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
    """
    return U - 0.5 * eta * gradient(U, a)


@check_arguments
def dropped_term(
    U: Float[Array, "*batch d width"], a: Float[Array, " d"], eta: PositiveNumber
) -> Float[Array, "*batch d d"]:
    """`(eta/4) grad_U L (grad_U L)^T`: the exact difference of `(W+ - W)/eta` of `factor_gd` from `G - S - N`.

    Args:
        U: Factor `U`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
    """
    step = gradient(U, a)
    return 0.25 * eta * product(step, jnp.swapaxes(step, -1, -2))
