"""Fully connected networks, linear or not, of any depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Activation = Literal["linear", "relu", "tanh", "gelu", "swish"]
Parameterization = Literal["standard", "ntk"]
"""Of convolutions and residual networks."""
MLPParameterization = Literal["standard", "ntk", "mup"]

ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "swish": jax.nn.swish,
}


class MLP(eqx.Module):
    """Weight matrices with an activation between them (not after the last).

    Args:
        dim: Number of inputs.
        depth: Number of matrices.
        key: Key of the weights.
        width: Number of hidden neurons. Default: `dim`.
        out: Number of outputs. Default: `dim`.
        activation: The activation.
        bias: Whether the layers have biases.
        scale: Standard deviation of normal weights, with zero biases. Default: all uniform in ±1/sqrt(fan-in).
        parameterization: With "ntk", weights and biases are normal with standard deviation `scale` (1 by default), and
            each matrix is divided by sqrt(fan-in) in the forward pass: z = W h / sqrt(fan-in) + b. With "mup", the
            maximal update parameterization of gradient descent (Yang and Hu 2021, arXiv 2011.14522), weights are normal
            with standard deviation `scale` / sqrt(width) and without biases. The first layer is z = sqrt(width / dim) W
            x, hidden ones are z = W h, the last one is z = W h / sqrt(width): at every width all layers learn at the
            same learning rate.
    """

    weights: list[Float[Array, "_ _"]]
    biases: list[Float[Array, " _"]] | None
    activation: Activation = eqx.field(static=True)
    parameterization: MLPParameterization = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        depth: int,
        *,
        key: PRNGKeyArray,
        width: int | None = None,
        out: int | None = None,
        activation: Activation = "linear",
        bias: bool = False,
        scale: float | Float[Array, ""] | None = None,
        parameterization: MLPParameterization = "standard",
    ) -> None:
        width, out = dim if width is None else width, dim if out is None else out
        checks.sizes(dim=dim, depth=depth, width=width, out=out)
        checks.flags(bias=bias)
        self.activation = checks.one_of("activation", activation, ACTIVATIONS)
        self.parameterization = checks.one_of("parameterization", parameterization, get_args(MLPParameterization))
        ntk, mup = parameterization == "ntk", parameterization == "mup"
        spread = 1.0 if (ntk or mup) and scale is None else scale
        if spread is not None:
            checks.real("scale", spread, at_least=0)
            spread = spread / math.sqrt(width) if mup and depth > 1 else spread
        if mup and bias:
            raise ValueError("bias must be False with parameterization='mup'")

        def draw(key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int) -> Array:
            if spread is not None:
                return spread * jax.random.normal(key, shape)
            return jax.random.uniform(key, shape, minval=-1 / math.sqrt(fan_in), maxval=1 / math.sqrt(fan_in))

        keys = jax.random.split(checks.key("key", key), 2 * depth)
        layers = list(pairwise([dim, *[width] * (depth - 1), out]))
        self.weights = [draw(k, (to, fan_in), fan_in) for k, (fan_in, to) in zip(keys[:depth], layers, strict=True)]
        self.biases = None
        if bias:
            zero = scale is not None and not ntk
            self.biases = [
                jnp.zeros(to) if zero else draw(k, (to,), fan_in)
                for k, (fan_in, to) in zip(keys[depth:], layers, strict=True)
            ]

    @classmethod
    def from_weights(cls, weights: Sequence[Float[Array, "_ _"]], activation: Activation = "linear") -> MLP:
        """A network with given weight matrices and no biases.

        Args:
            weights: Matrices (fan-out, fan-in), input side first.
            activation: The activation.
        """
        if not isinstance(weights, Sequence) or not weights:
            raise TypeError(f"weights must be a list of matrices; got {checks.shown(weights)}")
        weights = [checks.jax_array("each of weights", weight, ndim=2) for weight in weights]
        shapes = [weight.shape for weight in weights]
        if any(fan_out != fan_in for (fan_out, _), (_, fan_in) in pairwise(shapes)):
            raise ValueError(f"weights must be matrices that can be multiplied, input side first; got shapes {shapes}")
        blank = cls(weights[0].shape[1], 1, key=jax.random.key(0), activation=activation)
        return eqx.tree_at(lambda net: net.weights, blank, weights)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        checks.example(self, x, self.weights[0].shape[1:])
        last = len(self.weights) - 1
        for layer in range(last + 1):
            x = self.affine(layer, x)
            if layer < last:
                x = ACTIVATIONS[self.activation](x)
        return x

    def affine(self, layer: int, x: Float[Array, " fan_in"]) -> Float[Array, " fan_out"]:
        """The output of one layer before the activation.

        Args:
            layer: Its number, from 0.
            x: The input of the layer, (fan_in,).
        """
        x = self.weights[layer] @ x
        if self.parameterization != "standard":
            x = self._scale(layer) * x
        return x if self.biases is None else x + self.biases[layer]

    def _scale(self, layer: int) -> float:
        """The factor of a layer's matrix in the forward pass."""
        if self.parameterization == "standard":
            return 1.0
        ntk = 1 / math.sqrt(self.weights[layer].shape[1])
        last = len(self.weights) - 1
        if self.parameterization == "ntk" or last == 0:
            return ntk
        return ntk if layer == last else ntk * math.sqrt(self.weights[-1].shape[1])

    def matrix(self) -> Float[Array, "out in"]:
        """The end-to-end matrix of a linear network: the product of its weights."""
        if self.activation != "linear" or self.biases is not None:
            raise ValueError("only a linear network without biases is a matrix")
        product = reduce(lambda product, weight: weight @ product, self.weights)
        if self.parameterization != "standard":
            product = math.prod(self._scale(layer) for layer in range(len(self.weights))) * product
        return product


class Symmetric(eqx.Module):
    """f(x) = U U^T x, the symmetric linear network of two layers. Its matrix U U^T is positive semi-definite and keeps
    the rank that U starts with."""

    factor: Float[Array, "d width"] = eqx.field(converter=lambda factor: checks.jax_array("factor", factor, ndim=2))
    """U."""

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        checks.example(self, x, self.factor.shape[:1])
        return self.factor @ (self.factor.T @ x)

    def matrix(self) -> Float[Array, "d d"]:
        """The end-to-end matrix U U^T."""
        return self.factor @ self.factor.T
