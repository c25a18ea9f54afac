"""The Hessian of a loss, through its products with vectors; and the gradient of its top eigenvalue.

A loss is any `loss(params)` with a scalar value; params are any pytree. Its floating-point leaves are differentiated,
laid end to end as one flat vector (the order of `jax.tree.leaves`). The second derivative of a ReLU is 0 everywhere, as
in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from dynascope import checks

Loss = Callable[[Any], Any]
Vector = Float[Array, " n"]
Product = Callable[[Vector], Vector]


class Flat(NamedTuple):
    """A loss as a function of one vector."""

    objective: Callable[[Vector], Float[Array, ""]]
    point: Vector
    unflatten: Callable[[Vector], PyTree]
    """A vector as parameters; leaves that are not floating-point stay as they were."""


def flatten(loss: Loss, params: PyTree, name: str = "loss") -> Flat:
    """The loss as a function of one vector, and params as that vector (n,), at least in single precision. Errors call
    the loss by its `name`."""
    checks.function(name, loss, f"{name}(params)")
    checks.not_torch("params", params)
    floating, rest = eqx.partition(params, eqx.is_inexact_array)
    floating = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype.itemsize < 4 else leaf, floating)
    point, unravel = ravel_pytree(floating)
    if not jnp.issubdtype(point.dtype, jnp.floating) or point.size == 0:
        got = f"{point.size} numbers of {point.dtype} in a {type(params).__name__}"
        raise TypeError(f"params must hold arrays of real floating-point numbers; got {got}")

    def unflatten(vector: Vector) -> PyTree:
        return eqx.combine(unravel(vector), rest)

    return Flat(lambda vector: checks.scalar(name, loss(unflatten(vector))), point, unflatten)


def linearize_gradient(objective: Callable[[Vector], Any], point: Vector) -> tuple[Vector, Product]:
    """The gradient at a point, and v -> Hv there.

    Forward over reverse (Pearlmutter 1994, Fast exact multiplication by the Hessian). Values that do not depend on v
    are computed once and kept, so a product costs about two gradients less the forward pass.
    """
    return jax.linearize(jax.grad(objective), point)


@checks.converts
def hessian_vector_product(loss: Loss, params: PyTree, vector: PyTree) -> PyTree:
    """The product Hv of the Hessian of a loss with a vector.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.
        vector: v, flat `(n,)` or in the structure of `params` (its floating-point leaves).

    Returns:
        Hv, in the form of `vector`.
    """
    flat = flatten(loss, params)
    given = vector if eqx.is_array(vector) and vector.shape == flat.point.shape else None
    v = given if given is not None else ravel_pytree(eqx.filter(vector, eqx.is_inexact_array))[0]
    if v.shape != flat.point.shape:
        raise ValueError(f"vector must have {flat.point.size} entries, as the parameters; got {v.size}")
    _, image = jax.jvp(jax.grad(flat.objective), (flat.point,), (v.astype(flat.point.dtype),))
    return image if given is not None else flat.unflatten(image)


@checks.converts
def dense_hessian(loss: Loss, params: PyTree) -> Float[Array, "n n"]:
    """The whole Hessian, for small problems.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.

    Returns:
        The symmetric matrix `(n, n)`, in the flat order of the parameters.
    """
    flat = flatten(loss, params)
    _, product = linearize_gradient(flat.objective, flat.point)
    matrix = jax.vmap(product)(jnp.eye(flat.point.size, dtype=flat.point.dtype))
    return (matrix + matrix.T) / 2


@checks.converts
@eqx.filter_jit
def sharpness_gradient(loss: Loss, params: PyTree, vector: Float[Array, " n"]) -> PyTree:
    """The gradient of an eigenvalue of the Hessian: d/dtheta of v^T H(theta) v with v held, which is grad^3 L [v, v].

    It is the gradient of the eigenvalue as long as that is simple (Hellmann-Feynman); if two eigenvalues meet there is
    none. An error of angle a in v makes one of order a.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.
        vector: The unit eigenvector v, flat `(n,)`.

    Returns:
        The gradient, in the structure of `params`.
    """
    flat = flatten(loss, params)
    if checks.array("vector", vector, ndim=1).shape != flat.point.shape:
        raise ValueError(f"vector must have {flat.point.size} entries, as the parameters; got {vector.size}")

    def along(point: Vector) -> Any:
        return jax.jvp(flat.objective, (point,), (vector,))[1]

    def curvature(point: Vector) -> Any:
        return jax.jvp(along, (point,), (vector,))[1]

    return flat.unflatten(jax.grad(curvature)(flat.point))
