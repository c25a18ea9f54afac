"""The extreme eigenpairs of a symmetric operator, from as many matrix-vector products as the residuals require.

Rayleigh-Ritz on a growing orthonormal basis. It grows by the residual of the pair that is furthest from converged
(Davidson 1975, without preconditioner), is fully orthogonalized twice, and shrinks to its best half when it is full (Wu
& Simon 2000, Thick-restart Lanczos method for large symmetric eigenvalue problems). From one start vector this spans
the same spaces as Lanczos; unlike Lanczos it can also start from the several vectors that a neighboring problem left
behind (Stathopoulos & Saad 1998, Restarting techniques for the (Jacobi-)Davidson symmetric eigenvalue methods), which
makes it cheap along a trajectory.

One more pair than requested is followed, the rival. A residual only says that *some* eigenvalue is near. Once the pairs
have converged, `remainder` checks that no larger eigenvalue and no copy of a repeated one was missed.

The operator is divided by a power of two near its norm, so that no square overflows or underflows.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dynascope.geometry.hessian import Product, Vector
from dynascope.geometry.remainder import LEVELS, MISSED, NEEDED, Remainder, look_further, start_remainder

Which = Literal["largest", "magnitude"]

PATIENCE = 24
"""So many products without halving the error mean that a residual has come as far down as the products' rounding."""
ROUNDING, MOST_ROUNDING = 20, 400
"""Units of rounding that a residual may keep: the first number to begin with, at most the second if it falls no
further."""

UNITS = 4, 8
"""Units of rounding that a value may be off by, beside what its residual says: the only pair's, and those of several.
Images of Ritz vectors are sums of earlier images, and so drift from the products, from one restart to the next."""
DRIFT = 100
"""So many products double the square of that."""

RIVAL_TOLERANCE = 0.25
"""The rival counts as found once its residual is this part of its value: it then lies within a narrow cluster."""


class Aim(NamedTuple):
    """The pairs that are wanted, how exactly, and at which cost."""

    k: int
    which: Which = "largest"
    tolerance: float = 1e-6
    """The relative error of a value at which it has converged."""
    max_products: int = 300
    checked: bool | Bool[Array, ""] = True
    """Whether the remainder is checked."""


class Basis(NamedTuple):
    """Orthonormal vectors, their images under the operator, and its matrix in this basis. Rows from `size` on are
    zero."""

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
    """The state of the search: its basis, and the bounds known so far."""

    basis: Basis
    ritz: Ritz
    settled: Bool[Array, ""]
    norm: Float[Array, ""]
    """The longest image of a unit vector so far: at most the norm of the operator."""
    floor: Float[Array, ""]
    """The residual that a settled pair may keep, however small the tolerance."""
    best: Float[Array, ""]
    """The largest excess of a pair when it last was halved."""
    since: Int[Array, ""]
    """Products since then."""
    products: Int[Array, ""]
    checks: Int[Array, ""]
    """The number of checks begun."""
    remainder: Remainder | None
    """The check, restarted whenever converged pairs have changed; None if there is none."""


class Extremes(NamedTuple):
    """The result of `extreme_pairs`."""

    ritz: Ritz
    """The k pairs, and the rival."""
    errors: Float[Array, " k"]
    """Those of the pairs; if the remainder was checked, bounds that hold for the k largest but for `missed`."""
    missed: Float[Array, ""]
    """The probability that an eigenvalue above a clear level was missed is at most this; 1 if unchecked."""
    products: Int[Array, ""]


def extreme_pairs(product: Product, start: Float[Array, "s n"], key: PRNGKeyArray, aim: Aim) -> Extremes:
    """Search from the rows of `start` for k pairs and their rival, then check the remainder.

    At least one product goes beyond the start: if no pair needs it, it extends the Krylov space of the last row. If
    that yields no new direction, a random vector is used.
    """
    begun, dimension = start.shape
    pairs = min(aim.k + 1, dimension)
    capacity = min(dimension, max(4 * pairs, 8 if begun >= pairs else 16))
    explorer = jax.random.normal(key, (dimension,), start.dtype)
    sides = 1 if aim.which == "largest" else 2

    rows = jnp.linalg.qr(start.T)[0].T
    images = lax.map(product, rows)
    scale = power_of_two(jnp.max(jnp.abs(images)))
    images = images / scale

    def done(search: Search) -> Bool[Array, ""]:
        return search.settled & (search.products > begun)

    def direction(search: Search) -> Vector:
        basis, ritz, target = search.basis, search.ritz, jnp.argmax(search.ritz.excess)
        wanted = ritz.images[target] - ritz.values[target] * ritz.vectors[target]
        wanted = jnp.where(search.settled, basis.images[basis.size - 1], wanted)
        if search.remainder is not None:
            found = search.remainder.found
            wanted = jnp.where(jnp.any(found), search.remainder.toward[jnp.argmax(found)], wanted)
        nothing = 50 * np.finfo(start.dtype).eps * jnp.max(jnp.abs(ritz.values))
        return orthonormal(wanted, basis.vectors, nothing, jnp.roll(explorer, basis.size))

    def learn(search: Search, vector: Vector, image: Vector) -> Search:
        basis = extend(search.basis, vector, image)
        search = search._replace(floor=jnp.maximum(search.floor, rounding_of(search.norm, ROUNDING)))
        ritz, settled = rayleigh_ritz(basis, pairs, aim, search.norm, search.floor)
        if capacity < dimension:
            full = basis.size >= capacity
            basis = lax.cond(full, lambda b: shrink(b, max(pairs, capacity // 2), aim.which), lambda b: b, basis)
        search = give_way(search._replace(basis=basis, ritz=ritz, settled=settled), aim)
        if search.remainder is None:
            return search
        search = search._replace(checks=search.checks + done(search).astype(jnp.int32))
        return search._replace(remainder=lax.cond(done(search), begin, forget, search))

    def begin(search: Search) -> Remainder:
        fresh = jax.random.fold_in(key, search.products)
        levels = levels_of(search.ritz, aim, search.norm, search.floor)
        return start_remainder(fresh, search.ritz.vectors[: aim.k], levels, sides, jnp.maximum(search.checks, 1))

    def forget(search: Search) -> Remainder:
        assert search.remainder is not None
        return search.remainder._replace(found=jnp.zeros(sides, bool))

    def look(search: Search, vector: Vector, image: Vector) -> Search:
        assert search.remainder is not None
        return search._replace(remainder=look_further(search.remainder, search.ritz.vectors[: aim.k], image))

    def step(search: Search) -> Search:
        if search.remainder is None:
            vector, checking = direction(search), None
        else:
            checking = done(search) & ~jnp.any(search.remainder.found)
            vector = lax.cond(checking, lambda s: s.remainder.vector, direction, search)
        image = product(vector) / scale
        norm = jnp.maximum(search.norm, jnp.linalg.norm(image))
        search = search._replace(norm=norm, products=search.products + 1)
        if checking is None:
            return learn(search, vector, image)
        return lax.cond(checking, look, learn, search, vector, image)

    def go_on(search: Search) -> Bool[Array, ""]:
        wanted = ~done(search)
        if search.remainder is not None:
            wanted |= aim.checked & ~search.remainder.clear[NEEDED]
        finite = jnp.all(jnp.isfinite(search.ritz.residuals))  # a model that has diverged has no curvature
        return wanted & finite & (search.basis.size < dimension) & (search.products < aim.max_products)

    matrix = rows @ images.T
    basis = Basis(rows, images, (matrix + matrix.T) / 2, jnp.asarray(begun, jnp.int32))
    norm = jnp.max(jnp.linalg.norm(images, axis=1))
    small = with_room(basis, max(begun, pairs))  # small arrays are diagonalized faster
    floor = rounding_of(norm, ROUNDING)
    ritz, settled = rayleigh_ritz(small, pairs, aim, norm, floor)
    never = jnp.full((), jnp.inf, norm.dtype), jnp.zeros((), jnp.int32)
    search = Search(with_room(basis, capacity), ritz, settled, norm, floor, *never, basis.size, never[1], None)
    if aim.checked is not False:
        search = search._replace(remainder=begin(search))
    search = lax.while_loop(go_on, step, search)

    errors, missed = stated(search, done(search), aim, search.basis.size == dimension)
    ritz = search.ritz
    ritz = ritz._replace(values=scale * ritz.values, residuals=scale * ritz.residuals, gaps=scale * ritz.gaps)
    return Extremes(ritz, scale * errors, missed, search.products)


def power_of_two(size: Float[Array, ""]) -> Float[Array, ""]:
    """The next larger power of two; 1 for zero and for values that are not finite."""
    one = jnp.ones((), size.dtype)
    found = jnp.ldexp(one, jnp.frexp(size)[1])
    return jnp.where((size > 0) & jnp.isfinite(found), found, one)


def height(values: Float[Array, " p"], aim: Aim) -> Float[Array, " p"]:
    """The key that orders the values."""
    return values if aim.which == "largest" else jnp.abs(values)


def rounding_of(norm: Float[Array, ""], units: int) -> Float[Array, ""]:
    """So many units of rounding of an operator of this norm."""
    numbers = jnp.finfo(norm.dtype)
    return units * numbers.eps * norm + numbers.tiny


def rounding_of_values(
    values: Float[Array, " p"], norm: Float[Array, ""], aim: Aim, products: Int[Array, ""] | int = 0
) -> Float[Array, ""]:
    """How far rounding moves a value, beside what its residual says."""
    largest = jnp.maximum(norm, jnp.max(jnp.abs(values)))  # images of other vectors may all be shorter
    drift = jnp.sqrt(1 + jnp.asarray(products, norm.dtype) / DRIFT)
    return UNITS[aim.k > 1] * drift * jnp.finfo(norm.dtype).eps * largest


def give_way(search: Search, aim: Aim) -> Search:
    """The search after one more vector. If no error is halved for long and the residuals are near rounding, this is
    how far they get: products are sums, whose rounding is larger than that of one number."""
    worst, residuals = jnp.max(search.ritz.excess), search.ritz.residuals[: aim.k]
    halved = worst < search.best / 2
    best, since = jnp.where(halved, worst, search.best), jnp.where(halved, 0, search.since + 1)
    reached = 1.5 * jnp.max(residuals)
    stuck = (since >= PATIENCE) & (reached <= rounding_of(search.norm, MOST_ROUNDING))
    floor = jnp.where(stuck, jnp.maximum(search.floor, reached), search.floor)
    again = jnp.where(stuck, jnp.inf, best)
    return search._replace(floor=floor, best=again, since=since, settled=search.settled | stuck)


def levels_of(ritz: Ritz, aim: Aim, norm: Float[Array, ""], floor: Float[Array, ""]) -> Float[Array, " levels"]:
    """The levels at which the remainder is checked; the second has to be clear.

    The remaining space couples to a pair by its residual r alone. If all its eigenvalues lie below M, the value is off
    by at most r^2 / (value - M). The first level is the M at which that is small enough for every pair. Pairs with
    residuals as small as the error that is allowed need no such gap, which copies of the last value would not leave:
    the second level does without them.
    """
    tall, residuals = height(ritz.values, aim)[: aim.k], ritz.residuals[: aim.k]
    numbers, wanted = jnp.finfo(norm.dtype), aim.tolerance / 2 * jnp.abs(ritz.values[: aim.k])
    rounding = numbers.eps * norm + numbers.tiny
    close = jnp.maximum(wanted, 2 * floor)
    above = tall[-1] + close[-1] * jnp.asarray(LEVELS, norm.dtype)
    low = jnp.minimum(tall - residuals * (residuals / jnp.maximum(wanted, 2 * rounding)), above[0])
    needed = jnp.where(residuals > close / 2, low, above[0])
    return jnp.concatenate([jnp.stack([jnp.min(low), jnp.min(needed)]), above])


def stated(
    search: Search, done: Bool[Array, ""], aim: Aim, whole: Bool[Array, ""]
) -> tuple[Float[Array, " k"], Float[Array, ""]]:
    """The errors, and the probability that they are too small for a value that was missed."""
    estimates, one = search.ritz.errors[: aim.k], jnp.ones((), search.norm.dtype)
    if search.remainder is None:
        return estimates, jnp.where(whole, 0, one)
    clear = search.remainder.clear & done
    lowest = jnp.where(jnp.any(clear), search.remainder.levels[jnp.argmax(clear)], jnp.inf)
    errors = largest_errors(search.ritz, lowest, aim)
    rounding = rounding_of_values(search.ritz.values, search.norm, aim, search.products)
    errors = jnp.where(search.norm > 0, errors + rounding, 0)
    checked = jnp.asarray(aim.checked) & ~whole
    missed = jnp.where(whole, 0, jnp.where(checked & jnp.any(clear), MISSED * one, one))
    return jnp.where(checked, errors, estimates), missed


def largest_errors(ritz: Ritz, level: Float[Array, ""], aim: Aim) -> Float[Array, " k"]:
    """How far above the i-th of the k values the i-th largest eigenvalue is at most, if the remaining space has none
    above the level.

    With the pairs as the first basis vectors the operator is [[V, R], [R^T, B]], where V is the diagonal matrix of the
    values and B <= level. For any t > 0 it is at most [[V + R R^T / t, 0], [0, level + t]], so its i-th eigenvalue is
    at most the larger of the i-th of V + R R^T / t and level + t. One pair with residual r and t = value - level has
    r^2 / (value - level). If several values are close, one with a large residual can belong above one with a small
    residual: none of them is more exact than their order. The smallest bound of four t is taken.
    """
    values, residuals, k = ritz.values[: aim.k], ritz.residuals[: aim.k], aim.k
    tall = height(values, aim)
    gaps = tall - level
    if k == 1:
        width = jnp.maximum(gaps, residuals)
        return jnp.maximum(residuals * (residuals / jnp.where(width > 0, width, 1)), width - gaps)
    left = ritz.images[:k] - values[:, None] * ritz.vectors[:k]
    length = jnp.linalg.norm(left)
    unit = left / jnp.where(length > 0, length, 1)
    products, sides = unit @ unit.T, (1,) if aim.which == "largest" else (1, -1)

    def error(i: Int[Array, ""], gap: Float[Array, ""], width: Float[Array, ""]) -> Float[Array, ""]:
        raised = products * (length * (length / jnp.where(width > 0, width, 1)))
        found = [jnp.linalg.eigvalsh(jnp.diag(side * values - tall[i]) + raised) for side in sides]
        bound = jnp.maximum(jnp.sort(jnp.concatenate(found))[-1 - i], jnp.maximum(width - gap, 0))
        return jnp.where((width > 0) | (length == 0), bound, jnp.inf)

    allowed = aim.tolerance / 4 * jnp.abs(values)
    widths = jnp.stack([jnp.maximum(gaps, 0), residuals, jnp.broadcast_to(length, gaps.shape), allowed])
    each = jax.vmap(error, (0, 0, 0))
    bounds = jax.vmap(each, (None, None, 0))(jnp.arange(k, dtype=jnp.int32), gaps, widths)
    return jnp.min(bounds, axis=0)


def with_room(basis: Basis, capacity: int) -> Basis:
    """The same basis, padded with unused rows to a capacity."""
    more = (0, capacity - basis.vectors.shape[0])
    vectors, images = (jnp.pad(rows, (more, (0, 0))) for rows in (basis.vectors, basis.images))
    return Basis(vectors, images, jnp.pad(basis.matrix, (more, more)), basis.size)


def extend(basis: Basis, vector: Vector, image: Vector) -> Basis:
    """The basis with one more vector and its image."""
    vectors, images = basis.vectors.at[basis.size].set(vector), basis.images.at[basis.size].set(image)
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


def rayleigh_ritz(
    basis: Basis, pairs: int, aim: Aim, norm: Float[Array, ""], floor: Float[Array, ""]
) -> tuple[Ritz, Bool[Array, ""]]:
    """The best pairs of the basis, and whether all are settled.

    A pair has converged when the estimated error of its value is within the tolerance, relative to that value. The
    estimate is residual^2 / gap (Kato 1949; Parlett 1998, The symmetric eigenvalue problem, theorem 11.7.1) if the
    other pairs leave a gap, the residual itself if they do not.
    """
    values, vectors, images = leading(basis, pairs, aim.which)
    residuals = jnp.linalg.norm(images - values[:, None] * vectors, axis=1)
    here = np.arange(pairs, dtype=np.int32) < basis.size

    others = here[None, :] & ~np.eye(pairs, dtype=bool)
    distances = jnp.abs(values[:, None] - values[None, :])
    below = height(values, aim)  # eigenvalues beyond the rival are at most as high as it, on either side
    distances = distances.at[:, -1].set(jnp.abs(below - below[-1])) - residuals[None, :]
    gaps = jnp.min(jnp.where(others, distances, jnp.inf), axis=1)
    gaps = jnp.where(jnp.isinf(gaps), 0, jnp.maximum(gaps, 0))
    apart = gaps > residuals
    estimates = jnp.where(apart, residuals**2 / jnp.where(apart, gaps, 1), residuals)

    rounding = rounding_of_values(values, norm, aim)
    rival = np.arange(pairs) == pairs - 1
    tolerance = jnp.where(aim.checked, aim.tolerance / 4, aim.tolerance)  # the check needs half of the gap or less
    allowed = jnp.where(rival, RIVAL_TOLERANCE, tolerance) * jnp.abs(values)
    least = jnp.where(apart & ~rival, rounding_of(norm, 1), floor)
    excess = jnp.where(here, jnp.where(rival, residuals, estimates) / jnp.maximum(allowed, least), 0)
    settled = (basis.size >= pairs) & ~jnp.any(excess > 1)
    return Ritz(values, vectors, images, residuals, gaps, estimates + rounding, excess), settled
