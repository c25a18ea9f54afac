"""How alike two representations of the same examples are."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks


def linear_cka(x: Float[Array, "n ..."], y: Float[Array, "m ..."]) -> Float[Array, ""]:
    """Linear centered kernel alignment, between 0 and 1 (Kornblith et al. 2019).

    It does not change under rotations and scalings of either representation. NaN if one of them is constant.

    Args:
        x: A representation of n examples, `(n, ...)`; axes after the first are laid end to end.
        y: Another representation of the same examples, of any width.

    Returns:
        ‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖) of the centered representations, in Frobenius norms.
    """
    a, b = (_centered(checks.array(name, value, min_ndim=2)) for name, value in (("x", x), ("y", y)))
    if len(a) != len(b):
        raise ValueError(f"x and y must have one row for each example; got {len(a)} and {len(b)} rows")
    if len(a) < min(a.shape[1], b.shape[1]):  # n x n matrices are smaller
        left, right = a @ a.T, b @ b.T
        return jnp.sum(left * right) / (jnp.linalg.norm(left) * jnp.linalg.norm(right))
    return jnp.sum((a.T @ b) ** 2) / (jnp.linalg.norm(a.T @ a) * jnp.linalg.norm(b.T @ b))


def _centered(values: Array) -> Array:
    flat = jnp.reshape(jnp.asarray(values), (len(values), -1))
    flat = flat - jnp.mean(flat, axis=0)
    size = jnp.max(jnp.abs(flat))
    return flat / jnp.where(size > 0, size, jnp.nan)  # fourth powers stay within range
