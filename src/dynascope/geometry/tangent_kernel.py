"""The empirical tangent kernel of any model: K = J J^T, with J the derivative of all outputs in all parameters.

A model is a callable module, or any pytree of arrays together with `apply(params, x)` for ONE example; its outputs have
any shape and are flattened. With n examples and k outputs K has n k rows, those of an example side by side. Parameters
are the floating-point leaves; K of half precision is summed in float32. There are two ways to compute it:

| way | costs about | memory |
|---|---|---|
| by layers (`layerwise_kernel`) | k gradients and a product of matrices for each map | `budget` |
| by products | one gradient and one forward derivative a product | activations |

`tangent_kernel` makes the matrix by layers. If the examples do not fit the budget they are taken in blocks, each
against each; the matrix itself is not counted. `kernel_product` is the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.layerwise_kernel import full_precision, layerwise_kernel

Apply = Callable[[Any, Any], Any]
Vector = Float[Array, " nk"]


def usual_budget() -> int:
    """Bytes in memory at a time by default: 1 GiB, or a quarter of the memory of an accelerator."""
    memory = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return max(2**30, memory // 4)


@checks.converts
def tangent_kernel(
    model: PyTree, x: PyTree, *, apply: Apply | None = None, budget: int | None = None
) -> Float[Array, "nk nk"]:
    """The tangent kernel of a model with k outputs at n examples.

    The matrix products, convolutions and lookups in the model's program are found, and the kernel is made of their
    inputs and the derivatives with respect to their outputs. Parameters that act in other ways go by gradients.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        budget: Bytes of derivatives in memory at a time; if they do not fit, examples are taken in blocks. Default: 1
            GiB, or a quarter of an accelerator's memory.

    Returns:
        The kernel, `(n k, n k)`, the rows of an example side by side.
    """
    check_examples(x, apply)
    if budget is not None:
        checks.whole("budget", budget, at_least=1)
    flat_outputs(model, apply)  # refused before it is traced
    return _kernel(model, x, apply, budget)


@eqx.filter_jit
def _kernel(model: PyTree, x: PyTree, apply: Apply | None, budget: int | None) -> Float[Array, "nk nk"]:
    return layerwise_kernel(*flat_outputs(model, apply), x, usual_budget() if budget is None else budget)


class FlatOutputs(NamedTuple):
    """A model as a function of its floating-point leaves, whose value at one example is one vector."""

    function: Callable[[PyTree, Any], Array]
    weights: PyTree

    def count(self, x: PyTree) -> int:
        """The number of outputs of one example."""
        one = jax.tree.map(lambda leaf: leaf[0], x)
        return math.prod(jax.eval_shape(self.function, self.weights, one).shape)


def flat_outputs(model: PyTree, apply: Apply | None = None) -> FlatOutputs:
    """The model as a function of its floating-point leaves."""
    checks.not_torch("model", model)
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    if apply is None and not callable(model):
        raise TypeError(f"model must be callable, or apply(params, x) must be given; got {checks.shown(model)}")
    if not jax.tree.leaves(weights):
        raise TypeError(
            f"model must hold floating-point arrays, its parameters; got {type(model).__name__}, which has none"
        )

    def function(weights: PyTree, x: Any) -> Array:
        whole = eqx.combine(weights, rest)
        return jnp.ravel(whole(x) if apply is None else apply(whole, x))

    return FlatOutputs(function, weights)


def check_examples(x: PyTree, apply: Any, formed: Any = None, rows: Any = None) -> None:
    """The options that all functions of the kernel share."""
    checks.rows(x=x)
    if apply is not None:
        checks.function("apply", apply, "apply(params, x)")
    checks.one_of("formed", formed, (None, True, False))
    if rows is not None:
        checks.whole("rows", rows, at_least=1)


def examples(x: PyTree) -> int:
    """The number of examples."""
    return jax.tree.leaves(x)[0].shape[0]


def _in_full(vector: Vector) -> Vector:
    return vector.astype(full_precision(vector.dtype))


@checks.converts
def kernel_product(
    model: PyTree, x: PyTree, *, apply: Apply | None = None, rows: int | None = None
) -> tuple[Vector, Callable[[Vector], Vector]]:
    """The product with the tangent kernel, v -> K v = J (J^T v), by a reverse and a forward derivative, without J or K.

    Args:
        model: A callable of one example, or any pytree together with `apply`.
        x: The examples, `(n, ...)`.
        apply: `apply(model, x)`, the outputs at one example. Default: `model(x)`.
        rows: Number of examples at a time, a divisor of n: less memory, for a forward pass or two more in each product.
            Default: all, with the forward pass shared by all products.

    Returns:
        The outputs `(n k,)`, and the product as a function of vectors `(n k,)`.
    """
    check_examples(x, apply, rows=rows)
    n, flat = examples(x), flat_outputs(model, apply)

    def outputs(weights: PyTree, x: PyTree) -> Vector:
        return jnp.ravel(jax.vmap(lambda x: flat.function(weights, x))(x))

    if rows is None or rows >= n:
        value, forward = jax.linearize(lambda weights: outputs(weights, x), flat.weights)
        backward = jax.linear_transpose(forward, flat.weights)
        return value, lambda vector: _in_full(forward(backward(vector.astype(value.dtype))[0]))
    if n % rows:
        raise ValueError(f"rows must divide the {n} examples; got {rows}")
    blocks = jax.tree.map(lambda leaf: leaf.reshape(n // rows, rows, *leaf.shape[1:]), x)

    def product(vector: Vector) -> Vector:
        def pull_back(total: PyTree, part: tuple[PyTree, Vector]) -> tuple[PyTree, None]:
            value, pull = jax.vjp(lambda weights: outputs(weights, part[0]), flat.weights)
            return jax.tree.map(jnp.add, total, pull(part[1].astype(value.dtype))[0]), None

        nothing = jax.tree.map(jnp.zeros_like, flat.weights)
        direction, _ = lax.scan(pull_back, nothing, (blocks, vector.reshape(n // rows, -1)))
        pushed = lax.map(
            lambda x: jax.jvp(lambda weights: outputs(weights, x), (flat.weights,), (direction,))[1], blocks
        )
        return _in_full(jnp.ravel(pushed))

    return jnp.ravel(lax.map(lambda x: outputs(flat.weights, x), blocks)), product
