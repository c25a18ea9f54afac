"""The average gradient outer product, which shows to which input directions a model is sensitive.

    G = 1/n sum_i J(x_i)^T J(x_i),   J = df/dx (for one output: its gradient, a row),

and its alignment with that of the target, tr(G G*) / (|G|_F |G*|_F), between 0 and 1. "Toward Understanding the
Dynamics of Over-parameterized Neural Networks", (4.5), (4.6). The model is a callable module, or any pytree
together with `apply(params, x)`; inputs of any shape are flattened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dynascope import checks

Apply = Callable[[Any, Any], Any]

BLOCK_NUMBERS = 2**22
"""The approximate number of Jacobian entries in memory at once."""


class Factored(NamedTuple):
    """G = rows^T rows, for inputs with more dimensions than there are gradients."""

    rows: Float[Array, "r d"]


Outer = Float[Array, "d d"] | Factored


def call(model: Any, x: Any) -> Any:
    """A callable module at one input."""
    return model(x)


@checks.converts
def agop(model: Any, x: Float[Array, "n ..."], *, apply: Apply = call) -> Float[Array, "d d"]:
    """The average gradient outer product G as a matrix, summed over blocks of points so that memory stays bounded.

    Args:
        model: A callable of one input, or any pytree together with `apply`.
        x: The points, `(n, ...)`; d numbers each.
        apply: `apply(model, x)`, the output at one input. Default: `model(x)`.

    Returns:
        G, shape `(d, d)`.
    """
    x = _points(x)
    count, outputs, dim = _sizes(model, x, apply)
    block = max(1, min(count, BLOCK_NUMBERS // (outputs * dim)))
    whole = count // block * block

    def add(total: Array, points: Array) -> tuple[Array, None]:
        rows = _rows(model, points, apply)
        return total + jnp.matmul(rows.T, rows, precision="highest"), None

    total = jnp.zeros((dim, dim), x.dtype)
    total, _ = lax.scan(add, total, x[:whole].reshape(-1, block, *x.shape[1:]))
    if whole < count:
        total, _ = add(total, x[whole:])
    return total / count


@checks.converts
def agop_factored(model: Any, x: Float[Array, "n ..."], *, apply: Apply = call) -> Factored:
    """The average gradient outer product G by its gradients: smaller than the matrix if inputs are wide.

    Args:
        model: A callable of one input, or any pytree together with `apply`.
        x: The points, `(n, ...)`; d numbers each.
        apply: `apply(model, x)`, the output at one input. Default: `model(x)`.

    Returns:
        `rows` with G = rows^T rows, shape `(r, d)`: one for each point and output.
    """
    x = _points(x)
    _sizes(model, x, apply)
    return Factored(_rows(model, x, apply) / jnp.sqrt(jnp.asarray(x.shape[0], x.dtype)))


@checks.converts
def alignment(one: Outer, other: Outer) -> Float[Array, ""]:
    """The cosine between two outer products.

    Args:
        one: A matrix `(d, d)`, or factored.
        other: A matrix `(d, d)`, or factored.

    Returns:
        tr(G H) / (|G|_F |H|_F), a scalar; 0 if one of them is 0 (as for a network whose units are all dead).
    """
    sizes = check_outer("one", one), check_outer("other", other)
    if sizes[0] != sizes[1]:
        raise ValueError(f"one and other must be over inputs of one size; got {sizes[0]} and {sizes[1]}")
    lengths = jnp.sqrt(_inner(one, one)) * jnp.sqrt(_inner(other, other))
    return jnp.where(lengths > 0, _inner(one, other) / jnp.where(lengths > 0, lengths, 1), 0)


def check_outer(name: str, outer: Outer) -> int:
    """The number of input dimensions of an outer product."""
    matrix = checks.array(name, outer.rows if isinstance(outer, Factored) else outer, ndim=2)
    if not isinstance(outer, Factored) and matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be a square matrix, or factored; got {checks.shown(outer)}")
    return matrix.shape[-1]


def smaller_agop(model: Any, x: Array, apply: Apply) -> Outer:
    """G in the form that takes less memory."""
    count, outputs, dim = _sizes(model, x, apply)
    return agop(model, x, apply=apply) if dim <= count * outputs else agop_factored(model, x, apply=apply)


def _inner(one: Outer, other: Outer) -> Array:
    """tr(G H)."""
    if isinstance(one, Factored):
        if isinstance(other, Factored):
            return jnp.sum(jnp.matmul(one.rows, other.rows.T, precision="highest") ** 2)
        return jnp.sum(jnp.matmul(one.rows, other, precision="highest") * one.rows)
    return _inner(other, one) if isinstance(other, Factored) else jnp.sum(one * other)


def _points(x: Any) -> Array:
    found = checks.jax_array("x", x, min_ndim=2)
    return found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(jnp.result_type(float))


def _sizes(model: Any, x: Array, apply: Apply) -> tuple[int, int, int]:
    """Points, outputs, input dimensions."""
    checks.function("apply", apply, "apply(model, x)")
    if apply is call:
        checks.function("model", model, "of one input (or give `apply`)")
    output = jax.eval_shape(lambda point: apply(model, point), x[0])
    return x.shape[0], output.size, x[0].size


def _rows(model: Any, points: Array, apply: Apply) -> Float[Array, "r d"]:
    """The Jacobians at some points, one below the other."""

    def jacobian(point: Array) -> Array:
        return jax.jacrev(lambda flat: apply(model, flat.reshape(points.shape[1:])).ravel())(point.ravel())

    jacobians = jax.vmap(jacobian)(points)
    return jacobians.reshape(-1, jacobians.shape[-1])
