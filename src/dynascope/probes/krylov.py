"""The extreme eigenpairs of a symmetric operator, from products with vectors: as many as the residuals ask for.

Rayleigh-Ritz on a growing orthonormal basis. It grows by the residual of the pair that is furthest from settled
(Davidson 1975, without preconditioner), is orthogonalised in full, twice, and when full shrinks to its best half (Wu &
Simon 2000, Thick-restart Lanczos method for large symmetric eigenvalue problems). From one start vector this spans the
same spaces as Lanczos; unlike Lanczos it can also start from the several vectors that a neighbouring problem left
behind (Stathopoulos & Saad 1998, Restarting techniques for the (Jacobi-)Davidson symmetric eigenvalue methods), which
is what makes it cheap along a trajectory.

One pair more than asked for is followed, the rival. A residual only tells that *some* eigenvalue is near; that it is
the top one rests on the rival having been looked for too.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dynascope.probes.curvature import Product, Vector
from dynascope.probes.ritz import Basis, Ritz, Which, leading, rayleigh_ritz


class Search(NamedTuple):
    """A basis on its way, and what it knows."""

    basis: Basis
    ritz: Ritz
    settled: Bool[Array, ""]
    products: Int[Array, ""]


def extreme_pairs(
    product: Product,
    start: Float[Array, "s n"],
    explorer: Vector,
    k: int,
    *,
    which: Which = "largest",
    tolerance: float = 1e-6,
    max_products: int = 300,
    explore: int = 0,
) -> Search:
    """Search from the rows of `start` for k pairs and their rival.

    `explore` is the least number of products beyond the start, which go along the rival's residual; `explorer` steps
    in where a residual vanishes, so that the basis does grow.
    """
    begun, dimension = start.shape
    pairs = min(k + 1, dimension)
    capacity = min(dimension, max(4 * pairs, 16, begun + 1))

    def grow(search: Search) -> Search:
        _, ritz, _, products = search
        exploring = (products < begun + explore) & (search.basis.size >= pairs)
        target = jnp.where(exploring, pairs - 1, jnp.argmax(ritz.excess))
        direction = ritz.images[target] - ritz.values[target] * ritz.vectors[target]
        full = search.basis.size >= capacity
        basis = lax.cond(full, lambda b: shrink(b, max(pairs, capacity // 2), which), lambda b: b, search.basis)
        basis = extend(basis, orthonormal(direction, basis.vectors, explorer), product)
        return Search(basis, *rayleigh_ritz(basis, pairs, which, tolerance), products + 1)

    def go_on(search: Search) -> Bool[Array, ""]:
        wanted = ~search.settled | (search.products < begun + explore)
        finite = jnp.all(jnp.isfinite(search.ritz.residuals))  # a learner that has diverged has no curvature
        return wanted & finite & (search.basis.size < dimension) & (search.products < max_products)

    rows = jnp.linalg.qr(start.T)[0].T
    vectors = jnp.zeros((capacity, dimension), start.dtype).at[:begun].set(rows)
    images = jnp.zeros_like(vectors).at[:begun].set(jax.vmap(product)(rows))
    matrix = vectors @ images.T
    basis = Basis(vectors, images, (matrix + matrix.T) / 2, jnp.asarray(begun, jnp.int32))
    first = Search(basis, *rayleigh_ritz(basis, pairs, which, tolerance), basis.size)
    return lax.while_loop(go_on, grow, first)


def extend(basis: Basis, vector: Vector, product: Product) -> Basis:
    """The basis with one more vector, at the price of one product."""
    vectors, images = basis.vectors.at[basis.size].set(vector), basis.images.at[basis.size].set(product(vector))
    column = vectors @ images[basis.size]
    matrix = basis.matrix.at[basis.size].set(column).at[:, basis.size].set(column)
    return Basis(vectors, images, matrix, basis.size + 1)


def shrink(basis: Basis, size: int, which: Which) -> Basis:
    """The basis of its best Ritz vectors; no products are needed."""
    size = min(size, basis.vectors.shape[0] - 1)
    values, coefficients = leading(basis, size, which)
    spare = ((0, basis.vectors.shape[0] - size), (0, 0))
    matrix = jnp.diag(jnp.pad(values, spare[0]))
    vectors, images = (jnp.pad(coefficients @ rows, spare) for rows in (basis.vectors, basis.images))
    return Basis(vectors, images, matrix, jnp.asarray(size, basis.size.dtype))


def orthonormal(direction: Vector, rows: Float[Array, "m n"], instead: Vector) -> Vector:
    """The direction made orthogonal to the rows, twice is enough (Parlett); another one where nothing is left of it."""

    def cleaned(vector: Vector) -> tuple[Vector, Float[Array, ""]]:
        vector = vector / jnp.maximum(jnp.linalg.norm(vector), np.finfo(vector.dtype).tiny)
        vector = vector - (rows @ vector) @ rows
        return vector, jnp.linalg.norm(vector)

    vector, left = cleaned(direction)
    vector, left = cleaned(jnp.where(left > 0.1, vector, instead))
    return vector / jnp.maximum(left, np.finfo(vector.dtype).tiny)
