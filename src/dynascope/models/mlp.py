"""Fully connected networks, linear or not, of any depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

Activation = Literal["linear", "relu", "tanh", "gelu"]

_ACTIVATIONS = {"linear": lambda x: x, "relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": jax.nn.gelu}


class MLP(eqx.Module):
    """`depth` weight matrices with an activation between them (not after the last).

    Without `scale`, entries are uniform in +-1/sqrt(fan-in), the usual framework default, for biases too; with it,
    weights are normal with that standard deviation and biases zero.
    """

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]] | None
    activation: Activation | str = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        depth: int,
        *,
        key: PRNGKeyArray,
        width: int | None = None,
        out: int | None = None,
        activation: Activation | str = "linear",
        bias: bool = False,
        scale: float | Float[Array, ""] | None = None,
    ) -> None:
        if depth < 1 or dim < 1:
            raise ValueError(f"an MLP needs depth >= 1 and dim >= 1; got depth={depth}, dim={dim}")
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}; got {activation!r}")
        sizes = [dim, *[width or dim] * (depth - 1), out or dim]
        keys = jax.random.split(key, 2 * depth)
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        bounds = [1 / math.sqrt(fan_in) for _, fan_in in shapes]
        if scale is None:
            self.weights = [
                jax.random.uniform(k, shape, minval=-b, maxval=b)
                for k, shape, b in zip(keys[:depth], shapes, bounds, strict=True)
            ]
        else:
            self.weights = [scale * jax.random.normal(k, shape) for k, shape in zip(keys[:depth], shapes, strict=True)]
        self.biases = None
        if bias:
            draws = [
                jax.random.uniform(k, (shape[0],), minval=-b, maxval=b)
                for k, shape, b in zip(keys[depth:], shapes, bounds, strict=True)
            ]
            self.biases = draws if scale is None else [jnp.zeros_like(draw) for draw in draws]
        self.activation = activation

    @classmethod
    def from_weights(cls, weights: Sequence[Float[Array, "_ _"]], activation: Activation = "linear") -> MLP:
        """A network with these weight matrices, input side first, and no biases."""
        weights = [jnp.asarray(weight) for weight in weights]
        blank = cls(weights[0].shape[1], 1, key=jax.random.key(0), activation=activation)
        return eqx.tree_at(lambda net: net.weights, blank, weights)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        last = len(self.weights) - 1
        for layer, weight in enumerate(self.weights):
            x = weight @ x
            if self.biases is not None:
                x = x + self.biases[layer]
            if layer < last:
                x = _ACTIVATIONS[self.activation](x)
        return x

    def matrix(self) -> Float[Array, "out in"]:
        """The end-to-end matrix of a linear network: the product of its weights."""
        if self.activation != "linear" or self.biases is not None:
            raise ValueError("only a linear network without biases is a matrix")
        return reduce(lambda product, weight: weight @ product, self.weights)
