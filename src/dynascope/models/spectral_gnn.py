"""A spectral graph network: layers that mix powers of the adjacency, normalized on every graph."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.mlp import MLP

VARIANCE_FLOOR = 1e-5
"""Added to a variance before a division by its root."""


class SpectralGNN(eqx.Module):
    """Layers with the operators {I, A, A^2}, then a linear map at each node.

    Chen, Li and Bruna, Supervised Community Detection with Line Graph Neural Networks, 2019. A layer takes z = [x, A x,
    A^2 x] to [relu(z W_1 + c_1), z W_2 + c_2], half of the channels each, and then normalizes every channel over the
    nodes of the graph: mean 0 and variance 1, a learned scale and shift. The model is called with the adjacency matrix
    of one graph; the input is the degree of each node.

    Args:
        depth: Number of layers.
        out: Number of logits at each node.
        key: Key of the weights.
        width: Number of channels, even.
        power_graph: Use min(A^2, 1) instead of A^2.
    """

    first: Layer
    rest: Layer
    """All other layers, stacked along the first axis."""
    readout: MLP
    power_graph: bool = eqx.field(static=True)

    def __init__(self, depth: int, out: int, *, key: PRNGKeyArray, width: int = 8, power_graph: bool = False) -> None:
        checks.sizes(depth=depth, out=out, width=width)
        checks.flags(power_graph=power_graph)
        if width % 2:
            raise ValueError(f"width must be even, since half of the channels have a ReLU; got {width}")
        for_first, for_rest, for_readout = jax.random.split(checks.key("key", key), 3)
        self.first = Layer(1, width, key=for_first)
        self.rest = eqx.filter_vmap(lambda key: Layer(width, width, key=key))(jax.random.split(for_rest, depth - 1))
        self.readout = MLP(width, 1, out=out, bias=True, key=for_readout)
        self.power_graph = power_graph

    def __call__(self, adjacency: Float[Array, "nodes nodes"]) -> Float[Array, "nodes out"]:
        if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(f"adjacency must be a square matrix; got {checks.shown(adjacency)}")
        squared = jnp.minimum(adjacency @ adjacency, 1) if self.power_graph else None

        def layer(x: Array, weights: Layer) -> tuple[Array, None]:
            once = adjacency @ x
            twice = adjacency @ once if squared is None else squared @ x
            return weights(jnp.concatenate([x, once, twice], axis=1)), None

        x, _ = layer(adjacency.sum(1, keepdims=True), self.first)
        x, _ = lax.scan(layer, x, self.rest)
        return jax.vmap(self.readout)(x)


class Layer(eqx.Module):
    """The affine maps of one layer (the half with a ReLU first), and the scale and shift after the normalization."""

    weight: Float[Array, "*stack channels three_in"]
    bias: Float[Array, "*stack channels"]
    scale: Float[Array, "*stack channels"]
    shift: Float[Array, "*stack channels"]

    def __init__(self, channels_in: int, channels: int, *, key: PRNGKeyArray) -> None:
        bound = 1 / math.sqrt(3 * channels_in)
        for_weight, for_bias = jax.random.split(key)
        self.weight = jax.random.uniform(for_weight, (channels, 3 * channels_in), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(for_bias, (channels,), minval=-bound, maxval=bound)
        self.scale, self.shift = jnp.ones(channels), jnp.zeros(channels)

    def __call__(self, z: Float[Array, "nodes three_in"]) -> Float[Array, "nodes channels"]:
        z = z @ self.weight.T + self.bias
        half = z.shape[1] // 2
        z = jnp.concatenate([jax.nn.relu(z[:, :half]), z[:, half:]], axis=1)
        return normalize(z) * self.scale + self.shift


def normalize(x: Float[Array, "nodes ..."]) -> Float[Array, "nodes ..."]:
    """Every channel with mean 0 and variance 1 over the nodes."""
    centered = x - x.mean(0)
    return centered / jnp.sqrt(jnp.mean(centered**2, axis=0) + VARIANCE_FLOOR)
