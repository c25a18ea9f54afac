"""The semidefinite complementarity problem of a central flow: which oscillation keeps curvatures at the edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def complementary(
    excess: Float[Array, "k k"], response: Float[Array, "k k k k"], tolerance: float = 1e-9, max_iterations: int = 50
) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The X >= 0 with M X - A >= 0 and <X, M X - A> = 0, for an excess A and a response M; and the residual left.

    For k = 1 this is X = max(0, A/M). With A = -h eta <grad S, grad L> (the growth of a sharpness S at the edge) and M
    = h eta/2 |grad S|^2 it is X = max(0, <grad S, -grad L> / (1/2 |grad S|^2)).

    In general, X = Y+ and M X - A = (-Y)+ for one symmetric Y, + being the projection on the positive matrices: the two
    are then complementary by themselves, and M Y+ - (-Y)+ = A is left to solve. That equation is smooth except where an
    eigenvalue of Y is 0; Newton's method, with the best of a few fractions of its step, takes some five iterations.
    """
    k = excess.shape[0]
    basis = _symmetric_basis(k, excess.dtype)
    size = jnp.einsum("aij,ijkl,akl->", basis, response, basis) / basis.shape[0]
    scale = jnp.where(size > 0, size, 1)  # X is solved for in units in which M is about 1
    identity = jnp.eye(basis.shape[0], dtype=excess.dtype)
    matrix = jnp.einsum("aij,ijkl,bkl->ab", basis, response / scale, basis) + 1e-10 * identity
    target = jnp.einsum("aij,ij->a", basis, excess)
    goal = tolerance * (jnp.linalg.norm(target) + jnp.finfo(excess.dtype).tiny)

    def spectrum(y: Array) -> tuple[Array, Array]:
        return jnp.linalg.eigh(jnp.einsum("a,aij->ij", y, basis))

    def positive(y: Array) -> Array:
        values, q = spectrum(y)
        return jnp.einsum("aij,ik,k,jk->a", basis, q, jnp.maximum(values, 0), q)

    def miss(y: Array) -> Array:
        return matrix @ positive(y) - (positive(y) - y) - target  # (-Y)+ = Y+ - Y

    def newton(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, off, count = carry
        values, q = spectrum(y)
        turned = jnp.einsum("ki,akl,lj->aij", q, basis, q)
        # the derivative of Y+ in Y's eigenbasis: (l_i+ - l_j+) / (l_i - l_j), entry by entry (Loewner)
        gaps = values[:, None] - values[None, :]
        level = (values > 0).astype(y.dtype)[:, None] * jnp.ones_like(gaps)
        steps = jnp.maximum(values, 0)[:, None] - jnp.maximum(values, 0)[None, :]
        slopes = jnp.where(jnp.abs(gaps) > 1e-14, steps / jnp.where(gaps == 0, 1, gaps), level)
        projector = jnp.einsum("aij,ij,bij->ab", turned, slopes, turned)
        step = jnp.linalg.solve((matrix - identity) @ projector + identity, -off)
        tries = y + 0.4 ** jnp.arange(6, dtype=y.dtype)[:, None] * step
        misses = jax.vmap(miss)(tries)
        sizes = jnp.linalg.norm(misses, axis=1)
        best = jnp.where(
            jnp.min(sizes) < 0.99 * jnp.linalg.norm(off), jnp.argmin(sizes), 0
        )  # stuck: leap, all the same
        return tries[best], misses[best], count + 1

    def unsolved(carry: tuple[Array, Array, Array]) -> Array:
        return (jnp.linalg.norm(carry[1]) > goal) & (carry[2] < max_iterations)

    first = jnp.linalg.solve(matrix, target)
    y, off, _ = lax.while_loop(unsolved, newton, (first, miss(first), jnp.asarray(0, jnp.int32)))
    return jnp.einsum("a,aij->ij", positive(y), basis) / scale, jnp.linalg.norm(off) / (goal / tolerance)


def _symmetric_basis(k: int, dtype: Any) -> Float[Array, "p k k"]:
    """An orthonormal basis of the symmetric matrices."""
    rows, columns = jnp.triu_indices(k)
    which = jnp.arange(rows.size)
    unit = jnp.zeros((rows.size, k, k), dtype).at[which, rows, columns].set(1)
    unit = (unit + unit.transpose(0, 2, 1)) / 2
    return unit / jnp.sqrt(jnp.sum(unit**2, axis=(1, 2), keepdims=True))
