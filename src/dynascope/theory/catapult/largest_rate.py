"""The largest rate at which a condition still holds, by bisection: all settings at once, as one array program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.catapult import quadratic_model
from dynascope.theory.domains import Count, NotNegative, Positive, check_arguments

BISECTIONS = 50


class Bracket(NamedTuple):
    """A bracket of the threshold: the condition holds at `low` and not at `high`."""

    low: Values
    """Largest rate at which it is known to hold. Any shape."""
    high: Values
    """Smallest rate at which it is known not to hold. Any shape."""
    found: Bool[Array, " ..."]
    """Whether it did hold at the lower end of the search, and did not at the upper end. Any shape."""


@check_arguments
def bisect_rate(
    holds: Callable[[Values], Bool[Array, " ..."]], low: NotNegative, high: Positive, bisections: int = BISECTIONS
) -> Bracket:
    """The bracket of every entry: [low, high], halved, keeping `holds(low)` and not `holds(high)`.

    If the outcome is not monotone in the rate (near the end of the catapult phase it is not, quite), this is one
    boundary of several.

    Args:
        holds: Called with the array of rates; returns whether the condition holds at each. Any shape.
        low: Lower end of the search. Not negative, any shape.
        high: Upper end. Positive, any shape.
        bisections: How many times the interval is halved. Default: BISECTIONS.
    """
    ends = jnp.broadcast_arrays(real(low), real(high))
    found = holds(ends[0]) & ~holds(ends[1])

    def halve(_: Array, ends: tuple[Values, Values]) -> tuple[Values, Values]:
        middle = (ends[0] + ends[1]) / 2
        good = holds(middle)
        return jnp.where(good, middle, ends[0]), jnp.where(good, ends[1], middle)

    below, above = lax.fori_loop(0, bisections, halve, (ends[0], ends[1]))
    return Bracket(below, above, found)


@check_arguments
def largest_convergent(
    residual: Reals, kernel: Positive, label: Reals, curvature: NotNegative, steps: Count = 3000
) -> Bracket:
    """The largest rate, times lambda_0, at which the quadratic model converges on one example; near 4 for wide models.

    Args:
        residual: Residual at the start. Any shape.
        kernel: lambda_0. Positive, any shape.
        label: Label y. Any shape.
        curvature: c = |x|^2/(md). Not negative, any shape.
        steps: Number of steps that decide whether it converges. Default: 3000.
    """
    start = quadratic_model.State(real(residual), real(kernel))

    def holds(product: Values) -> Bool[Array, " ..."]:
        rate = product / start.kernel
        return quadratic_model.stays_bounded(quadratic_model.normalize(start, rate, label, curvature), steps)

    shape = jnp.broadcast_shapes(*(jnp.shape(real(part)) for part in (residual, kernel, label, curvature)))
    return bisect_rate(holds, jnp.full(shape, 1.0), jnp.full(shape, 6.0))
