"""The top eigenpairs of the Hessian of any loss, each with its residual; cold, or warm from a neighboring point."""

from __future__ import annotations

from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from dynascope import checks
from dynascope.geometry.hessian import Loss, Product, Vector, flatten, linearize_gradient
from dynascope.geometry.krylov import Which, extreme_pairs

DENSE = 400
"""Up to this many parameters the whole Hessian is formed and diagonalized, unless vectors to start from are given."""

MIXED_IN = 0.1
"""How much of another direction goes into a warm start, beside vectors of length 1."""

EXPLORE = 8
"""The least number of products with which a search from given vectors explores other directions."""


def check_search(k: int, tolerance: Any, max_products: int, which: str = "largest") -> None:
    """The options of a search for eigenpairs."""
    checks.whole("k", k, at_least=1)
    checks.real("tolerance", tolerance, at_least=0)
    checks.whole("max_products", max_products, at_least=1, at_most=2**31 - 1)
    checks.one_of("which", which, get_args(Which))


class Eigenpairs(eqx.Module):
    """The top k eigenvalues, largest first, with eigenvectors and estimates of their errors."""

    values: Float[Array, " k"]
    """The eigenvalues."""
    vectors: Float[Array, "k n"]
    """Unit vectors in the flat order of the parameters; `hessian.flatten(loss, params).unflatten` shapes them."""
    residuals: Float[Array, " k"]
    """||Hv - lambda v||. Some eigenvalue lies within this distance of the value: always, up to rounding."""
    errors: Float[Array, " k"]
    """An estimate of the value's error: residual^2 / gap if the gap to the next pair is wider than the residual; and
    rounding."""
    angles: Float[Array, " k"]
    """An estimate of the vector's error, as the sine of an angle: residual / gap, at most 1 (Davis & Kahan 1970)."""
    converged: Bool[Array, " k"]
    """Whether the error is within the tolerance, and the next pair was searched for too."""
    products: Int[Array, ""]
    """Number of Hessian-vector products."""
    subspace: Float[Array, "s n"]
    """The k vectors and the next one: a start for the search at a neighboring point."""


def top_eigenpairs(
    loss: Loss,
    params: PyTree,
    k: int = 1,
    *,
    tolerance: float = 1e-6,
    which: Which = "largest",
    start: Float[Array, "s n"] | np.ndarray | None = None,
    seed: Int[Array, ""] | int = 0,
    explore: int = EXPLORE,
    max_products: int = 300,
    dense: int = DENSE,
) -> Eigenpairs:
    """The algebraically largest eigenvalues of the Hessian of a loss, or those of largest magnitude.

    Few parameters: the whole Hessian is diagonalized. Many: `krylov.extreme_pairs` searches. Compiled once for each
    `loss` (a function, by identity, or a module, by structure) and shape.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.
        k: Number of eigenpairs.
        tolerance: The search ends when the estimated relative error of each value is within it.
        which: "largest", or "magnitude" for the largest in size.
        start: Vectors `(s, n)` to start from, usually the `subspace` of a neighboring point. The last one is mixed with
            the gradient and a random direction; otherwise a search started at exact eigenvectors could not find a
            larger eigenvalue.
        seed: Seed of the random direction.
        explore: The least number of products of a search that has a `start`.
        max_products: The largest number of Hessian-vector products.
        dense: Up to this many parameters the Hessian is diagonalized, unless `start` is given.

    Returns:
        The eigenpairs, each with its residual and an estimate of its error.
    """
    check_search(k, tolerance, max_products, which)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)
    for name, least in (("explore", explore), ("dense", dense)):
        checks.whole(name, least, at_least=0)
    if start is not None:
        start = jnp.asarray(checks.array("start", start, ndim=2))
    return _top_eigenpairs(loss, params, k, tolerance, which, start, seed, explore, max_products, dense)


@eqx.filter_jit
def _top_eigenpairs(loss, params, k, tolerance, which, start, seed, explore, max_products, dense) -> Eigenpairs:
    flat = flatten(loss, params)
    check_count(k, flat.point.size)
    if start is not None and start.shape[1] != flat.point.size:
        raise ValueError(f"start must have rows of {flat.point.size} entries, as the parameters; got {start.shape[1]}")
    gradient, product = linearize_gradient(flat.objective, flat.point)
    if flat.point.size <= dense and start is None:
        return diagonalize(product, flat.point, k, which)
    return search_eigenpairs(product, gradient, k, tolerance, which, start, seed, explore, max_products)


def check_count(k: int, size: int) -> None:
    """No matrix has more eigenvalues than rows."""
    if k > size:
        raise ValueError(f"k must be at most {size}, the number of eigenvalues there are; got {k}")


def search_eigenpairs(
    product: Product,
    gradient: Vector,
    k: int,
    tolerance: float,
    which: Which,
    start: Float[Array, "s n"] | None,
    seed: Any,
    explore: int,
    max_products: int,
) -> Eigenpairs:
    """The top eigenpairs from products with the Hessian, by a search; see `top_eigenpairs`."""
    key = jax.random.fold_in(jax.random.key(0), seed)
    random = jax.random.normal(key, gradient.shape, gradient.dtype)
    elsewhere = _unit(_unit(gradient) + _unit(random))
    rows = elsewhere[None]
    if start is not None:
        rows = start.at[-1].add(MIXED_IN * elsewhere)
        if start.shape[0] < min(k + 1, gradient.size):
            rows = jnp.concatenate([rows, elsewhere[None]])
    least = 0 if start is None else explore
    found = extreme_pairs(
        product, rows, random, k, which=which, tolerance=tolerance, max_products=max_products, explore=least
    )
    ritz = found.ritz
    angles = jnp.minimum(1, ritz.residuals / jnp.maximum(ritz.gaps, ritz.residuals))
    angles = jnp.where(ritz.residuals > 0, angles, 0)
    return Eigenpairs(
        ritz.values[:k],
        ritz.vectors[:k],
        ritz.residuals[:k],
        ritz.errors[:k],
        angles[:k],
        (ritz.excess[:k] <= 1) & ((ritz.excess[-1] <= 1) | (found.basis.size == gradient.size)),
        found.products,
        ritz.vectors,
    )


def _unit(vector: Vector) -> Vector:
    length = jnp.linalg.norm(vector)
    return vector / jnp.where(length > 0, length, 1)


def diagonalize(product: Product, point: Vector, k: int, which: Which) -> Eigenpairs:
    """The top eigenpairs from the whole matrix."""
    matrix = jax.vmap(product)(jnp.eye(point.size, dtype=point.dtype))
    values, columns = jnp.linalg.eigh((matrix + matrix.T) / 2)
    order = jnp.argsort(-values if which == "largest" else -jnp.abs(values))
    values, vectors = values[order][: k + 1], columns[:, order].T[: k + 1]
    residuals = jnp.linalg.norm(vectors @ matrix - values[:, None] * vectors, axis=1)
    distances = jnp.abs(values[:k, None] - values[None, :])
    gaps = jnp.min(distances + jnp.where(jnp.eye(k, values.size, dtype=bool), jnp.inf, 0), axis=1)
    return Eigenpairs(
        values[:k],
        vectors[:k],
        residuals[:k],
        residuals[:k],
        jnp.minimum(1, residuals[:k] / jnp.where(gaps > 0, gaps, 1)),
        jnp.isfinite(values[:k]),
        jnp.asarray(point.size, jnp.int32),
        vectors,
    )
