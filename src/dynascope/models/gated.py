"""The quadratic model of a two-layer ReLU network in closed form: the network with its gates frozen."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.models.frozen import Frozen
from dynascope.models.mlp import MLP


class Gated(eqx.Module):
    """f = v . (1{u0 . x > 0} (u . x)), scales and biases as the network has them, gates as they were at the start."""

    network: MLP
    start: Frozen

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        opened = self.start.value().affine(0, x) > 0
        return self.network.affine(1, jnp.where(opened, self.network.affine(0, x), 0))


def gated(network: MLP) -> Gated:
    """The network with the gates it has now ("Toward Understanding the Dynamics of Over-parameterized Neural Networks",
    (3.10)). It is the same function as `quadratic(network)`, at the cost of the network itself: with fixed gates the
    output is bilinear in the two layers, so that nothing is left of third order."""
    if len(network.weights) != 2 or network.activation != "relu":
        raise ValueError("only a ReLU network of two layers is quadratic with its gates frozen; see `quadratic`")
    return Gated(network, Frozen(network))
