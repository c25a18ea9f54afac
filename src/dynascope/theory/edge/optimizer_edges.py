"""The sharpness at which optimizers lose stability on a quadratic.

On a quadratic of curvature S along an eigenvector, the step of each optimizer is a linear map of the weight and the
optimizer's memory. Its spectral radius exceeds 1 above these values of S: gradient descent, heavy ball and Nesterov
(Cohen et al. 2021, Gradient descent on neural networks typically occurs at the edge of stability, (1)), and RMSProp
and Adam with their preconditioner P held fixed, where S is the curvature of P^(-1/2) H P^(-1/2) (Cohen et al. 2022,
Adaptive gradient methods at the edge of stability). In all of them an eigenvalue passes -1, so that the weight
alternates. Momentum here multiplies the sum of all past gradients (`optax.sgd`), in Adam it is their average.

SGD holds another quantity at 2/rate, the batch sharpness E[g.Hg] / E|g|^2, with g and H of the same batch: there a
step leaves the loss of its own batch unchanged on average, to second order (Andreyev and Beneventano 2024, Edge of
stochastic stability).
"""

from __future__ import annotations

from typing import Annotated

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.domains import Domain, Positive, check_arguments

Momentum = Annotated[Reals, Domain("from 0 to below 1", lambda x: (x >= 0) & (x < 1))]


@check_arguments
def gradient_descent(rate: Positive) -> Values:
    """2/eta; for RMSProp, a value of the preconditioned sharpness.

    Args:
        rate: Learning rate eta. Positive, any shape.
    """
    return 2 / real(rate)


@check_arguments
def heavy_ball(rate: Positive, momentum: Momentum) -> Values:
    """(2 + 2 beta)/eta.

    Args:
        rate: Learning rate eta. Positive, any shape.
        momentum: beta, from 0 to below 1. Any shape.
    """
    return (2 + 2 * real(momentum)) / real(rate)


@check_arguments
def nesterov(rate: Positive, momentum: Momentum) -> Values:
    """(2 + 2 beta)/(eta (1 + 2 beta)).

    Args:
        rate: Learning rate eta. Positive, any shape.
        momentum: beta, from 0 to below 1. Any shape.
    """
    return (2 + 2 * real(momentum)) / (real(rate) * (1 + 2 * real(momentum)))


@check_arguments
def adam(rate: Positive, momentum: Momentum) -> Values:
    """(2 + 2 beta_1)/((1 - beta_1) eta), of the preconditioned sharpness; with beta_1 = 0 that of RMSProp.

    Args:
        rate: Learning rate eta. Positive, any shape.
        momentum: beta_1, from 0 to below 1. Any shape.
    """
    return (2 + 2 * real(momentum)) / ((1 - real(momentum)) * real(rate))
