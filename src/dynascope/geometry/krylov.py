"""The extreme eigenpairs of a symmetric operator, from products with vectors: as many as the residuals ask for.

Rayleigh-Ritz on a growing orthonormal basis. It grows by the residual of the pair that is furthest from settled
(Davidson 1975, without preconditioner), is orthogonalized in full, twice, and when full shrinks to its best half (Wu &
Simon 2000, Thick-restart Lanczos method for large symmetric eigenvalue problems). From one start vector this spans the
same spaces as Lanczos; unlike Lanczos it can also start from the several vectors that a neighboring problem left
behind (Stathopoulos & Saad 1998, Restarting techniques for the (Jacobi-)Davidson symmetric eigenvalue methods), which
is what makes it cheap along a trajectory.

One pair more than asked for is followed, the rival. A residual only says that *some* eigenvalue is near; that it is
the top one rests on the search for the rival.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from dynascope.geometry.hessian import Product, Vector

Which = Literal["largest", "magnitude"]

RIVAL_TOLERANCE = 0.25
"""The rival counts as found once its residual is this part of its value: it then lies within a narrow cluster."""


class Basis(NamedTuple):
    """Orthonormal vectors, what the operator makes of them, and its matrix in them. Rows from `size` on are zero."""

    vectors: Float[Array, "m n"]
    images: Float[Array, "m n"]
    matrix: Float[Array, "m m"]
    size: Int[Array, ""]


class Ritz(NamedTuple):
    """The leading pairs of a basis, best first, the rival last; zero if the basis has fewer."""

    values: Float[Array, " p"]
    vectors: Float[Array, "p n"]
    images: Float[Array, "p n"]
    residuals: Float[Array, " p"]
    """||Hv - lambda v||: an eigenvalue lies at most this far from the value."""
    gaps: Float[Array, " p"]
    """The distance to the nearest other pair, less that one's residual; 0 if there is none."""
    errors: Float[Array, " p"]
    """The smaller of the residual and residual^2 / gap, and a few units of rounding."""
    excess: Float[Array, " p"]
    """How many times larger each pair's error is than is allowed; 0 for pairs the basis does not have."""


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

    `explore` is the least number of products beyond the start: if no pair needs them, they carry on the Krylov space
    of the last row. `explorer`, a random vector, steps in if nothing new comes out of that.
    """
    begun, dimension = start.shape
    pairs = min(k + 1, dimension)
    capacity = min(dimension, max(4 * pairs, 8 if begun >= pairs else 16))

    def known(basis: Basis, products: Int[Array, ""]) -> Search:
        return Search(basis, *rayleigh_ritz(basis, pairs, which, tolerance), products)

    def grow(search: Search) -> Search:
        full = search.basis.size >= capacity
        basis = lax.cond(full, lambda b: shrink(b, max(pairs, capacity // 2), which), lambda b: b, search.basis)
        ritz, target = search.ritz, jnp.argmax(search.ritz.excess)
        residual = ritz.images[target] - ritz.values[target] * ritz.vectors[target]
        direction = jnp.where(search.settled, basis.images[basis.size - 1], residual)
        nothing = 50 * np.finfo(start.dtype).eps * jnp.max(jnp.abs(ritz.values))
        new = orthonormal(direction, basis.vectors, nothing, jnp.roll(explorer, basis.size))
        return known(extend(basis, new, product), search.products + 1)

    def go_on(search: Search) -> Bool[Array, ""]:
        wanted = ~search.settled | (search.products < begun + explore)
        finite = jnp.all(jnp.isfinite(search.ritz.residuals))  # a model that has diverged has no curvature
        return wanted & finite & (search.basis.size < dimension) & (search.products < max_products)

    rows = jnp.linalg.qr(start.T)[0].T
    images = lax.map(product, rows)
    matrix = rows @ images.T
    basis = Basis(rows, images, (matrix + matrix.T) / 2, jnp.asarray(begun, jnp.int32))
    first = known(with_room(basis, max(begun, pairs)), basis.size)  # small arrays are diagonalized faster
    return lax.while_loop(go_on, grow, first._replace(basis=with_room(basis, capacity)))


def with_room(basis: Basis, capacity: int) -> Basis:
    """The same basis with unused rows up to a capacity."""
    more = (0, capacity - basis.vectors.shape[0])
    vectors, images = (jnp.pad(rows, (more, (0, 0))) for rows in (basis.vectors, basis.images))
    return Basis(vectors, images, jnp.pad(basis.matrix, (more, more)), basis.size)


def extend(basis: Basis, vector: Vector, product: Product) -> Basis:
    """The basis with one more vector, at the price of one product."""
    vectors, images = basis.vectors.at[basis.size].set(vector), basis.images.at[basis.size].set(product(vector))
    column = vectors @ images[basis.size]
    matrix = basis.matrix.at[basis.size].set(column).at[:, basis.size].set(column)
    return Basis(vectors, images, matrix, basis.size + 1)


def shrink(basis: Basis, size: int, which: Which) -> Basis:
    """The basis of its best Ritz vectors; no products are needed."""
    size = min(size, basis.vectors.shape[0] - 1)
    spare = ((0, basis.vectors.shape[0] - size), (0, 0))
    values, vectors, images = leading(basis, size, which)
    matrix = jnp.diag(jnp.pad(values, spare[0]))
    return Basis(jnp.pad(vectors, spare), jnp.pad(images, spare), matrix, jnp.asarray(size, basis.size.dtype))


def orthonormal(direction: Vector, rows: Float[Array, "m n"], nothing: Float[Array, ""], instead: Vector) -> Vector:
    """The direction made orthogonal to the rows and of unit length; `instead` if no more than `nothing` is left."""

    def project_out(vector: Vector) -> Vector:
        return vector - (rows @ vector) @ rows

    def unit(vector: Vector) -> Vector:
        return vector / jnp.maximum(jnp.linalg.norm(vector), np.finfo(vector.dtype).tiny)

    left = project_out(direction)
    left = jnp.where(jnp.linalg.norm(left) > nothing, left, instead)
    return unit(project_out(unit(project_out(unit(left)))))


def leading(
    basis: Basis, count: int, which: Which
) -> tuple[Float[Array, " p"], Float[Array, "p n"], Float[Array, "p n"]]:
    """The best `count` values, their unit vectors and the images of those; zero if there are fewer."""
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
    is residual^2 / gap (Kato 1949; Parlett 1998, The symmetric eigenvalue problem, theorem 11.7.1) if the other
    pairs leave a gap, the residual itself if they do not.
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
