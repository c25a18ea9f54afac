"""A loss in the coordinates in which an adaptive optimizer descends it by gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.hessian import Loss, Vector, flatten


class _Preconditioned(eqx.Module):
    """The loss as a function of z, at the parameters theta + z / sqrt(P)."""

    loss: Loss
    params: PyTree
    root: Vector
    """1 / sqrt(P)."""

    def __call__(self, z: Vector) -> Array:
        flat = flatten(self.loss, self.params)
        return flat.objective(flat.point + self.root * z)


@checks.converts
def precondition(loss: Callable[[Any], Any], params: PyTree, preconditioner: PyTree) -> tuple[Loss, Float[Array, " n"]]:
    """A loss in coordinates in which the steps of an adaptive optimizer are those of gradient descent.

    An optimizer that divides gradients by P > 0, entry by entry, is gradient descent on z = sqrt(P) (theta - params).
    In z the gradient is P^(-1/2) g and the Hessian P^(-1/2) H P^(-1/2), with the eigenvalues of H/P. Pass the pair
    on: `top_eigenpairs(*precondition(loss, params, preconditioner))`.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.
        preconditioner: P, positive; flat `(n,)` or in the structure of `params` (its floating-point leaves).

    Returns:
        The loss as a function of z, and the z of these parameters: zeros `(n,)`.
    """
    point = flatten(loss, params).point
    given = isinstance(preconditioner, np.ndarray) or eqx.is_array(preconditioner)
    tree = preconditioner if given else eqx.filter(preconditioner, eqx.is_inexact_array)
    diagonal = jnp.asarray(ravel_pytree(tree)[0], point.dtype)
    if diagonal.shape != point.shape:
        raise ValueError(f"preconditioner must have {point.size} entries, as the parameters; got {diagonal.size}")
    return _Preconditioned(loss, params, 1 / jnp.sqrt(diagonal)), jnp.zeros_like(point)
