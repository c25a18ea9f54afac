"""First- and second-order Taylor models of any model in its parameters, around their current values.

f_lin(w) = f(w0) + Df[w - w0] and f_quad(w) = f_lin(w) + D2f[w - w0, w - w0] / 2 ("Toward Understanding the Dynamics of
Over-parameterized Neural Networks", (3.1), (3.2)), by forward differentiation: no Jacobian or Hessian is ever formed.
As in JAX, the derivative of a ReLU at 0 is 0, and so is its second derivative everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.models.frozen import Frozen
from dynascope.models.mlp import MLP

Apply = Callable[[Any, Any], Any]


class Taylor(eqx.Module):
    """A Taylor model."""

    displacement: PyTree
    """w - w0, in the structure of the parameters, 0 at first: the only part that is trained."""
    base: Frozen
    """The model at the point of expansion, frozen: no gradient or optimizer reaches it."""
    order: Literal[1, 2] = eqx.field(static=True)
    """1 or 2."""
    apply: Apply | None = eqx.field(static=True)
    """`apply(params, x)`, for a model that is not callable."""

    def __check_init__(self) -> None:
        checks.one_of("order", self.order, (1, 2))
        weights = _weights(self.base, self.apply)
        if jax.tree.structure(self.displacement) != jax.tree.structure(weights):
            shown = checks.shown(self.displacement)
            raise TypeError(f"displacement must have the structure of the parameters in base; got {shown}")

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

    def to_model(self) -> PyTree:
        """The original model with the parameters w0 + displacement."""
        at, rest = eqx.partition(self.base.value(), eqx.is_inexact_array)
        return eqx.combine(jax.tree.map(lambda weight, by: weight + by, at, self.displacement), rest)


def linearize(model: PyTree, apply: Apply | None = None) -> Taylor:
    """The model linear in its parameters that agrees with a model to first order at its current parameters.

    One evaluation costs about two forward passes.

    Args:
        model: A callable module, or any pytree of arrays together with `apply`.
        apply: `apply(params, x)`, for a model that is not callable.
    """
    return _taylor(model, 1, apply)


def quadratic(model: PyTree, apply: Apply | None = None) -> Taylor:
    """The neural quadratic model: it agrees with a model to second order at its current parameters.

    One evaluation costs about four forward passes.

    Args:
        model: A callable module, or any pytree of arrays together with `apply`.
        apply: `apply(params, x)`, for a model that is not callable.
    """
    return _taylor(model, 2, apply)


def _taylor(model: PyTree, order: Literal[1, 2], apply: Apply | None) -> Taylor:
    weights = _weights(Frozen(model), apply)
    return Taylor(jax.tree.map(jnp.zeros_like, weights), Frozen(model), order, apply)


def _weights(base: Frozen, apply: Apply | None) -> PyTree:
    if not isinstance(base, Frozen):
        raise TypeError(f"base must be Frozen(model); got {checks.shown(base)}")
    model = base.value()
    if apply is not None:
        checks.function("apply", apply, "apply(params, x)")
    elif not callable(model):
        raise TypeError(f"model must be callable unless apply(params, x) is given; got a {type(model).__name__}")
    weights = eqx.filter(model, eqx.is_inexact_array)
    if not jax.tree.leaves(weights):
        raise ValueError("model must have floating-point arrays, its parameters; got none")
    return weights


class Gated(eqx.Module):
    """f = v . (1{u0 . x > 0} (u . x)), with the scales and biases of the network and its initial gates."""

    network: MLP
    """The network whose weights are trained."""
    start: Frozen
    """The first layer that sets the gates, frozen."""

    def __check_init__(self) -> None:
        frozen = self.start.value() if isinstance(self.start, Frozen) else None
        for name, network in (("network", self.network), ("start, once frozen,", frozen)):
            if not isinstance(network, MLP) or len(network.weights) != 2 or network.activation != "relu":
                what = "must be an MLP of two layers with relu: no other is quadratic with its gates frozen"
                raise ValueError(f"{name} {what}; got {checks.shown(network)}")

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        opened = self.start.value().affine(0, x) > 0
        return self.network.affine(1, jnp.where(opened, self.network.affine(0, x), 0))


def freeze_gates(network: MLP) -> Gated:
    """A ReLU network of two layers with its gates frozen ("Toward Understanding the Dynamics of Over-parameterized
    Neural Networks", (3.10)).

    It is the same function as `quadratic(network)` at the cost of the network itself: with fixed gates the output is
    bilinear in the two layers, so that all terms of third order vanish.

    Args:
        network: The network, with the gates of its current weights.
    """
    return Gated(network, Frozen(network))
