"""Training on squared loss by the tangent kernel: its eigenpairs, critical learning rates, the loss by eigenspaces.

Two conventions for squared loss are in use, and a learning rate has no meaning without one: "mse", the mean over all
entries of (f - y)^2, and "sum", half the sum over them. With N entries (n examples of k outputs) gradient descent on a
linear model is stable below N / lambda_max(K), or 2 / lambda_max(K): the critical rate. "Toward Understanding the
Dynamics of Over-parameterized Neural Networks", Sections 3.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from dynascope import checks
from dynascope.geometry.eigenpairs import Eigenpairs, check_count, check_search, diagonalize, search_eigenpairs
from dynascope.geometry.krylov import Aim
from dynascope.geometry.layerwise_kernel import layers_of
from dynascope.geometry.tangent_kernel import (
    Apply,
    Vector,
    check_examples,
    examples,
    flat_outputs,
    kernel_product,
    tangent_kernel,
    usual_budget,
)

Convention = Literal["mse", "sum"]

FORMED = 2000
"""Up to this many rows the kernel is formed as a matrix, if that fits: it costs a few products by derivatives."""
DENSE = 256
"""Up to this many rows it is diagonalized, unless vectors to start from are given."""
DENSE_CHANGE = 1000
"""Up to this many rows a change of the kernel is diagonalized: that takes less than forming the two kernels, and the
program compiles in a fraction of the time of two searches."""


def kernel_operator(
    model: PyTree, x: PyTree, apply: Apply | None = None, *, formed: bool | None = None, rows: int | None = None
) -> tuple[int, Callable[[Vector], Vector], Float[Array, "nk nk"] | None]:
    """The kernel as an operator: its size, v -> K v, and the matrix if it is formed.

    It is formed unless there are too many rows for that, or more derivatives than fit the usual budget (`formed`
    decides otherwise); if it is not, products take `rows` examples at a time.
    """
    flat = flat_outputs(model, apply)
    size = examples(x) * flat.count(x)
    if formed is None:
        formed = size <= FORMED and examples(x) * layers_of(*flat, x).bytes() <= usual_budget()
    if not formed:
        return size, kernel_product(model, x, apply=apply, rows=rows)[1], None
    matrix = tangent_kernel(model, x, apply=apply)
    return size, lambda vector: matrix @ vector, matrix


@checks.converts
def kernel_eigenpairs(
    model: PyTree,
    x: PyTree,
    k: int = 1,
    *,
    apply: Apply | None = None,
    tolerance: float = 1e-5,
    start: Float[Array, "s nk"] | np.ndarray | None = None,
    seed: Int[Array, ""] | int = 0,
    max_products: int = 300,
    formed: bool | None = None,
    rows: int | None = None,
) -> Eigenpairs:
    """The k largest eigenvalues of the tangent kernel, with vectors and residuals.

    Up to 256 rows the kernel is diagonalized, unless `start` is given; otherwise it is searched by Rayleigh-Ritz.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`.
        k: Number of eigenpairs.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        tolerance: The search ends when the estimated relative error of each value is within it.
        start: Vectors to start from, one per row: the `subspace` found at a neighboring point.
        seed: Seed of the random direction that is mixed into the start.
        max_products: The largest number of products with the kernel.
        formed: Whether to form the kernel as a matrix. Default: if that is cheap.
        rows: Number of examples at a time in products, if the kernel is not formed. Default: all.

    Returns:
        The eigenpairs, each with its residual and an estimate of its error.
    """
    check_search(k, tolerance, max_products)
    check_examples(x, apply, formed, rows)
    checks.whole("seed", seed, at_least=0, at_most=2**32 - 1)
    if start is not None:
        start = jnp.asarray(checks.array("start", start, ndim=2))
    aim = Aim(k, "largest", tolerance, max_products)
    return _eigenpairs(model, x, aim, apply, start, seed, formed, rows)


@eqx.filter_jit
def _eigenpairs(model, x, aim, apply, start, seed, formed, rows) -> Eigenpairs:
    size, product, matrix = kernel_operator(model, x, apply, formed=formed, rows=rows)
    check_count(aim.k, size)
    if start is not None and start.shape[1] != size:
        raise ValueError(f"start must have rows of {size} entries, as the kernel; got {start.shape[1]}")
    return pairs_of(size, product, matrix, aim, start, seed)


def pairs_of(
    size: int,
    product: Callable[[Vector], Vector],
    matrix: Float[Array, "nk nk"] | None,
    aim: Aim,
    start: Float[Array, "s nk"] | None = None,
    seed: Any = 0,
) -> Eigenpairs:
    """The same for the result of `kernel_operator`, with at most as many pairs as it has rows."""
    number = jax.eval_shape(product, jnp.zeros(size)).dtype if matrix is None else matrix.dtype
    everywhere = jnp.ones(size, number)
    aim = aim._replace(k=min(aim.k, size))
    if matrix is not None and size <= DENSE and start is None:
        return diagonalize(product, everywhere, aim)
    return search_eigenpairs(product, everywhere, aim, start, seed)


@checks.converts
def critical_rate(
    model: PyTree,
    x: PyTree,
    *,
    apply: Apply | None = None,
    convention: Convention = "mse",
    tolerance: float = 1e-4,
    formed: bool | None = None,
    rows: int | None = None,
) -> Float[Array, ""]:
    """The learning rate above which gradient descent on the linearized model diverges.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`: the whole training set, or a batch for the critical rate of that batch.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        convention: "mse" if the loss is the mean of (f - y)^2 over all entries, "sum" if it is half their sum.
        tolerance: Relative error of the kernel's largest eigenvalue.
        formed: Whether to form the kernel as a matrix. Default: if that is cheap.
        rows: Number of examples at a time in products, if the kernel is not formed. Default: all.

    Returns:
        The critical learning rate, a scalar.
    """
    slope(1, convention)
    found = kernel_eigenpairs(model, x, 1, apply=apply, tolerance=tolerance, formed=formed, rows=rows)
    return rate_of(found.values[0], found.vectors.shape[1], convention)


def slope(count: int, convention: Convention) -> float:
    """s in r <- (I - s eta K) r, one step on the residual of `count` entries: 1 for the sum, 2/N for the mean."""
    checks.one_of("convention", convention, get_args(Convention))
    return 1.0 if convention == "sum" else 2 / count


def rate_of(largest: Float[Array, ""], size: int, convention: Convention = "mse") -> Float[Array, ""]:
    """The critical rate for the largest eigenvalue of a kernel with `size` rows."""
    return 2 / (slope(size, convention) * largest)


@checks.converts
def kernel_change(
    model: PyTree,
    start: PyTree,
    x: PyTree,
    *,
    apply: Apply | None = None,
    tolerance: float = 1e-4,
    formed: bool | None = None,
) -> Float[Array, ""]:
    """||K - K0|| / ||K0|| in the spectral norm: how far the tangent kernel of one model is from that of another.

    Args:
        model: The model with kernel K: a callable of one example, or any pytree together with `apply`.
        start: The model with kernel K0.
        x: The examples, `(n, ...)`.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        tolerance: Relative error of the norms.
        formed: Whether to form the kernels as matrices. Default: if that is cheap.

    Returns:
        The relative change, a scalar.
    """
    check_search(1, tolerance, 1)
    check_examples(x, apply, formed)
    return _change(model, start, x, apply, tolerance, formed)


@eqx.filter_jit
def _change(model, start, x, apply, tolerance, formed) -> Float[Array, ""]:
    size, now, matrix = kernel_operator(model, x, apply, formed=formed)
    _, then, before = kernel_operator(start, x, apply, formed=formed)
    if matrix is not None and before is not None and size <= DENSE_CHANGE:
        return jnp.max(jnp.abs(jnp.linalg.eigvalsh(matrix - before))) / jnp.linalg.eigvalsh(before)[-1]
    number = jax.eval_shape(now, jnp.zeros(size)).dtype
    aim = Aim(1, "magnitude", tolerance)
    difference = search_eigenpairs(lambda vector: now(vector) - then(vector), jnp.ones(size, number), aim, None, 0)
    norm = pairs_of(size, then, before, aim._replace(which="largest")).values[0]
    return jnp.abs(difference.values[0]) / norm


class Split(NamedTuple):
    """The loss in the span of the top s eigenvectors of the kernel, and in the rest, for several s."""

    top: Float[Array, " splits"]
    """The loss in the span."""
    rest: Float[Array, " splits"]
    """The loss in its complement."""


def largest_split(splits: Sequence[int]) -> int:
    """How many eigenvectors these splits need."""
    if not isinstance(splits, Sequence) or isinstance(splits, str) or not splits:
        raise TypeError(f"splits must be a list of numbers of eigenvectors, such as (1, 5); got {checks.shown(splits)}")
    return max(checks.whole("splits", split, at_least=1) for split in splits)


def split_loss(
    vectors: Float[Array, "k nk"], errors: Vector, splits: Sequence[int], convention: Convention = "mse"
) -> Split:
    """The loss of these errors, their mean square or half the sum of squares: L_top + L_rest, for the first s of these
    orthonormal vectors, largest eigenvalue first."""
    along = vectors @ errors
    top = [jnp.sum(along[:s] ** 2) for s in splits]
    rest = [jnp.sum((errors - along[:s] @ vectors[:s]) ** 2) for s in splits]
    scale = slope(errors.size, convention) / 2
    return Split(scale * jnp.stack(top), scale * jnp.stack(rest))


@checks.converts
def eigenspace_losses(
    model: PyTree,
    x: PyTree,
    y: Float[Array, "n ..."],
    splits: Sequence[int] = (1, 5),
    *,
    apply: Apply | None = None,
    convention: Convention = "mse",
    tolerance: float = 1e-5,
    formed: bool | None = None,
) -> Split:
    """L_{<=s} and L_{>s} (4.2): the squared loss split by the eigenvectors of the model's CURRENT kernel.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`.
        y: The targets, `(n, ...)`, as many numbers as the outputs.
        splits: The numbers s of top eigenvectors.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        convention: "mse" for the mean of (f - y)^2 over all entries, "sum" for half their sum.
        tolerance: Relative error of the eigenvalues.
        formed: Whether to form the kernel as a matrix. Default: if that is cheap.

    Returns:
        The two losses for every s, shape `(splits,)` each.
    """
    slope(1, convention)
    check_examples(x, apply, formed)
    k = min(largest_split(splits), checks.rows(x=x, y=y) * flat_outputs(model, apply).count(x))
    found = kernel_eigenpairs(model, x, k, apply=apply, tolerance=tolerance, formed=formed)
    return split_loss(found.vectors, errors_of(model, x, y, apply), splits, convention)


def errors_of(model: PyTree, x: PyTree, y: Float[Array, "n ..."], apply: Apply | None = None) -> Vector:
    """f - y, flat like the rows of the kernel (n k,)."""
    flat = flat_outputs(model, apply)
    found = jax.vmap(lambda x: flat.function(flat.weights, x))(x)
    return (found - _like(y, found)).ravel()


def _like(y: Float[Array, ...], outputs: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The targets in the shape of the outputs."""
    if y.size != outputs.size:
        raise ValueError(f"y must have as many entries as the outputs, of shape {outputs.shape}; got shape {y.shape}")
    return y.reshape(outputs.shape)


@checks.converts
def polyak_ratio(model: PyTree, x: PyTree, y: Float[Array, "n ..."], *, apply: Apply | None = None) -> Float[Array, ""]:
    """||grad L||^2 / (2 L) for L = half the sum of squared errors, which is r^T K r / r^T r.

    The PL* condition with constant mu says that it is at least mu; it is at least the smallest eigenvalue of K.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`.
        y: The targets, `(n, ...)`, as many numbers as the outputs.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.

    Returns:
        The ratio, a scalar.
    """
    check_examples(x, apply)
    checks.rows(x=x, y=y)
    return _polyak_ratio(model, x, y, apply)


@eqx.filter_jit
def _polyak_ratio(model: PyTree, x: PyTree, y: Array, apply: Apply | None) -> Float[Array, ""]:
    flat = flat_outputs(model, apply)

    def half_sum(weights: PyTree) -> Any:
        found = jax.vmap(lambda x: flat.function(weights, x))(x)
        return jnp.sum((found - _like(y, found)) ** 2) / 2

    value, gradient = jax.value_and_grad(half_sum)(flat.weights)
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)) / (2 * value)
