"""Rayleigh-Ritz: what an orthonormal basis knows of the extreme eigenpairs of a symmetric operator, and how well."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dynascope import checks

Which = Literal["largest", "magnitude"]

RIVAL_TOLERANCE = 0.25
"""The rival counts as found once its residual is this part of its value: it then lies within a narrow cluster."""


def check_search(k: int, tolerance: Any, max_products: int, which: str = "largest") -> None:
    """The options of a search for eigenpairs."""
    checks.whole("k", k, at_least=1)
    checks.real("tolerance", tolerance, at_least=0)
    checks.whole("max_products", max_products, at_least=1, at_most=2**31 - 1)
    checks.one_of("which", which, get_args(Which))


class Basis(NamedTuple):
    """Orthonormal vectors, what the operator makes of them, and its matrix in them. Rows from `size` on are zero."""

    vectors: Float[Array, "m n"]
    images: Float[Array, "m n"]
    matrix: Float[Array, "m m"]
    size: Int[Array, ""]


class Ritz(NamedTuple):
    """The leading pairs of a basis, best first, the rival last; zero where the basis has fewer."""

    values: Float[Array, " p"]
    vectors: Float[Array, "p n"]
    images: Float[Array, "p n"]
    residuals: Float[Array, " p"]
    """||Hv - lambda v||: an eigenvalue lies at most this far from the value."""
    gaps: Float[Array, " p"]
    """The distance to the nearest other pair, less that one's residual; 0 where there is none."""
    errors: Float[Array, " p"]
    """The smaller of the residual and residual^2 / gap, and a few units of rounding."""
    excess: Float[Array, " p"]
    """How many times larger each pair's error is than is allowed; 0 for pairs the basis does not have."""


def leading(
    basis: Basis, count: int, which: Which
) -> tuple[Float[Array, " p"], Float[Array, "p n"], Float[Array, "p n"]]:
    """The best `count` values, their unit vectors and the images of those; zero where there are fewer."""
    used = np.arange(basis.vectors.shape[0], dtype=np.int32) < basis.size
    below = -2 * jnp.linalg.norm(basis.matrix) - 1  # unused rows: apart from every eigenvalue of the used ones
    values, columns = jnp.linalg.eigh(basis.matrix + jnp.diag(jnp.where(used, 0, below)))
    order = np.arange(values.size - 1, -1, -1)[:count]  # they come in ascending order, the unused ones first
    if which == "magnitude":
        order = lax.top_k(jnp.where(values > below / 2 - 0.25, jnp.abs(values), -jnp.inf), count)[1]
    here = np.arange(count, dtype=np.int32) < basis.size
    coefficients = jnp.where(here[:, None], columns[:, order].T, 0)
    vectors, images = coefficients @ basis.vectors, coefficients @ basis.images
    squares = jnp.where(here, jnp.sum(vectors**2, axis=1), 1)  # not quite 1: with it the quotient has a digit more
    length = jnp.sqrt(squares)[:, None]
    return jnp.sum(vectors * images, axis=1) / squares, vectors / length, images / length


def rayleigh_ritz(basis: Basis, pairs: int, which: Which, tolerance: float) -> tuple[Ritz, Bool[Array, ""]]:
    """The best pairs of the basis, and whether all are settled.

    A pair is settled when the estimated error of its value is within `tolerance`, relative to that value. The estimate
    is residual^2 / gap (Kato 1949; Parlett 1998, The symmetric eigenvalue problem, theorem 11.7.1) where the other
    pairs leave a gap, the residual itself where they do not.
    """
    values, vectors, images = leading(basis, pairs, which)
    residuals = jnp.linalg.norm(images - values[:, None] * vectors, axis=1)
    here = np.arange(pairs, dtype=np.int32) < basis.size

    others = here[None, :] & ~np.eye(pairs, dtype=bool)
    distances = jnp.abs(values[:, None] - values[None, :]) - residuals[None, :]
    gaps = jnp.min(jnp.where(others, distances, jnp.inf), axis=1)
    gaps = jnp.where(jnp.isinf(gaps), 0, jnp.maximum(gaps, 0))
    apart = gaps > residuals
    estimates = jnp.where(apart, residuals**2 / jnp.where(apart, gaps, 1), residuals)

    numbers = jnp.finfo(basis.vectors.dtype)
    rounding = numbers.eps * jnp.max(jnp.abs(values)) + numbers.tiny
    rival = np.arange(pairs) == pairs - 1
    allowed = jnp.where(rival, RIVAL_TOLERANCE, tolerance) * jnp.abs(values)
    allowed = jnp.maximum(allowed, rounding * jnp.where(apart & ~rival, 1, 20))  # no residual gets to less than that
    excess = jnp.where(here, jnp.where(rival, residuals, estimates) / allowed, 0)
    settled = (basis.size >= pairs) & ~jnp.any(excess > 1)
    return Ritz(values, vectors, images, residuals, gaps, estimates + 4 * rounding, excess), settled
