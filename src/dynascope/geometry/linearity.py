"""How far an output is from linear in its parameters: Hessian norms, whole and by blocks, and the gap on a sphere.

An output is any scalar `function(params)` over any pytree, such as `lambda net: net(x)[0]`. The predictions are in
`theory.linearity`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.geometry.eigenpairs import check_search, top_eigenpairs
from dynascope.geometry.hessian import Loss, flatten, linearize_gradient
from dynascope.geometry.krylov import Aim, extreme_pairs


class HessianNorm(NamedTuple):
    """The spectral norm of a Hessian, with estimates of its error; scalars."""

    value: Float[Array, ""]
    """The largest |lambda|."""
    residual: Float[Array, ""]
    """||Hv - lambda v||: |lambda| is the size of some eigenvalue to within this."""
    error: Float[Array, ""]
    """The estimated error of the value."""
    products: Int[Array, ""]
    """Number of Hessian-vector products."""


@checks.converts
def hessian_norm(function: Loss, params: PyTree, *, tolerance: float = 1e-4, max_products: int = 300) -> HessianNorm:
    """The spectral norm of a Hessian: its largest eigenvalue in magnitude.

    ReLU outputs have eigenvalues in pairs of opposite sign; the search by magnitude handles them.

    Args:
        function: `function(params)`, a scalar.
        params: Any pytree.
        tolerance: Relative error at which the search ends.
        max_products: The largest number of Hessian-vector products.

    Returns:
        The norm, with its residual and an estimate of its error.
    """
    checks.function("function", function, "function(params)")
    found = top_eigenpairs(function, params, tolerance=tolerance, which="magnitude", max_products=max_products)
    return HessianNorm(jnp.abs(found.values[0]), found.residuals[0], found.errors[0], found.products)


class BlockNorms(NamedTuple):
    """Spectral norms of the blocks of a Hessian, for every pair of groups, and the errors they are known to."""

    values: Float[Array, "g g"]
    """The norms."""
    errors: Float[Array, "g g"]
    """A singular value lies within this of the value (residual / value of the search for its square)."""


@checks.converts
def block_norms(
    function: Loss, params: PyTree, groups: PyTree, *, tolerance: float = 1e-4, max_products: int = 300
) -> BlockNorms:
    """||d^2 f / d w_a d w_b|| for every two groups of weights.

    A product with a block is one with the whole Hessian, restricted to b before and to a after.

    Args:
        function: `function(params)`, a scalar.
        params: Any pytree.
        groups: The number of its group for each floating-point leaf, in the structure of `params`
            (`DAG.layer_numbers()` gives the layers).
        tolerance: Relative error at which each search ends.
        max_products: The largest number of Hessian-vector products for each pair.

    Returns:
        The norms and their errors, `(groups, groups)` each, in the order of the numbers.
    """
    check_search(1, tolerance, max_products)
    return _block_norms(function, params, groups, float(tolerance), max_products)


@eqx.filter_jit
def _block_norms(function: Loss, params: PyTree, groups: PyTree, tolerance: Any, max_products: int) -> BlockNorms:
    flat = flatten(function, params, "function")
    floating = jax.tree.leaves(eqx.filter(params, eqx.is_inexact_array))
    numbers = jax.tree.leaves(groups)
    if len(numbers) != len(floating):
        raise ValueError(f"groups must hold a number for each of {len(floating)} arrays in params; got {len(numbers)}")
    for number in numbers:
        checks.whole("groups", number)
    of = np.concatenate([np.full(leaf.size, number) for leaf, number in zip(floating, numbers, strict=True)])
    masks = jnp.asarray(of[None, :] == np.unique(of)[:, None], flat.point.dtype)
    _, product = linearize_gradient(flat.objective, flat.point)
    key = jax.random.key(0)
    random = jax.random.normal(key, flat.point.shape, flat.point.dtype)
    aim = Aim(1, "largest", 2 * tolerance, max_products // 2, checked=False)

    def norm(pair: Int[Array, " two"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        a, b = masks[pair[0]], masks[pair[1]]
        found = extreme_pairs(lambda v: b * product(a * product(b * v)), (b * random)[None], key, aim)
        value = jnp.sqrt(jnp.maximum(found.ritz.values[0], 0))
        return value, found.ritz.residuals[0] / jnp.where(value > 0, value, 1)

    count = masks.shape[0]
    above = np.array([(i, j) for i in range(count) for j in range(i, count)], dtype=np.int32)
    values, errors = lax.map(norm, jnp.asarray(above))
    first, second = above.T

    def square(entries: Float[Array, " pairs"]) -> Float[Array, "g g"]:
        blank = jnp.zeros((count, count), entries.dtype)
        return blank.at[first, second].set(entries).at[second, first].set(entries)

    return BlockNorms(square(values), square(errors))


class LinearityGap(NamedTuple):
    """The largest |f - f_lin| seen on a sphere, and over each family of directions by itself."""

    value: Float[Array, ""]
    """The largest of the three."""
    random: Float[Array, ""]
    """Over random directions: far smaller than the supremum over the sphere."""
    gradient: Float[Array, ""]
    """Along the gradient."""
    hessian: Float[Array, ""]
    """Over the two Hessian eigenvectors of largest eigenvalue in size."""
    norm: Float[Array, ""]
    """The Hessian norm at the center."""
    norm_error: Float[Array, ""]
    """The estimated error of that norm."""


@checks.converts
def linearity_gap(
    function: Loss,
    params: PyTree,
    radius: Float[Array, ""] | float,
    key: PRNGKeyArray,
    *,
    directions: int = 16,
    among: PyTree | None = None,
) -> LinearityGap:
    """|f - f_lin| on a sphere around the parameters, with f_lin the linearization at the center.

    The directions are random ones, the gradient and the top eigenvectors of the Hessian, each both ways: a lower bound
    of the supremum over the sphere.

    Args:
        function: `function(params)`, a scalar.
        params: Any pytree: the center.
        radius: The radius of the sphere.
        key: Key of the random directions.
        directions: Number of random directions.
        among: Marks, in the structure of `params`, of the parameters that random directions change (`DAG.edge_marks()`
            marks the weights of edges). Default: all.

    Returns:
        The largest gap, that of each family of directions, and the Hessian norm at the center.
    """
    radius = checks.real("radius", radius, above=0)
    checks.key("key", key)
    checks.whole("directions", directions, at_least=1, at_most=2**20)
    return _linearity_gap(function, params, radius, key, directions, among)


@eqx.filter_jit
def _linearity_gap(function, params, radius, key, directions, among) -> LinearityGap:
    flat = flatten(function, params, "function")
    value, gradient = jax.value_and_grad(flat.objective)(flat.point)
    top = top_eigenpairs(flat.objective, flat.point, min(2, flat.point.size), tolerance=1e-3, which="magnitude")
    random = jax.random.normal(key, (directions, flat.point.size), flat.point.dtype)
    if among is not None:
        leaves = [
            mark.astype(int) if getattr(mark, "dtype", 0) == np.bool_ else mark for mark in jax.tree.leaves(among)
        ]
        marks = [jnp.ravel(checks.array("among", mark)) for mark in leaves]
        if sum(mark.size for mark in marks) != flat.point.size:
            raise ValueError(f"among must mark each of {flat.point.size} parameters; got {sum(m.size for m in marks)}")
        random = random * jnp.concatenate(marks).astype(random.dtype)
    rows = jnp.concatenate([random, gradient[None], top.vectors])
    lengths = jnp.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / jnp.where(lengths > 0, lengths, 1)

    def apart(row: Float[Array, " n"]) -> Float[Array, ""]:
        def one_way(step: Float[Array, " n"]) -> Float[Array, ""]:
            return jnp.abs(flat.objective(flat.point + step) - value - gradient @ step)

        return jnp.maximum(one_way(radius * row), one_way(-radius * row))

    gaps = lax.map(apart, rows)
    parts = jnp.max(gaps[:directions]), gaps[directions], jnp.max(gaps[directions + 1 :])
    return LinearityGap(jnp.max(gaps), *parts, jnp.abs(top.values[0]), top.errors[0])
