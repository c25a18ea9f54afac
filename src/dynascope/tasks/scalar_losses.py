"""Losses of one parameter with a known minimum, and their derivatives to any order.

"Simple structures in neural networks", Section 3.2 and Appendix B. The third and fourth derivative at the minimum
decide the behavior of gradient descent just above the rate 2/f''. All derivatives here are exact (nested forward
differentiation), all functions act entry by entry on arrays, and a loss is a pytree whose numbers (`mu`, a target) can
be mapped over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from dynascope import checks

Function = Callable[[Array], Array]
Floors = Callable[[Array], tuple[Array, ...]]
Values = Float[Array, "..."]
Reals = Values | Float[np.ndarray, "..."] | float


def real(x: Reals) -> Values:
    """A floating-point array: arrays keep their precision, Python numbers are weakly typed.

    Args:
        x: Numbers.
    """
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "iu":
        x = x.astype(float)
    return jnp.asarray(float(x) if isinstance(x, int) else x)


def derivatives(function: Function, x: Reals, order: int) -> Float[Array, "orders ..."]:
    """f(x), f'(x), ..., f^(order)(x).

    Args:
        function: f, which acts entry by entry.
        x: The points, of any shape.
        order: The highest order, at most 12 (the cost doubles with each).
    """
    checks.whole("order", order, at_least=0, at_most=12)
    checks.function("function", function, "of one array")
    return _tower(function, real(x), order)


@eqx.filter_jit
def _tower(function: Function, point: Values, order: int) -> Float[Array, "orders ..."]:
    floors: Floors = lambda x: (jnp.broadcast_to(function(x), x.shape),)  # noqa: E731
    for _ in range(order):
        floors = _one_more(floors)
    return jnp.stack(floors(point))


def _one_more(floors: Floors) -> Floors:
    """From f, ..., f^(k) to f, ..., f^(k+1)."""

    def higher(point: Array) -> tuple[Array, ...]:
        values, slopes = jax.jvp(floors, (point,), (jnp.ones_like(point),))
        return (*values, slopes[-1])

    return higher


def _derivative(function: Function) -> Function:
    return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


class ScalarLoss(eqx.Module):
    """A loss f of one parameter, and a local minimum of it."""

    function: Function
    """f, which acts entry by entry."""
    minimum: Values
    """The minimum."""
    name: str = eqx.field(static=True, default="")
    """A name for figures."""

    def __check_init__(self) -> None:
        checks.function("function", self.function, "function(x)")
        checks.array("minimum", self.minimum)
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a string; got {checks.shown(self.name)}")

    def __call__(self, x: Reals) -> Values:
        return self.function(real(x))

    def derivatives(self, x: Reals | None = None, order: int = 4) -> Float[Array, "orders ..."]:
        """f, f', ..., f^(order).

        Args:
            x: The points. Default: the minimum.
            order: The highest order.
        """
        return derivatives(self.function, self.minimum if x is None else x, order)

    def slope(self, x: Reals) -> Values:
        """f'(x).

        Args:
            x: The points.
        """
        return _derivative(self.function)(real(x))

    def step(self, x: Reals, rate: Reals) -> Values:
        """One step of gradient descent, F(x) = x - eta f'(x) (3.1).

        Args:
            x: The points.
            rate: eta.
        """
        return real(x) - rate * self.slope(x)

    @property
    def threshold(self) -> Values:
        """2 / f'' at the minimum: the rate above which it repels."""
        return 2 / self.derivatives(order=2)[2]


def quartic(mu: Reals = 1.0) -> ScalarLoss:
    """f = (x^2 - mu)^2 / 4, at sqrt(mu): f'' = 2 mu, f3 = 6 sqrt(mu), f4 = 6.

    Args:
        mu: mu.
    """
    checks.positive(mu=mu)
    mu = real(mu)
    return ScalarLoss(eqx.Partial(_quartic, mu), jnp.sqrt(mu), "quartic")


def _quartic(mu: Array, x: Array) -> Array:
    return (x**2 - mu) ** 2 / 4


def sine(scale: Reals = 2.0) -> ScalarLoss:
    """f = c sin x, at -pi/2: f'' = c, f3 = 0, f4 = -c.

    Args:
        scale: c.
    """
    checks.positive(scale=scale)
    scale = real(scale)
    return ScalarLoss(eqx.Partial(_sine, scale), jnp.full_like(scale, -jnp.pi / 2), "sine")


def _sine(scale: Array, x: Array) -> Array:
    return scale * jnp.sin(x)


def polynomial(coefficients: Sequence[float], minimum: Reals = 0.0) -> ScalarLoss:
    """f = sum_k c_k (x - minimum)^k.

    Args:
        coefficients: The c_k, lowest order first.
        minimum: The minimum.
    """
    checks.array("coefficients", coefficients, ndim=1)
    minimum = real(minimum)
    return ScalarLoss(eqx.Partial(_shifted, tuple(coefficients), minimum), minimum, "polynomial")


def _shifted(coefficients: tuple[float, ...], at: Array, x: Array) -> Array:
    return _horner(coefficients, x - at)


def power_series(coefficients: Sequence[float]) -> Function:
    """x -> sum_k c_k x^k.

    Args:
        coefficients: The c_k, lowest order first.
    """
    checks.array("coefficients", coefficients, ndim=1)
    return lambda x: _horner(coefficients, x)


def _horner(coefficients: Sequence[float], x: Array) -> Array:
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


class BaseModel(NamedTuple):
    """A scalar model g."""

    name: str
    """Its formula."""
    function: Function
    """g."""
    inverse: Function
    """The inverse of g: from a value y to a point x with g(x) = y."""


def monomial(alpha: int) -> BaseModel:
    """The model x^alpha.

    Args:
        alpha: The exponent.
    """
    checks.sizes(alpha=alpha)
    return BaseModel(f"x^{alpha}", lambda x: x**alpha, lambda y: jnp.sign(y) * jnp.abs(y) ** (1 / alpha))


BASE_MODELS: dict[str, BaseModel] = {
    "sin": BaseModel("sin", jnp.sin, jnp.arcsin),
    "tanh": BaseModel("tanh", jnp.tanh, jnp.arctanh),
    "exp": BaseModel("exp", jnp.exp, jnp.log),
    "log": BaseModel("log", jnp.log, jnp.exp),
    "sigmoid": BaseModel("sigmoid", jax.nn.sigmoid, lambda y: jnp.log(y) - jnp.log1p(-y)),
    "softplus": BaseModel("softplus", jax.nn.softplus, lambda y: jnp.log(jnp.expm1(y))),
    "gaussian": BaseModel("gaussian", lambda x: jnp.exp(-(x**2) / 2), lambda y: jnp.sqrt(-2 * jnp.log(y))),
}
"""The base models of the document, besides `monomial(alpha)`."""


def compose(outer: Function, inner: Function) -> Function:
    """x -> outer(inner(x)).

    Args:
        outer: A function of numbers.
        inner: A function of numbers.
    """
    return lambda x: outer(inner(x))


def squared_loss(model: Function, minimum: Reals, name: str = "") -> ScalarLoss:
    """f = (g(x) - y)^2 (no 1/2) with y = g(minimum).

    At the minimum f'' = 2 g'^2, f3 = 6 g' g'', f4 = 6 g''^2 + 8 g' g'''.

    Args:
        model: g.
        minimum: The minimum.
        name: A name for figures.
    """
    checks.function("model", model, "of one array")
    minimum = real(minimum)
    target = model(minimum)
    return ScalarLoss(eqx.Partial(_squared, model, target), minimum, name)


def _squared(model: Function, target: Array, x: Array) -> Array:
    return (model(x) - target) ** 2


def squared_loss_to(model: BaseModel, target: Reals) -> ScalarLoss:
    """f = (g(x) - y)^2 for a base model.

    Args:
        model: g, with its inverse.
        target: y, in the range of g.
    """
    minimum = model.inverse(real(target))
    if not isinstance(minimum, Tracer) and not bool(jnp.all(jnp.isfinite(minimum))):
        raise ValueError(f"target must be a value that {model.name} takes; got {checks.shown(target)}")
    return squared_loss(model.function, minimum, model.name)
