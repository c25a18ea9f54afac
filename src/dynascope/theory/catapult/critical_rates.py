"""Learning rates at which a direction of the tangent kernel turns unstable, in two normalizations of the squared loss.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", (3.7), Remark 4.3.2, (4.3), (4.4),
Lemma 4.2.2, (C.1). With K the n x n tangent kernel and r = f - y, gradient descent on a model that is linear in its
weights is

    convention "sum", L = 1/2 sum r_i^2:    r <- (I - eta K) r,        critical rate 2 / lambda_max;
    convention "mse", L = 1/n sum r_i^2:    r <- (I - 2 eta K/n) r,    critical rate n / lambda_max.

A rate has no meaning without its normalization, so every function that takes or returns one has `convention=`. Chapter
3 writes its text in "sum" units and draws its figures in "mse" units: eta_mse = (n/2) eta_sum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dynascope.geometry.kernel_spectrum import Convention, slope
from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.domains import NotNegative, Positive, PositiveNumber, check_arguments

QUADRATIC_REACH = 2.0
"""The largest rate at which a quadratic model converges, over the critical one (Theorems 3.3.1 and B.7.1)."""


@check_arguments
def critical_rate(top: NotNegative, count: int, convention: Convention) -> Values:
    """2 / (s lambda_max): above it the top direction of the kernel grows.

    Args:
        top: Largest eigenvalue of the kernel, for a batch of its own kernel. Not negative, any shape.
        count: Number of examples n, or the size of the batch.
        convention: Normalization of the squared loss, "sum" or "mse".
    """
    return 2 / (slope(count, convention) * real(top))


@check_arguments
def largest_rate(
    top: NotNegative, count: int, convention: Convention, reach: PositiveNumber = QUADRATIC_REACH
) -> Values:
    """The rate beyond which training diverges: twice the critical rate for quadratic models.

    Args:
        top: Largest eigenvalue of the kernel. Not negative, any shape.
        count: Number of examples n.
        convention: Normalization of the squared loss, "sum" or "mse".
        reach: The largest rate over the critical one. Positive. Default: QUADRATIC_REACH.
    """
    return reach * critical_rate(top, count, convention)


@check_arguments
def convert(rate: Positive, count: int, convention: Convention, to: Convention) -> Values:
    """The rate that makes the same step on the other loss.

    Args:
        rate: Learning rate eta. Positive, any shape.
        count: Number of examples n.
        convention: Normalization that the rate is given in.
        to: Normalization of the result.
    """
    return real(rate) * slope(count, convention) / slope(count, to)


@check_arguments
def multipliers(eigenvalues: Reals, rate: Positive, count: int, convention: Convention) -> Values:
    """|1 - s eta lambda_j|: the factor of the residual per step in each direction while the kernel does not change.

    Args:
        eigenvalues: Eigenvalues of the kernel. Any shape.
        rate: Learning rate eta. Positive, any shape.
        count: Number of examples n.
        convention: Normalization of the squared loss, "sum" or "mse".
    """
    return jnp.abs(1 - slope(count, convention) * real(rate) * real(eigenvalues))


@check_arguments
def unstable_count(
    eigenvalues: Float[Array, "*batch n"], rate: PositiveNumber, count: int, convention: Convention
) -> Int[Array, " ..."]:
    """How many directions can catapult: those whose own critical rate is below the rate, s eta lambda > 2.

    (Not |1 - s eta lambda| > 1, which would count the zero eigenvalues that are computed a little below 0.)

    Args:
        eigenvalues: Eigenvalues of the kernel. Shape (..., n).
        rate: Learning rate eta. Positive.
        count: Number of examples n.
        convention: Normalization of the squared loss, "sum" or "mse".
    """
    return jnp.sum(slope(count, convention) * real(rate) * real(eigenvalues) > 2, axis=-1)


@check_arguments
def linear_residual(
    kernel: Float[Array, "n n"],
    residual: Float[Array, " n"],
    rate: PositiveNumber,
    steps: Int[Array, " t"],
    convention: Convention,
) -> Float[Array, "t n"]:
    """r_t = (I - s eta K)^t r_0 (3.7).

    Args:
        kernel: Tangent kernel K. Shape (n, n).
        residual: Residuals r_0. Shape (n,).
        rate: Learning rate eta. Positive.
        steps: The steps t. Shape (t,).
        convention: Normalization of the squared loss, "sum" or "mse".
    """
    eigenvalues, vectors = jnp.linalg.eigh(kernel)
    factors = 1 - slope(residual.shape[0], convention) * real(rate) * eigenvalues
    powers = jnp.abs(factors) ** steps[:, None].astype(factors.dtype)
    signed = jnp.where((steps[:, None] % 2 == 1) & (factors < 0), -powers, powers)
    return (signed * (vectors.T @ residual)) @ vectors.T


class HessianSplit(NamedTuple):
    """The Hessian of the mean squared error, (2/n) J^T J + (2/n) sum_i r_i H_i."""

    gauss_newton: Float[Array, "p p"]
    """(2/n) J^T J."""
    curvature: Float[Array, "p p"]
    """(2/n) sum_i r_i H_i, of order 1/sqrt(width) at the start of a wide network, so that 2/sharpness is near
    n/lambda_max(K). Shape (p, p)."""


@check_arguments
def hessian_split(
    jacobian: Float[Array, "n p"], hessians: Float[Array, "n p p"], residual: Float[Array, " n"]
) -> HessianSplit:
    """(C.1), from the model's own first and second derivatives.

    Args:
        jacobian: First derivatives of the outputs. Shape (n, p).
        hessians: Second derivatives of the outputs. Shape (n, p, p).
        residual: Residuals r = f - y. Shape (n,).
    """
    scale = 2 / residual.shape[0]
    return HessianSplit(scale * jacobian.T @ jacobian, scale * jnp.einsum("i,ijk->jk", residual, hessians))


@check_arguments
def descent_bound(loss: NotNegative, squared_gradient: NotNegative, rate: Positive, smoothness: NotNegative) -> Values:
    """L - eta (1 - eta beta/2) |grad L|^2, which bounds the next loss (Lemma 4.2.2).

    Args:
        loss: The loss L. Not negative, any shape.
        squared_gradient: |grad L|^2. Not negative, any shape.
        rate: Learning rate eta. Positive, any shape.
        smoothness: beta, a bound on the Hessian along the step. Not negative, any shape.
    """
    rate = real(rate)
    return real(loss) - rate * (1 - rate * smoothness / 2) * squared_gradient


@check_arguments
def beyond_linear(
    kernel: Float[Array, "n n"],
    residual: Float[Array, " n"],
    after: Float[Array, " n"],
    rate: PositiveNumber,
    convention: Convention,
) -> Float[Array, " n"]:
    """The Delta of (4.3): the difference of the next residual from (I - s eta K) r.

    For outputs with Hessians H_i it is 1/2 dw^T H_i dw at some point of the step (the document drops the 1/2).

    Args:
        kernel: Tangent kernel K. Shape (n, n).
        residual: Residuals r = f - y. Shape (n,).
        after: Residuals after the step. Shape (n,).
        rate: Learning rate eta. Positive.
        convention: Normalization of the squared loss, "sum" or "mse".
    """
    return after - (residual - slope(residual.shape[0], convention) * real(rate) * kernel @ residual)


@check_arguments
def batch_critical_rate(
    kernel: Float[Array, "n n"], rows: Int[Array, " b"], convention: Convention = "mse"
) -> Float[Array, ""]:
    """The critical rate of a batch: b / lambda_max of the kernel's rows and columns in it (4.4).

    Args:
        kernel: Tangent kernel K. Shape (n, n).
        rows: Examples of the batch, as rows of the kernel. Shape (b,).
        convention: Normalization of the squared loss, "sum" or "mse". Default: "mse".
    """
    top = jnp.linalg.eigvalsh(kernel[rows][:, rows])[-1]
    return critical_rate(top, rows.shape[0], convention)


@check_arguments
def can_rise(
    kernel: Float[Array, "n n"], rows: Int[Array, " b"], rate: PositiveNumber, convention: Convention = "mse"
) -> Bool[Array, ""]:
    """Whether a step on the batch can raise the loss of the same batch, in a linear model: only above its critical
    rate.

    The loss on all the data can rise for other reasons.

    Args:
        kernel: Tangent kernel K. Shape (n, n).
        rows: Examples of the batch, as rows of the kernel. Shape (b,).
        rate: Learning rate eta. Positive.
        convention: Normalization of the squared loss, "sum" or "mse". Default: "mse".
    """
    return real(rate) > batch_critical_rate(kernel, rows, convention)
