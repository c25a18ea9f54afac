"""The margin 6 g''^2 - g' g''' of scalar models g, which decides if gradient descent on (g(x) - y)^2 oscillates.

"Simple structures in neural networks", Propositions 1 and 2 and their corollaries. At a minimum with g' != 0 the flip
quantity of Theorem 3.1 is D = 16 g'^2 (6 g''^2 - g' g'''), exactly. Proposition 2, that a composition inherits the
condition, is false as printed; the identity in `composition_condition` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from dynascope.tasks.scalar_losses import Function, Reals, Values, derivatives, real
from dynascope.theory.domains import check_arguments


@check_arguments
def margin(model: Function, x: Reals) -> Values:
    """6 g''^2 - g' g''' (Proposition 1): positive if the orbit exists.

    Args:
        model: Scalar function g, of one array.
        x: The point. Any shape.
    """
    _, first, second, third = derivatives(model, x, 3)
    return 6 * second**2 - first * third


@check_arguments
def flip_from_margin(model: Function, x: Reals) -> Values:
    """D = 16 g'^2 (6 g''^2 - g' g''').

    Args:
        model: Scalar function g, of one array.
        x: The point. Any shape.
    """
    return 16 * derivatives(model, x, 1)[1] ** 2 * margin(model, x)


@check_arguments
def monomial_margin(alpha: int, x: Reals) -> Values:
    """alpha^2 (alpha - 1)(5 alpha - 4) x^(2 alpha - 4), of x^alpha.

    Args:
        alpha: The power.
        x: The point. Any shape.
    """
    return alpha**2 * (alpha - 1) * (5 * alpha - 4) * real(x) ** (2 * alpha - 4)


def _sigmoid(x: Array) -> Array:
    s = jax.nn.sigmoid(x)
    return s**2 * (1 - s) ** 2 * (6 * (1 - 2 * s) ** 2 - (1 - 6 * s + 6 * s**2))


def _softplus(x: Array) -> Array:
    s = jax.nn.sigmoid(x)
    return s**2 * (1 - s) * (5 - 4 * s)


MARGINS: dict[str, Callable[[Array], Array]] = {
    "sin": lambda x: jnp.cos(x) ** 2 + 6 * jnp.sin(x) ** 2,
    "tanh": lambda x: 2 / jnp.cosh(x) ** 6 + 20 * jnp.tanh(x) ** 2 / jnp.cosh(x) ** 4,
    "exp": lambda x: 5 * jnp.exp(2 * x),
    "log": lambda x: 4 / x**4,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "gaussian": lambda x: jnp.exp(-(x**2)) * (5 * x**4 - 9 * x**2 + 6),
}
"""The margins of the base models in closed form (Corollaries 2-8; softplus and gaussian are not in the document)."""


@check_arguments
def closed_form(name: str, x: float) -> float:
    """The margin of a base model or a monomial in closed form; nan for other names.

    Args:
        name: A key of `MARGINS`, or a monomial such as "x^3".
        x: The point.
    """
    if name.startswith("x^"):
        return float(monomial_margin(int(name[2:]), x))
    return float(MARGINS[name](jnp.asarray(x))) if name in MARGINS else float("nan")


class Composition(NamedTuple):
    """The margin of q(p(x)) and its three terms."""

    margin: Values
    """The sum of the three terms. Any shape."""
    from_outer: Values
    """p'^4 (6 q''^2 - q' q''')."""
    from_inner: Values
    """q'^2 (6 p''^2 - p' p''')."""
    mixed: Values
    """9 q' q'' p'^2 p''."""
    holds: Bool[Array, " ..."]
    """Whether the composite satisfies the condition."""
    inherited: Bool[Array, " ..."]
    """Whether q' q'' p'' >= 0, which is sufficient if p and q satisfy it."""


@check_arguments
def composition_condition(inner: Function, outer: Function, x: Reals) -> Composition:
    """The margin of F = q(p(x)) from those of p and q:

    6 F''^2 - F' F''' = p'^4 (6 q''^2 - q' q''') + q'^2 (6 p''^2 - p' p''') + 9 q' q'' p'^2 p''.

    Args:
        inner: Scalar function p.
        outer: Scalar function q, whose margin is taken at p(x).
        x: The point. Any shape.
    """
    value, p1, p2, p3 = derivatives(inner, x, 3)
    _, q1, q2, q3 = derivatives(outer, value, 3)
    from_outer, from_inner = p1**4 * (6 * q2**2 - q1 * q3), q1**2 * (6 * p2**2 - p1 * p3)
    mixed = 9 * q1 * q2 * p1**2 * p2
    total = from_outer + from_inner + mixed
    return Composition(total, from_outer, from_inner, mixed, total > 0, q1 * q2 * p2 >= 0)
