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
from dynascope.geometry.krylov import Aim, Which, extreme_pairs, power_of_two

DENSE = 400
"""Up to this many parameters the whole Hessian is formed and diagonalized, unless vectors to start from are given."""

MIXED_IN = 0.1
"""How much of another direction goes into a warm start, beside vectors of length 1."""

CHECK_EVERY = 64
"""Along a trajectory the remainder is checked at the first point and then at every this many."""


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
    """The value's error: residual^2 / gap if the gap is wider than the residual, else the residual; and rounding. The
    gap is that to the largest value which the check left open; unchecked, an estimate from the next pair."""
    angles: Float[Array, " k"]
    """An estimate of the vector's error, as the sine of an angle: residual / gap, at most 1 (Davis & Kahan 1970)."""
    converged: Bool[Array, " k"]
    """Whether the error is finite and within the tolerance, relative to the value."""
    missed: Float[Array, ""]
    """The probability that the true k largest are further above `values` than `errors` is at most this: 1e-3 if the
    check came to its end, 0 if the whole space was searched, 1 if there is no such bound."""
    products: Int[Array, ""]
    """Number of Hessian-vector products."""
    subspace: Float[Array, "s n"]
    """The k vectors and the next one: a start for the search at a neighboring point."""


@checks.converts
def top_eigenpairs(
    loss: Loss,
    params: PyTree,
    k: int = 1,
    *,
    tolerance: float = 1e-6,
    which: Which = "largest",
    start: Float[Array, "s n"] | np.ndarray | None = None,
    seed: Int[Array, ""] | int = 0,
    checked: bool | Bool[Array, ""] = True,
    max_products: int = 300,
    dense: int = DENSE,
) -> Eigenpairs:
    """The algebraically largest eigenvalues of the Hessian of a loss, or those of largest magnitude.

    Few parameters: the whole Hessian is diagonalized. Many: `krylov.extreme_pairs` searches. Compiled once for each
    `loss` (a function, by identity, or a module, by structure) and shape.

    A search from one vector finds each eigenvalue once, however often it is repeated. So the pairs found are projected
    out and Lanczos starts again from a random vector, until no larger value comes up; copies are found that way. An
    eigenvector escapes only if the random vector has next to no component along it. The Lanczos coefficients show how
    small that component would have to be, and so bound the probability, `missed`, by 1e-3 (`geometry/remainder.py`).

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree with n floating-point numbers.
        k: Number of eigenpairs.
        tolerance: The search ends when the estimated relative error of each value is within it.
        which: "largest", or "magnitude" for the largest in size.
        start: Vectors `(s, n)` to start from, usually the `subspace` of a neighboring point. The last one is mixed with
            the gradient and a random direction; otherwise a search started at exact eigenvectors could not find a
            larger eigenvalue.
        seed: Seed of the random directions.
        checked: Whether to check that nothing larger was missed. Without the check one eigenvalue costs about half as
            much, and copies are missed. May be traced, so that some points along a trajectory are checked.
        max_products: The largest number of Hessian-vector products.
        dense: Up to this many parameters the Hessian is diagonalized, unless `start` is given.

    Returns:
        The eigenpairs, each with its residual and an estimate of its error.
    """
    check_search(k, tolerance, max_products, which)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)
    checks.whole("dense", dense, at_least=0)
    if not isinstance(checked, jax.Array):
        checks.flags(checked=checked)
    if start is not None:
        start = jnp.asarray(checks.array("start", start, ndim=2))
    return _top_eigenpairs(loss, params, Aim(k, which, tolerance, max_products, checked), start, seed, dense)


@eqx.filter_jit
def _top_eigenpairs(loss, params, aim, start, seed, dense) -> Eigenpairs:
    flat = flatten(loss, params)
    check_count(aim.k, flat.point.size)
    if start is not None and start.shape[1] != flat.point.size:
        raise ValueError(f"start must have rows of {flat.point.size} entries, as the parameters; got {start.shape[1]}")
    gradient, product = linearize_gradient(flat.objective, flat.point)
    if flat.point.size <= dense and start is None:
        return diagonalize(product, flat.point, aim)
    return search_eigenpairs(product, gradient, aim, start, seed)


def check_count(k: int, size: int) -> None:
    """Check that k is at most the number of eigenvalues."""
    if k > size:
        raise ValueError(f"k must be at most {size}, the number of eigenvalues there are; got {k}")


def search_eigenpairs(
    product: Product, gradient: Vector, aim: Aim, start: Float[Array, "s n"] | None, seed: Any
) -> Eigenpairs:
    """The top eigenpairs from products with the Hessian, by a search; see `top_eigenpairs`."""
    key = jax.random.fold_in(jax.random.key(0), seed)
    random = _unit(jax.random.normal(key, gradient.shape, gradient.dtype))
    if start is None:
        rows = random[None]
    else:
        elsewhere = _unit(_unit(gradient) + random)
        rows = start.at[-1].add(MIXED_IN * elsewhere)
        if start.shape[0] < min(aim.k + 1, gradient.size):
            rows = jnp.concatenate([rows, elsewhere[None]])
    found = extreme_pairs(product, rows, key, aim)
    ritz, k = found.ritz, aim.k
    angles = jnp.minimum(1, ritz.residuals / jnp.maximum(ritz.gaps, ritz.residuals))
    angles = jnp.where(ritz.residuals > 0, angles, 0)
    return Eigenpairs(
        ritz.values[:k],
        ritz.vectors[:k],
        ritz.residuals[:k],
        found.errors[:k],
        angles[:k],
        within(found.errors[:k], ritz.values[:k], aim),
        found.missed,
        found.products,
        ritz.vectors,
    )


def within(errors: Float[Array, " k"], values: Float[Array, " k"], aim: Aim) -> Bool[Array, " k"]:
    """Whether the errors are finite and within the tolerance."""
    return jnp.isfinite(errors) & jnp.isfinite(values) & (errors <= aim.tolerance * jnp.abs(values))


def _unit(vector: Vector) -> Vector:
    length = jnp.linalg.norm(vector)
    return vector / jnp.where(length > 0, length, 1)


def diagonalize(product: Product, point: Vector, aim: Aim) -> Eigenpairs:
    """The top eigenpairs from the whole matrix."""
    matrix = jax.vmap(product)(jnp.eye(point.size, dtype=point.dtype))
    scale, k = power_of_two(jnp.max(jnp.abs(matrix))), aim.k
    matrix = matrix / scale
    values, columns = jnp.linalg.eigh((matrix + matrix.T) / 2)
    rounding = 4 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))
    order = jnp.argsort(-values if aim.which == "largest" else -jnp.abs(values))
    values, vectors = values[order][: k + 1], columns[:, order].T[: k + 1]
    residuals = jnp.linalg.norm(vectors @ matrix - values[:, None] * vectors, axis=1)
    distances = jnp.abs(values[:k, None] - values[None, :])
    gaps = jnp.min(distances + jnp.where(jnp.eye(k, values.size, dtype=bool), jnp.inf, 0), axis=1)
    left = gaps - jnp.max(residuals)
    apart = left > residuals[:k]
    errors = residuals[:k] * jnp.where(apart, residuals[:k] / jnp.where(apart, left, 1), 1) + rounding
    return Eigenpairs(
        scale * values[:k],
        vectors[:k],
        scale * residuals[:k],
        scale * errors,
        jnp.minimum(1, residuals[:k] / jnp.where(gaps > 0, gaps, 1)),
        within(errors, values[:k], aim),
        jnp.zeros((), values.dtype),
        jnp.asarray(point.size, jnp.int32),
        vectors,
    )
