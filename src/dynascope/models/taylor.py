"""The first- and second-order Taylor models of any model, in its parameters, around the point where it is.

f_lin(w) = f(w0) + Df[w - w0] and f_quad(w) = f_lin(w) + D2f[w - w0, w - w0] / 2 ("Toward Understanding the Dynamics of
Over-parameterized Neural Networks", (3.1), (3.2)), by forward differentiation: nothing of the size of a Jacobian or a
Hessian is ever made. The derivative of a ReLU at 0 is 0, and so is its second derivative everywhere, as JAX takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from dynascope.models.frozen import Frozen

Apply = Callable[[Any, Any], Any]


class Taylor(eqx.Module):
    """A Taylor model. What is trained is `displacement`, w - w0, with the structure of the parameters; it starts at 0.
    The point of expansion is frozen: no gradient or optimizer reaches it."""

    displacement: PyTree
    base: Frozen
    order: Literal[1, 2] = eqx.field(static=True)
    apply: Apply | None = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        at, rest = eqx.partition(self.base.value(), eqx.is_inexact_array)

        def output(weights: PyTree) -> Any:
            model = eqx.combine(weights, rest)
            return model(x) if self.apply is None else self.apply(model, x)

        def along(weights: PyTree) -> tuple[Any, Any]:
            return jax.jvp(output, (weights,), (self.displacement,))

        if self.order == 1:
            value, first = along(at)
            return jax.tree.map(lambda f, df: f + df, value, first)
        (value, first), (_, second) = jax.jvp(along, (at,), (self.displacement,))
        return jax.tree.map(lambda f, df, ddf: f + df + ddf / 2, value, first, second)

    def moved(self) -> PyTree:
        """The model that is expanded, with the parameters this one has reached."""
        at, rest = eqx.partition(self.base.value(), eqx.is_inexact_array)
        return eqx.combine(jax.tree.map(lambda weight, by: weight + by, at, self.displacement), rest)


def linearized(model: PyTree, apply: Apply | None = None) -> Taylor:
    """The model linear in its parameters that agrees with `model` to first order where it is now.

    A model is a callable module, or any pytree of arrays together with `apply(params, x)`. It costs about two forward
    passes. Another point of expansion is another model: give it with the parameters you want.
    """
    return _taylor(model, 1, apply)


def quadratic(model: PyTree, apply: Apply | None = None) -> Taylor:
    """The same to second order, for about four forward passes: the neural quadratic model."""
    return _taylor(model, 2, apply)


def _taylor(model: PyTree, order: Literal[1, 2], apply: Apply | None) -> Taylor:
    if apply is None and not callable(model):
        raise TypeError(f"a {type(model).__name__} is not callable: give `apply(params, x)`, its value at one example")
    weights = eqx.filter(model, eqx.is_inexact_array)
    return Taylor(jax.tree.map(jnp.zeros_like, weights), Frozen(model), order, apply)
