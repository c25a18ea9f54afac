"""What the experiments on quadratic models share: a two-layer network and its Taylor models, and what a run did."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from dynascope.models import MLP, gated, linearised

Kind = Literal["quadratic", "linear", "network"]
"""The second-order Taylor model of the network at its start, the first-order one, or the ReLU network itself."""

MONOTONE, CATAPULT, DIVERGENT = 0, 1, 2
REGIMES = ("monotone", "catapult", "divergent")
RISE, NEGLIGIBLE = 1e-9, 1e-12
"""A step that raises the loss by this share is a rise, unless the loss is as small as that beside the first."""


def network(key: PRNGKeyArray, dim: int, units: int, width: Array | int | None = None) -> tuple[MLP, Array]:
    """A two-layer ReLU network in the NTK parameterisation, and the factor its output is to be multiplied by.

    With `width`, a traced number up to `units`, the units beyond it are zero, and so is their gradient, for ever: with
    the factor sqrt(units/width) it is a network of that width, in a program that is compiled once for all widths.
    """
    whole = MLP(dim, 2, key=key, width=units, out=1, activation="relu", parameterisation="ntk")
    if width is None:
        return whole, jnp.ones((), whole.weights[0].dtype)
    there = (jnp.arange(units, dtype=jnp.int32) < jnp.asarray(width, jnp.int32)).astype(whole.weights[0].dtype)
    first, second = whole.weights
    narrow = eqx.tree_at(lambda net: net.weights, whole, [first * there[:, None], second * there])
    return narrow, jnp.sqrt(units / jnp.asarray(width, first.dtype))


def variant(start: MLP, kind: Kind) -> Any:
    """The network, or a Taylor model of it around its start."""
    return {"quadratic": gated, "linear": linearised, "network": lambda net: net}[kind](start)


def squared_gradient(model: Any, output: Any) -> Float[Array, ""]:
    """|grad output(model)|^2 over all that is trained: the kernel of one output."""
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    gradient = jax.grad(lambda parameters: output(eqx.combine(parameters, rest)))(parameters)
    squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]
    return jnp.sum(jnp.stack(squares))


def tangent_kernel(model: Any, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
    """K of the first output at these points, from the whole Jacobian (for small models)."""
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)

    def row(point: Array) -> Array:
        gradient = jax.grad(lambda parameters: eqx.combine(parameters, rest)(point)[0])(parameters)
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(gradient)])

    J = jax.vmap(row)(x)
    return jnp.matmul(J, J.T, precision="highest")


def regime(loss: ArrayLike) -> Int[np.ndarray, " ..."]:
    """What a run `(..., step)` did: its loss never rose; it rose and ended below its start; or neither."""
    values = np.asarray(loss, float)
    before, after = values[..., :-1], values[..., 1:]
    with np.errstate(invalid="ignore", over="ignore"):
        rose = np.any((after > before * (1 + RISE)) & (before > NEGLIGIBLE * values[..., :1]), axis=-1)
        ended = np.all(np.isfinite(values), axis=-1) & (values[..., -1] < values[..., 0])
    return np.where(~ended, DIVERGENT, np.where(rose, CATAPULT, MONOTONE))
