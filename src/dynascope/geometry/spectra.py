"""Spectra of products A Bᵀ and of how far they have moved, for many small factors at once, on the device.

A product of d x k factors has rank k at most, and its change since the start,

    ΔM = A Bᵀ − A₀ B₀ᵀ = [A − A₀, A₀] [B, B − B₀]ᵀ,

has rank 2k at most. Its singular values are those of the 2k x 2k core R₁ R₂ᵀ, with R the triangular factors of the two
d x 2k matrices; written with differences, nothing cancels while the weights have hardly moved. "Transformers learn
through gradual rank increase" follows W_K W_Qᵀ and W_V W_Oᵀ of every head in this way.

Accelerators factor many small matrices one after another, except for symmetric eigenproblems; there the singular values
are the square roots of the eigenvalues of √G₁ G₂ √G₁, G the Gram matrices of the two. In float32 that is exact to about
10⁻⁴ of the largest singular value (against 10⁻⁷ on a CPU), at a fiftieth of the cost.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Pair = tuple[Float[Array, "*batch d k"], Float[Array, "*batch e k"]]


@checks.converts
def product_singular_values(a: Float[Array, "*batch d k"], b: Float[Array, "*batch e k"]) -> Float[Array, "*batch r"]:
    """The singular values of A Bᵀ that can differ from zero.

    Args:
        a: A, shape `(..., d, k)`.
        b: B, shape `(..., e, k)`.

    Returns:
        The min(d, e, k) largest, `(..., r)`, in descending order.
    """
    _check_pair("a", a, "b", b)
    a, b = jnp.asarray(a), jnp.asarray(b)
    return lax.platform_dependent(a, b, cpu=by_triangles, default=by_eigenvalues)


def by_triangles(a: Float[Array, "*batch d k"], b: Float[Array, "*batch e k"]) -> Float[Array, "*batch r"]:
    """The singular values of A Bᵀ from those of R₁ R₂ᵀ: to the last digits."""
    left, right = (jnp.linalg.qr(factor, mode="r") for factor in (a, b))
    core = jnp.einsum("...ik,...jk->...ij", left, right, precision="highest")
    return jnp.linalg.svd(core, compute_uv=False)


def by_eigenvalues(a: Float[Array, "*batch d k"], b: Float[Array, "*batch e k"]) -> Float[Array, "*batch r"]:
    """The same from eigenvalues of Gram matrices: those below the root of the precision are lost."""
    left, right = (jnp.einsum("...ik,...ij->...kj", factor, factor, precision="highest") for factor in (a, b))
    squares, turn = jnp.linalg.eigh(left)
    root = turn * jnp.sqrt(jnp.maximum(squares, 0))[..., None, :]
    gram = jnp.einsum("...ki,...kl,...lj->...ij", root, right, root, precision="highest")
    count = min(a.shape[-2], b.shape[-2], a.shape[-1])
    return jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(gram)[..., ::-1], 0))[..., :count]


@checks.converts
def perturbation_singular_values(now: Pair, then: Pair) -> Float[Array, "*batch r"]:
    """The singular values of A Bᵀ − A₀ B₀ᵀ.

    Args:
        now: A `(..., d, k)` and B `(..., e, k)`.
        then: A₀ and B₀, in the same shapes.

    Returns:
        At most 2k values `(..., r)`, in descending order; NaN if the two products are equal, since a spectrum of zeros
        has no rank.
    """
    _check_pairs(now, then)
    (a, b), (a0, b0) = now, then
    moved, whole = (jnp.linalg.norm(factor, axis=(-2, -1), keepdims=True) for factor in (a - a0, a0))
    share = jnp.where((moved > 0) & (whole > 0), moved / whole, 1)  # brings both halves of each factor to one size
    left, right = jnp.concatenate([(a - a0) / share, a0], axis=-1), jnp.concatenate([share * b, b - b0], axis=-1)
    values = product_singular_values(left, right)
    return jnp.where(jnp.max(values, axis=-1, keepdims=True) > 0, values, jnp.nan)


@checks.converts
def random_perturbation(key: PRNGKeyArray, now: Pair, then: Pair) -> Pair:
    """Factors that have moved as far as others, matrix by matrix, but in random directions.

    Args:
        key: Key of the directions.
        now: A `(..., d, k)` and B `(..., e, k)`, which say how far.
        then: The factors to move from, in the same shapes.

    Returns:
        The moved factors.
    """
    checks.key("key", key)
    _check_pairs(now, then)

    def move(key: PRNGKeyArray, was: Array, to: Array) -> Array:
        noise = jax.random.normal(key, was.shape, was.dtype)
        size = [jnp.linalg.norm(x, axis=(-2, -1), keepdims=True) for x in (to - was, noise)]
        return was + noise * size[0] / size[1]

    keys = jax.random.split(key)
    return move(keys[0], then[0], now[0]), move(keys[1], then[1], now[1])


def _check_pair(first: str, a: Array, second: str, b: Array) -> None:
    left, right = checks.array(first, a, min_ndim=2).shape, checks.array(second, b, min_ndim=2).shape
    if left[-1] != right[-1] or left[:-2] != right[:-2]:
        raise ValueError(f"{first} and {second} must have shapes (..., d, k) and (..., e, k); got {left}, {right}")


def _check_pairs(now: Pair, then: Pair) -> None:
    for name, pair in (("now", now), ("then", then)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{name} must be a pair of factors (A, B); got {checks.shown(pair)}")
        _check_pair(f"{name}[0]", pair[0], f"{name}[1]", pair[1])
    shapes = [[factor.shape for factor in pair] for pair in (now, then)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"now and then must have the same shapes; got {shapes[0]} and {shapes[1]}")
