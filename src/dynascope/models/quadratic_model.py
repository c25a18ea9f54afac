"""General quadratic models: g(w; x) = w . phi(x) + gamma/2 w^T Sigma(x) w."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.checks import array, function, jax_array, real
from dynascope.models.frozen import Frozen

Features = Callable[[Any], Float[Array, " p"]]
Form = Callable[[Any, Float[Array, " p"]], Float[Array, " p"]]


class QuadraticModel(eqx.Module):
    """A model that is quadratic in its weights ("Toward Understanding the Dynamics of Over-parameterized Neural
    Networks", (3.3)).

    Args:
        weights: w, (p,), the only array that is trained.
        features: `features(x)` is phi(x).
        form: `form(x, w)` is Sigma(x) w; Sigma itself is never formed.
        gamma: The curvature of the model: 0 for a linear model, 1/sqrt(width) for a two-layer network.
    """

    weights: Float[Array, " p"]
    features: Features
    form: Form
    gamma: Frozen

    def __init__(
        self, weights: Float[Array, " p"], features: Features, form: Form, gamma: Float[Array, ""] | float
    ) -> None:
        self.weights = jax_array("weights", weights, ndim=1)
        self.features, self.form = function("features", features, "of x"), function("form", form, "of x and w")
        self.gamma = Frozen(jnp.asarray(real("gamma", gamma), self.weights.dtype))

    def __call__(self, x: Any) -> Float[Array, ""]:
        w = self.weights
        return w @ self.features(x) + self.gamma.value() / 2 * w @ self.form(x, w)


def unit_features(x: Float[Array, " p"]) -> Float[Array, " p"]:
    """phi(x) = x/|x|."""
    return x / jnp.linalg.norm(x)


class DiagonalForm(eqx.Module):
    """Sigma = diag(entries), the same for every x.

    Args:
        entries: The diagonal, (p,); not trained.
    """

    entries: Frozen

    def __init__(self, entries: Float[Array, " p"]) -> None:
        self.entries = Frozen(jnp.asarray(array("entries", entries, ndim=1)))

    def __call__(self, x: Any, w: Float[Array, " p"]) -> Float[Array, " p"]:
        return self.entries.value() * w
