"""How much the gradients of minibatches differ: the gradient noise scale, and the curvature along batch gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.geometry.hessian import flatten, linearize_gradient

BatchLoss = Callable[[Any, Any], Any]
"""`loss(params, rows)`: the mean of a loss over rows of the data."""
AT_ONCE = 4_000_000
"""Numbers in the gradients that are computed side by side."""


class GradientNoise(NamedTuple):
    """The noise of minibatch gradients, from the spread of gradients of disjoint groups of rows."""

    scale: Float[Array, ""]
    """tr Σ / |G|²: the batch size at which noise and gradient are equally large (McCandlish et al. 2018). NaN if the
    gradient cannot be told apart from noise."""
    error: Float[Array, ""]
    """The standard error of the scale."""
    variance: Float[Array, ""]
    """tr Σ: the summed variance of one example's gradient."""
    squared_norm: Float[Array, ""]
    """|G|², without the bias that noise adds."""


@checks.converts
def gradient_noise(loss: BatchLoss, params: PyTree, data: PyTree, *, rows: int = 1) -> GradientNoise:
    """The gradient noise scale of a loss that is a mean over rows.

    Args:
        loss: `loss(params, batch)`, the mean over the rows of a batch.
        params: Any pytree with floating-point numbers.
        data: Arrays with one row for each example.
        rows: Rows in a group. Gradients are taken of disjoint groups; larger groups are cheaper and estimate the noise
            less precisely. Rows that fill no group are not used.

    Returns:
        The scale with its standard error, tr Σ and |G|².
    """
    count = checks.rows(data=data)
    rows = checks.whole("rows", rows, at_least=1, at_most=count // 2)
    groups = jax.tree.map(lambda leaf: jnp.reshape(leaf[: count // rows * rows], (-1, rows, *leaf.shape[1:])), data)
    return _gradient_noise(checks.function("loss", loss, "loss(params, batch)"), params, groups, rows)


@eqx.filter_jit
def _gradient_noise(loss: BatchLoss, params: PyTree, groups: PyTree, rows: int) -> GradientNoise:
    count = jax.tree.leaves(groups)[0].shape[0]
    size = flatten(lambda own: loss(own, groups), params).point.size

    def gradient(group: PyTree) -> Array:
        flat = flatten(lambda own: loss(own, group), params)
        return jax.grad(flat.objective)(flat.point)

    width = max(1, min(count, AT_ONCE // size))
    mean = _mean(gradient, groups, width)

    def spread(group: PyTree) -> tuple[Array, Array]:
        apart = gradient(group) - mean
        return jnp.sum(apart**2), jnp.sum(apart * mean)

    squares, along = lax.map(spread, groups, batch_size=width)
    variance = jnp.sum(squares) / (count - 1)
    squared_norm = jnp.sum(mean**2) - variance / count
    clear = squared_norm > 0
    scale = jnp.where(clear, rows * variance / jnp.where(clear, squared_norm, 1), jnp.nan)
    influence = (rows * (squares * count / (count - 1) - variance) - 2 * scale * along) / squared_norm
    error = jnp.std(influence, ddof=1) / jnp.sqrt(jnp.asarray(count, scale.dtype))
    return GradientNoise(scale, error, rows * variance, squared_norm)


def _mean(gradient: Callable[[PyTree], Array], groups: PyTree, width: int) -> Array:
    """The mean gradient; at most `width` gradients are held at a time."""
    count = jax.tree.leaves(groups)[0].shape[0]
    whole = count // width * width
    parts = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, width, *leaf.shape[1:]), groups)
    rest = jax.tree.map(lambda leaf: leaf[whole:], groups)

    def add(total: Array, part: PyTree) -> tuple[Array, None]:
        return total + jnp.sum(jax.vmap(gradient)(part), axis=0), None

    first = jax.eval_shape(gradient, jax.tree.map(lambda leaf: leaf[0], groups))
    total, _ = lax.scan(add, jnp.zeros(first.shape, first.dtype), parts)
    if count > whole:
        total, _ = add(total, rest)
    return total / count


class BatchSharpness(NamedTuple):
    """The curvature that steps of SGD meet."""

    value: Float[Array, ""]
    """E[g·Hg] / E[|g|²] over batches, g and H the gradient and the Hessian of the same batch."""
    error: Float[Array, ""]
    """Its standard error over the batches that were drawn."""


@checks.converts
def batch_sharpness(
    loss: BatchLoss, params: PyTree, data: PyTree, *, batch: int, key: PRNGKeyArray, draws: int = 16
) -> BatchSharpness:
    """The curvature of a batch's loss along its own gradient, over random batches (Andreyev & Beneventano 2024).

    SGD at its edge of stability holds it near 2 / learning rate, while the sharpness of the full loss stays below.

    Args:
        loss: `loss(params, batch)`, the mean over the rows of a batch.
        params: Any pytree with floating-point numbers.
        data: Arrays with one row for each example.
        batch: Rows in a batch, drawn without replacement.
        key: Draws the batches.
        draws: How many batches.

    Returns:
        The ratio of the two means, with its standard error.
    """
    checks.function("loss", loss, "loss(params, batch)")
    batch = checks.whole("batch", batch, at_least=1, at_most=checks.rows(data=data))
    checks.key("key", key)
    return _batch_sharpness(loss, params, data, batch, key, checks.whole("draws", draws, at_least=2))


@eqx.filter_jit
def _batch_sharpness(
    loss: BatchLoss, params: PyTree, data: PyTree, batch: int, key: PRNGKeyArray, draws: int
) -> BatchSharpness:
    count = jax.tree.leaves(data)[0].shape[0]

    def along_gradient(key: PRNGKeyArray) -> tuple[Array, Array]:
        rows = jax.random.choice(key, count, (batch,), replace=False)
        drawn = jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], data)
        flat = flatten(lambda own: loss(own, drawn), params)
        gradient, product = linearize_gradient(flat.objective, flat.point)
        return jnp.vdot(gradient, product(gradient)), jnp.vdot(gradient, gradient)

    curvatures, squares = lax.map(along_gradient, jax.random.split(key, draws))
    size = jnp.mean(squares)
    value = jnp.mean(curvatures) / jnp.where(size > 0, size, jnp.nan)
    spread = jnp.std(curvatures - value * squares, ddof=1) / size
    return BatchSharpness(value, spread / jnp.sqrt(jnp.asarray(draws, value.dtype)))
