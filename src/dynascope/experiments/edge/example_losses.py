"""Losses of one parameter, with and without an orbit of period two above the threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import (
    BASE_MODELS,
    Function,
    ScalarLoss,
    compose,
    monomial,
    polynomial,
    power_series,
    quartic,
    sine,
    squared_loss,
    squared_loss_to,
)


class LossFamily(eqx.Module):
    """Several losses of one parameter, run side by side; a state has one entry for each loss."""

    losses: tuple[ScalarLoss, ...]

    def __init__(self, losses: Mapping[str, ScalarLoss]) -> None:
        self.losses = tuple(losses.values())

    def step(self, x: Float[Array, " loss"], rates: Float[Array, " loss"]) -> Float[Array, " loss"]:
        return jnp.stack([loss.step(x[i], rates[i]) for i, loss in enumerate(self.losses)])

    def each(self, function: Callable[[ScalarLoss], Array]) -> np.ndarray:
        """`function(loss)` for all of them, in one compiled program."""
        return np.asarray(_each(self.losses, function))


@eqx.filter_jit
def _each(losses: tuple[ScalarLoss, ...], function: Callable[[ScalarLoss], Array]) -> Array:
    return jnp.stack([function(loss) for loss in losses])


@cache
def _composite(outer: str, inner: str) -> Function:
    return compose(BASE_MODELS[outer].function, BASE_MODELS[inner].function)


@cache
def _series(*coefficients: float) -> Function:
    return power_series(coefficients)


POINTS = {"sin": 0.5, "tanh": 0.5, "exp": 2.0, "log": 0.5, "sigmoid": 0.3, "softplus": 1.0, "gaussian": 0.6}
"""Targets y of the base models, inside their domains."""


def models() -> dict[str, tuple[Function, float]]:
    """The scalar models g of Proposition 1's corollaries, and a point x with g(x) = y."""
    powers = {f"x^{alpha}": (monomial(alpha).function, 1.0) for alpha in (2, 3, 4, 5)}
    inverses = {name: float(BASE_MODELS[name].inverse(jnp.asarray(y))) for name, y in POINTS.items()}
    bases = {name: (BASE_MODELS[name].function, x) for name, x in inverses.items()}
    return powers | bases | {f"{q}({p})": (_composite(q, p), 0.6) for q, p in (("sin", "tanh"), ("tanh", "sin"))}


def oscillating() -> dict[str, ScalarLoss]:
    """Fifteen losses with D > 0: those of Figure B.1, and squared losses on every base model."""
    return {"quartic": quartic(), "2 sin x": sine()} | {
        name: squared_loss(model, at, name) for name, (model, at) in models().items()
    }


def escaping() -> dict[str, ScalarLoss]:
    """Four losses with D <= 0 at their minimum 0 (0.5 for the last)."""
    return {
        "x²": polynomial((0.0, 0.0, 1.0)),
        "(x + x³)²": squared_loss(_series(0.0, 1.0, 0.0, 1.0), 0.0, "x + x^3"),
        "(x + x²/10 + x³)²": squared_loss(_series(0.0, 1.0, 0.1, 1.0), 0.0, "x + x^2/10 + x^3"),
        "log(exp x)": squared_loss(_composite("log", "exp"), 0.5, "log(exp)"),
    }


def with_orbit() -> dict[str, tuple[ScalarLoss, int]]:
    """Losses to which Theorem 3.1 (order 3) or Lemma 3.2 applies, and the order k."""
    squares = {name: (squared_loss_to(BASE_MODELS[name], POINTS[name]), 3) for name in ("exp", "log", "tanh")}
    return {
        "quartic": (quartic(), 3),
        "x^3": (squared_loss_to(monomial(3), 1.0), 3),
        **squares,
        "2 sin x": (sine(), 4),
        "t² + t⁵/5 - t⁶/10": (polynomial((0.0, 0.0, 1.0, 0.0, 0.0, 1 / 5, -1 / 10)), 5),
        "t² - t⁶/6": (polynomial((0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1 / 6)), 6),
    }


def without_orbit() -> dict[str, tuple[ScalarLoss, int]]:
    """Losses that do not satisfy the condition of the same theorem or lemma, and the order k."""
    return {
        "(x + x²/10 + x³)²": (escaping()["(x + x²/10 + x³)²"], 3),
        "(x + x³)²": (escaping()["(x + x³)²"], 4),
        "t² + t⁵/5 + t⁶/10": (polynomial((0.0, 0.0, 1.0, 0.0, 0.0, 1 / 5, 1 / 10)), 5),
    }
