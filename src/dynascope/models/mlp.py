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

from dynascope.models.tapping import Tap, untapped

Activation = Literal["linear", "relu", "tanh", "gelu", "swish"]
Parameterization = Literal["standard", "ntk"]

ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "swish": jax.nn.swish,
}


class MLP(eqx.Module):
    """`depth` weight matrices with an activation between them (not after the last).

    Without `scale`, entries are uniform in +-1/sqrt(fan-in), the usual framework default, for biases too; with it,
    weights are normal with that standard deviation and biases zero.

    In the "ntk" parameterization all entries, biases too, are normal with standard deviation `scale` (1 if not given;
    0.1 is a start near zero), and each matrix is divided by sqrt(fan-in) as it acts: z = W h / sqrt(fan-in) + b.
    """

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]] | None
    activation: Activation | str = eqx.field(static=True)
    parameterization: Parameterization | str = eqx.field(static=True)

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
        parameterization: Parameterization | str = "standard",
    ) -> None:
        if depth < 1 or dim < 1:
            raise ValueError(f"an MLP needs depth >= 1 and dim >= 1; got depth={depth}, dim={dim}")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}")
        if parameterization not in ("standard", "ntk"):
            raise ValueError(f"parameterization must be standard or ntk; got {parameterization!r}")
        sizes = [dim, *[width or dim] * (depth - 1), out or dim]
        keys = jax.random.split(key, 2 * depth)
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        bounds = [1 / math.sqrt(fan_in) for _, fan_in in shapes]
        ntk = parameterization == "ntk"
        if ntk and scale is None:
            scale = 1.0
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
            if scale is not None and ntk:
                draws = [
                    scale * jax.random.normal(k, (shape[0],)) for k, shape in zip(keys[depth:], shapes, strict=True)
                ]
            elif scale is not None:
                draws = [jnp.zeros_like(draw) for draw in draws]
            self.biases = draws
        self.activation = activation
        self.parameterization = parameterization

    @classmethod
    def from_weights(cls, weights: Sequence[Float[Array, "_ _"]], activation: Activation = "linear") -> MLP:
        """A network with these weight matrices, input side first, and no biases."""
        weights = [jnp.asarray(weight) for weight in weights]
        blank = cls(weights[0].shape[1], 1, key=jax.random.key(0), activation=activation)
        return eqx.tree_at(lambda net: net.weights, blank, weights)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return self.tapped(x, untapped)

    def tapped(self, x: Float[Array, " in"], tap: Tap) -> Float[Array, " out"]:
        """The forward pass, open to a look at its affine maps: see `models.tapping`."""
        last = len(self.weights) - 1
        for layer in range(last + 1):
            scale, bias = self._scale(layer), self.biases is not None
            x = tap(self.affine(layer, x), x, scale=scale, bias=bias, windows=None)
            if layer < last:
                x = ACTIVATIONS[self.activation](x)
        return x

    def affine(self, layer: int, x: Float[Array, " fan_in"]) -> Float[Array, " fan_out"]:
        """What one layer makes of its inputs, before the activation."""
        x = self.weights[layer] @ x
        if self.parameterization == "ntk":
            x = self._scale(layer) * x
        return x if self.biases is None else x + self.biases[layer]

    def _scale(self, layer: int) -> float:
        return 1 / math.sqrt(self.weights[layer].shape[1]) if self.parameterization == "ntk" else 1.0

    def matrix(self) -> Float[Array, "out in"]:
        """The end-to-end matrix of a linear network: the product of its weights."""
        if self.activation != "linear" or self.biases is not None:
            raise ValueError("only a linear network without biases is a matrix")
        product = reduce(lambda product, weight: weight @ product, self.weights)
        if self.parameterization == "ntk":
            product = product / math.sqrt(math.prod(weight.shape[1] for weight in self.weights))
        return product
