"""The networks of feature learning, and the loss they are trained on."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from dynascope.models import MLP, ConvNet, myrtle5

Architecture = Literal["fcn", "cnn", "myrtle"]
MYRTLE_LAYERS = 5


class Shape(eqx.Module):
    """A ReLU network with one output, for inputs of any shape: vectors for "fcn", else pictures."""

    architecture: Architecture = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    parameterization: Literal["ntk", "standard"] = eqx.field(static=True)

    @property
    def takes_pictures(self) -> bool:
        return self.architecture != "fcn"

    def network(self, seed: Array | int, inputs: tuple[int, ...], scale: Array | float = 1.0) -> Any:
        """At its random start, with all weights times `scale`."""
        key = jax.random.key(seed)
        common: dict[str, Any] = {"key": key, "parameterization": self.parameterization, "bias": self.bias}
        if self.architecture == "fcn":
            start = MLP(inputs[0], self.depth, width=self.width, out=1, activation="relu", **common)
        elif self.architecture == "cnn":
            start = ConvNet((inputs[0], inputs[1], inputs[2]), (self.width,) * (self.depth - 1), **common)
        else:
            start = myrtle5((inputs[0], inputs[1], inputs[2]), (self.width,) * (MYRTLE_LAYERS - 1), **common)
        return jax.tree.map(lambda weights: scale * weights, start)


def squared_error(model: Any, batch: tuple[Array, Array]) -> Array:
    """The mean over examples, of a network with one output."""
    x, y = batch
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)
