"""Models that are quadratic in their weights, on any data: exact recursions of residual and kernel.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", (3.15-3.16), Appendix B.13. The outputs have
Jacobian J (n x p) and constant Hessians H_i. One step of gradient descent on 1/2 |r|^2 (convention "sum") at rate eta
moves the weights by -eta J^T r, so that with G_i = H_i J^T r (rows in R^p)

    J' = J - eta G,    r' = (I - eta K + eta^2/2 G J^T) r,    K' = K - eta (G J^T + J G^T) + eta^2 G G^T.

The document's (3.16) has only half of the second term and a quarter of the last.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.catapult import quadratic_model
from dynascope.theory.catapult.quadratic_model import State
from dynascope.theory.domains import Positive, PositiveNumber, check_arguments

Jacobian = Float[Array, "n p"]
Kernel = Float[Array, "n n"]
Residual = Float[Array, " n"]


@check_arguments
def jacobian_change(jacobian: Jacobian, hessians: Float[Array, "n p p"], residual: Residual) -> Jacobian:
    """G_i = H_i J^T r: the change of the gradient of each output in the direction of the step.

    Args:
        jacobian: Jacobian J of the outputs. Shape (n, p).
        hessians: Hessians H_i of the outputs. Shape (n, p, p).
        residual: Residuals r. Shape (n,).
    """
    return jnp.einsum("ijk,k->ij", hessians, jacobian.T @ residual)


class Remainders(NamedTuple):
    """The effect of a step beyond the linear model: r' = (I - eta K + R_f) r and K' = K - R_K."""

    residual: Kernel
    """R_f = eta^2/2 G J^T."""
    kernel: Kernel
    """R_K = eta (G J^T + J G^T) - eta^2 G G^T."""


@check_arguments
def remainders(jacobian: Jacobian, change: Jacobian, rate: PositiveNumber) -> Remainders:
    """R_f and R_K.

    Args:
        jacobian: Jacobian J of the outputs. Shape (n, p).
        change: G, as from `jacobian_change`. Shape (n, p).
        rate: Learning rate eta. Positive.
    """
    eta, cross = real(rate), change @ jacobian.T
    return Remainders(eta**2 / 2 * cross, eta * (cross + cross.T) - eta**2 * change @ change.T)


@check_arguments
def step(
    residual: Residual, jacobian: Jacobian, hessians: Float[Array, "n p p"], rate: PositiveNumber
) -> tuple[Residual, Jacobian]:
    """The residual and the Jacobian after a step.

    Args:
        residual: Residuals r. Shape (n,).
        jacobian: Jacobian J of the outputs. Shape (n, p).
        hessians: Hessians H_i of the outputs. Shape (n, p, p).
        rate: Learning rate eta. Positive.
    """
    G, eta = jacobian_change(jacobian, hessians, residual), real(rate)
    beyond = remainders(jacobian, G, eta).residual
    after = residual - eta * jacobian @ (jacobian.T @ residual) + beyond @ residual
    return after, jacobian - eta * G


class TopDirection(NamedTuple):
    """The effect of a step on the kernel's top eigendirection p_1."""

    multiplier: Values
    """<p_1, r'>/<p_1, r>."""
    residual: Values
    """p_1^T R_f p_1: the excess of the multiplier over 1 - eta lambda_1."""
    kernel: Values
    """p_1^T R_K p_1: the decrease of the kernel along p_1."""


@check_arguments
def top_direction(
    residual: Residual, after: Residual, kernel: Kernel, kernel_after: Kernel, rate: PositiveNumber
) -> TopDirection:
    """Both remainders along p_1, from two consecutive residuals and kernels; this also works for networks.

    p_1^T R_f p_1 is exact if the residual lies along p_1, and good if it nearly does.

    Args:
        residual: Residuals r. Shape (n,).
        after: Residuals after the step. Shape (n,).
        kernel: Kernel K. Shape (n, n).
        kernel_after: Kernel after the step. Shape (n, n).
        rate: Learning rate eta. Positive.
    """
    eigenvalues, vectors = jnp.linalg.eigh(kernel)
    top = vectors[:, -1]
    multiplier = (top @ after) / (top @ residual)
    return TopDirection(multiplier, multiplier - 1 + real(rate) * eigenvalues[-1], top @ (kernel - kernel_after) @ top)


@check_arguments
def pure_step(state: State, rate: Positive, gamma: Reals, squared_norm: Positive) -> State:
    """The next state by Proposition B.13.1, corrected: g = gamma/2 w^T Sigma w without linear term or label, and
    Sigma^2 = |x|^2 I (or only Sigma^3 = |x|^2 Sigma, as for a two-layer linear network):

        g' = (1 - eta lambda + gamma^2 eta^2 |x|^2 g^2) g,    lambda' = lambda - eta gamma^2 |x|^2 g^2 (4 - eta lambda).

    gamma^2 |x|^2 plays the role of c = |x|^2/(md), and gamma^2 that of 1/m, one over the width.

    Args:
        state: Output g, as `residual`, and lambda.
        rate: Learning rate eta. Positive, any shape.
        gamma: Factor gamma of the model. Any shape.
        squared_norm: |x|^2. Positive, any shape.
    """
    return quadratic_model.step(state, rate, 0.0, real(gamma) ** 2 * real(squared_norm))
