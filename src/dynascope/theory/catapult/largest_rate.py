"""The largest rate at which something still holds, by bisection: all settings at once, as one array program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.arguments import Count, NotNegative, Positive
from dynascope.theory.catapult import quadratic_model

BISECTIONS = 50


class Bracket(NamedTuple):
    """The threshold lies between: it holds at `low` and not at `high`."""

    low: Values
    high: Values
    found: Bool[Array, " ..."]
    """Whether it did hold at the lower end asked for, and did not at the upper end."""


def bisect_rate(
    holds: Callable[[Values], Bool[Array, " ..."]], low: NotNegative, high: Positive, bisections: int = BISECTIONS
) -> Bracket:
    """Halve [low, high] for every entry, keeping `holds(low)` and not `holds(high)`. `holds` takes the array of rates.

    Where the outcome is not monotone in the rate (near the end of the catapult phase it is not, quite) this is one
    boundary of several.
    """
    ends = jnp.broadcast_arrays(real(low), real(high))
    found = holds(ends[0]) & ~holds(ends[1])

    def halve(_: Array, ends: tuple[Values, Values]) -> tuple[Values, Values]:
        middle = (ends[0] + ends[1]) / 2
        good = holds(middle)
        return jnp.where(good, middle, ends[0]), jnp.where(good, ends[1], middle)

    below, above = lax.fori_loop(0, bisections, halve, (ends[0], ends[1]))
    return Bracket(below, above, found)


def largest_convergent(
    residual: Reals, kernel: Positive, label: Reals, curvature: NotNegative, steps: Count = 3000
) -> Bracket:
    """The largest rate, times lambda_0, at which the quadratic model converges on one example; near 4 when wide."""
    start = quadratic_model.State(real(residual), real(kernel))

    def holds(product: Values) -> Bool[Array, " ..."]:
        rate = product / start.kernel
        return quadratic_model.bounded(quadratic_model.normalize(start, rate, label, curvature), steps)

    shape = jnp.broadcast_shapes(*(jnp.shape(real(part)) for part in (residual, kernel, label, curvature)))
    return bisect_rate(holds, jnp.full(shape, 1.0), jnp.full(shape, 6.0))
