"""Linear layers and their initialization."""

from __future__ import annotations

import math
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Init = Literal["framework", "normal", "ntk"]
Scale = float | int | Float[Array, ""]

STANDARD = 0.02
"""Standard deviation of "normal" weights, GPT-2's."""


def check_init(init: str, scale: Scale) -> None:
    """Refuse an unknown initialization, and a scale from which nothing can be learned."""
    checks.one_of("init", init, get_args(Init))
    checks.real("scale", scale, above=0)


def drawn(init: Init | str, key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, scale: Scale) -> Array:
    """Initial weights times `scale`: uniform in ±1/sqrt(fan-in), the usual framework default ("framework"); normal with
    standard deviation 0.02 ("normal"); or standard normal, with `factor` in the forward pass ("ntk")."""
    if init == "framework":
        bound = 1 / math.sqrt(fan_in)
        return scale * jax.random.uniform(key, shape, minval=-bound, maxval=bound)
    return scale * (STANDARD if init == "normal" else 1.0) * jax.random.normal(key, shape)


def factor(init: Init | str, fan_in: int) -> float:
    """The factor of a linear map in the forward pass: 1/sqrt(fan-in) in the tangent-kernel scaling, else 1."""
    return 1 / math.sqrt(fan_in) if init == "ntk" else 1.0


class Linear(eqx.Module):
    """x ↦ x W + b, for rows x. Biases are drawn like the weights where init is "framework", and zero otherwise."""

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"] | None
    factor: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        out: int,
        *,
        key: PRNGKeyArray,
        init: Init | str = "framework",
        scale: Scale = 1.0,
        bias: bool = True,
    ) -> None:
        checks.sizes(dim=dim, out=out)
        check_init(init, scale)
        for_weight, for_bias = jax.random.split(checks.key("key", key))
        self.weight = drawn(init, for_weight, (dim, out), dim, scale)
        self.bias = None
        if bias:
            self.bias = drawn(init, for_bias, (out,), dim, scale) if init == "framework" else jnp.zeros(out)
        self.factor = factor(init, dim)

    def __call__(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        y = x @ self.weight.astype(x.dtype)
        if self.factor != 1.0:
            y = y * self.factor
        return y if self.bias is None else y + self.bias.astype(x.dtype)
