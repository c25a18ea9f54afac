"""A loss along a line: its derivatives, its minimum in the direction of a step, and how it bends there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.hessian import Loss, Vector, flatten

Line = Callable[[Float[Array, ""]], Any]


def derivatives(line: Line, at: Float[Array, ""], order: int) -> Float[Array, " _"]:
    """A function of one number and its derivatives, 0 to `order`: forward differentiation of forward differentiation.

    Each nesting carries the lower orders along, and the compiler merges their common parts, so that order 4 costs about
    as much as truncated Taylor arithmetic (for a tanh network less than `jax.experimental.jet`, which moreover has no
    rule for the ReLU). It is exact wherever the function is differentiable: through a ReLU network with squared loss it
    gives the coefficients of the polynomial piece that contains the point, with JAX's choice of slope at a kink (0 for
    the ReLU at 0).
    """
    tower: Callable[[Any], tuple[Any, ...]] = lambda t: (line(t),)  # noqa: E731
    for _ in range(order):
        tower = _with_next(tower)
    return jnp.stack(tower(at))


def _with_next(tower: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    def longer(t: Any) -> tuple[Any, ...]:
        values, slopes = jax.jvp(tower, (t,), (jnp.ones_like(t),))
        return *values, slopes[-1]

    return longer


def as_vector(direction: PyTree) -> Vector:
    """A direction in parameter space as one flat vector (n,)."""
    return ravel_pytree(eqx.filter(direction, eqx.is_inexact_array))[0]


@checks.converts
def directional_derivatives(loss: Loss, params: PyTree, direction: PyTree, order: int = 4) -> Float[Array, " _"]:
    """The derivatives of f(t) = loss(params + t u) at t = 0.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree; its n floating-point numbers are differentiated.
        direction: u, flat `(n,)` or in the structure of `params`. The k-th derivative scales with |u|^k: give a unit
            vector if sizes matter.
        order: The highest order, at most 8.

    Returns:
        f(0), f'(0), ..., shape `(order + 1,)`.
    """
    return _directional(loss, params, direction, checks.whole("order", order, at_least=0, at_most=8))


@eqx.filter_jit
def _directional(loss: Loss, params: PyTree, direction: PyTree, order: int) -> Float[Array, " _"]:
    flat, u = flatten(loss, params), as_vector(direction)
    if u.shape != flat.point.shape:
        raise ValueError(f"direction must have {flat.point.size} entries, as the parameters; got {u.size}")
    return derivatives(lambda t: flat.objective(flat.point + t * u), jnp.zeros((), flat.point.dtype), order)


class LineMinimum(NamedTuple):
    """The point along a gradient step at which the loss is least."""

    fraction: Float[Array, ""]
    """c*, the part of the step: 0 at its start, 1 at its end."""
    params: PyTree
    """The parameters there."""
    loss: Float[Array, ""]
    """The loss there."""
    slope: Float[Array, ""]
    """d loss / d c there: 0 at a smooth minimum, negative if the loss still falls at the end of the step."""


@checks.converts
def line_search_minimum(
    loss: Loss, params: PyTree, learning_rate: Float[Array, ""] | float, *, points: int = 64, halvings: int = 30
) -> LineMinimum:
    """c* = argmin over c in [0, 1] of loss(params - c learning_rate grad), on a grid and then by bisection.

    Bisection of the slope finds the minimum to the rounding of c; a search on the loss would find half the digits.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree.
        learning_rate: The length of the step, in gradients.
        points: Number of intervals of the grid.
        halvings: Number of bisections between the neighbors of the least point of the grid.

    Returns:
        The minimum: c*, the parameters, the loss and its slope there.
    """
    learning_rate = checks.real("learning_rate", learning_rate)
    checks.whole("points", points, at_least=1, at_most=2**20)
    checks.whole("halvings", halvings, at_least=0, at_most=2**10)
    return _line_search(loss, params, learning_rate, points, halvings)


@eqx.filter_jit
def _line_search(loss: Loss, params: PyTree, learning_rate: Any, points: int, halvings: int) -> LineMinimum:
    flat = flatten(loss, params)
    return _minimum(flat, learning_rate * jax.grad(flat.objective)(flat.point), points, halvings)


def _minimum(flat: Any, step: Vector, points: int, halvings: int) -> LineMinimum:
    def along(c: Float[Array, ""]) -> Any:
        return flat.objective(flat.point - c * step)

    def value_and_slope(c: Float[Array, ""]) -> tuple[Any, Any]:
        return jax.jvp(along, (c,), (jnp.ones_like(c),))

    grid = jnp.linspace(0, 1, points + 1, dtype=flat.point.dtype)
    least = jnp.argmin(lax.map(along, grid, batch_size=8))

    def halve(_: Any, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bracket
        middle = (low + high) / 2
        rising = value_and_slope(middle)[1] > 0
        return jnp.where(rising, low, middle), jnp.where(rising, middle, high)

    bracket = grid[jnp.maximum(least - 1, 0)], grid[jnp.minimum(least + 1, points)]
    low, high = lax.fori_loop(0, halvings, halve, bracket)
    c = (low + high) / 2
    value, slope = value_and_slope(c)
    return LineMinimum(c, flat.unflatten(flat.point - c * step), value, slope)


class Flip(NamedTuple):
    """How the loss curves along the gradient at the minimum of its line, which decides if an oscillation stays
    bounded."""

    discriminant: Float[Array, ""]
    """D = 3 f3^2 - f2 f4 along the unit gradient: positive if a period-2 orbit is born beyond 2 / f2."""
    derivatives: Float[Array, 5]
    """f, f', f'', f''', f'''' there."""
    fraction: Float[Array, ""]
    """The part of the step at which the minimum lies."""


@checks.converts
def discriminant(derivatives: Float[Array, 5]) -> Float[Array, ""]:
    """D = 3 f3^2 - f2 f4 of a loss along a line.

    Args:
        derivatives: f, f', f'', f''', f'''', shape `(5,)`.

    Returns:
        D, a scalar.
    """
    if checks.array("derivatives", derivatives, min_ndim=1).shape[0] != 5:
        raise ValueError(f"derivatives must hold five numbers, orders 0 to 4; got {checks.shown(derivatives)}")
    _, _, f2, f3, f4 = derivatives
    return 3 * f3**2 - f2 * f4


@checks.converts
def flip(loss: Loss, params: PyTree, learning_rate: Float[Array, ""] | float) -> Flip:
    """The discriminant D along the unit gradient, at the minimum of the loss along a gradient step.

    D scales with the sixth power of the direction's length: this one is that of the unit vector.

    Args:
        loss: `loss(params)`, a scalar.
        params: Any pytree.
        learning_rate: The length of the step, in gradients.

    Returns:
        D, the derivatives of orders 0 to 4 at the minimum, and the part of the step at which it lies.
    """
    return _flip(loss, params, checks.real("learning_rate", learning_rate, above=0))


@eqx.filter_jit
def _flip(loss: Loss, params: PyTree, learning_rate: Any) -> Flip:
    flat = flatten(loss, params)
    gradient = jax.grad(flat.objective)(flat.point)
    length = jnp.linalg.norm(gradient)
    u = gradient / jnp.where(length > 0, length, 1)
    minimum = _minimum(flat, learning_rate * gradient, 64, 30)
    point = flat.point - minimum.fraction * learning_rate * gradient
    found = derivatives(lambda t: flat.objective(point + t * u), jnp.zeros((), point.dtype), 4)
    return Flip(discriminant(found), found, minimum.fraction)
