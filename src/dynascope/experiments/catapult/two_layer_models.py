"""Shared by the experiments on quadratic models: a two-layer network, its Taylor models, and the outcome of a run."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from dynascope.geometry.tangent_kernel import tangent_kernel
from dynascope.models import MLP, ConvNet, Gated, Taylor, freeze_gates, linearize
from dynascope.models.frozen import Frozen

Kind = Literal["quadratic", "linear", "network"]
"""The second-order Taylor model of the network at its start, the first-order one, or the ReLU network itself."""

NAMES: dict[Kind, str] = {"quadratic": "Quadratic model", "network": "ReLU network", "linear": "Linearized network"}
MONOTONE, CATAPULT, DIVERGENT = 0, 1, 2
EXACT = 1e-8
"""The largest difference, relative to the largest value so far, at which training agrees with an exact map."""
RISE, NEGLIGIBLE = 1e-9, 1e-12
"""A step that raises the loss by this share is a rise, unless the loss is as small as that beside the first."""


def network(key: PRNGKeyArray, dim: int, units: int, width: Array | int | None = None) -> tuple[MLP, Array]:
    """A two-layer ReLU network in the NTK parameterization, and a factor for its output.

    With `width`, a traced number up to `units`, the units beyond it are zero, and so is their gradient, at all times:
    with the factor sqrt(units/width) it is a network of that width, in a program that is compiled once for all widths.
    """
    whole = MLP(dim, 2, key=key, width=units, out=1, activation="relu", parameterization="ntk")
    if width is None:
        return whole, jnp.ones((), whole.weights[0].dtype)
    there = (jnp.arange(units, dtype=jnp.int32) < jnp.asarray(width, jnp.int32)).astype(whole.weights[0].dtype)
    first, second = whole.weights
    narrow = eqx.tree_at(lambda net: net.weights, whole, [first * there[:, None], second * there])
    return narrow, jnp.sqrt(units / jnp.asarray(width, first.dtype))


class GatedConvolution(eqx.Module):
    """`Gated` for a ReLU network of a convolution and a linear map."""

    network: ConvNet
    start: Frozen

    def __call__(self, x: Float[Array, "_ _ _"]) -> Float[Array, " out"]:
        opened = self.start.value().convolutions[0](x) > 0
        hidden = self.network.convolutions[0](x)
        return self.network.head(jnp.where(opened, hidden, 0).ravel())


def frozen_gates(network: MLP | ConvNet) -> Gated | GatedConvolution:
    """The quadratic model of a network of two ReLU layers, in closed form: the same function as `models.quadratic`
    gives, at the cost of the network."""
    return freeze_gates(network) if isinstance(network, MLP) else GatedConvolution(network, Frozen(network))


def variant(start: MLP | ConvNet, kind: Kind) -> Any:
    """The network of two ReLU layers, or a Taylor model of it around its start."""
    return {"quadratic": frozen_gates, "linear": linearize, "network": lambda net: net}[kind](start)


def squared_gradient(model: Any, output: Any) -> Float[Array, ""]:
    """|grad output(model)|^2 over all that is trained: the kernel of one output."""
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    gradient = jax.grad(lambda parameters: output(eqx.combine(parameters, rest)))(parameters)
    squares = [jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]
    return jnp.sum(jnp.stack(squares))


def kernel_matrix(model: Any, x: Float[Array, "n ..."]) -> Float[Array, "n n"]:
    """The tangent kernel of a `variant` without biases. For vectors in closed form: with h = W x/sqrt(d), gates 1{h >
    0} (of the start, for the quadratic model) and outer weights v, K = (D D^T) o (X X^T/d) + H H^T, D = gates
    v/sqrt(m), H = gates h/sqrt(m). A linearized network keeps the kernel of its start."""
    start = model.base.value() if isinstance(model, Taylor) else model
    if x.ndim > 2:
        return tangent_kernel(start, x)
    net = start.network if isinstance(start, Gated) else start
    hidden = jax.vmap(lambda point: net.affine(0, point))(x)
    gated_by = jax.vmap(lambda point: start.start.value().affine(0, point))(x) if isinstance(start, Gated) else hidden
    gates = (gated_by > 0).astype(x.dtype) / jnp.sqrt(jnp.asarray(hidden.shape[1], x.dtype))
    back, forward = gates * net.weights[1][0], gates * hidden

    def gram(rows: Array) -> Array:
        return jnp.matmul(rows, rows.T, precision="highest")

    return gram(back) * gram(x) / x.shape[1] + gram(forward)


def regime(loss: ArrayLike) -> Int[np.ndarray, " ..."]:
    """The outcome of a run `(..., step)`: its loss never rose; it rose and ended below its start; or neither."""
    values = np.asarray(loss, float)
    before, after = values[..., :-1], values[..., 1:]
    with np.errstate(invalid="ignore", over="ignore"):
        rose = np.any((after > before * (1 + RISE)) & (before > NEGLIGIBLE * values[..., :1]), axis=-1)
        ended = np.all(np.isfinite(values), axis=-1) & (values[..., -1] < values[..., 0])
    return np.where(~ended, DIVERGENT, np.where(rose, CATAPULT, MONOTONE))


def largest_error(measured: xr.Dataset, predicted: xr.Dataset, names: tuple[str, ...]) -> xr.DataArray:
    """Each run's largest difference over its steps, over the largest value so far, for each of these variables."""
    errors = {}
    for name in names:
        seen = measured[name].transpose(..., "step")
        exact = predicted[name].transpose(*seen.dims)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(seen.values - exact.values) / np.maximum.accumulate(np.abs(seen.values), axis=-1)
            errors[name] = seen.isel(step=0, drop=True).copy(data=error.max(axis=-1))
    return xr.Dataset(errors).to_dataarray("quantity")
