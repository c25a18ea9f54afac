"""Convolutional networks on images (height, width, channels): CNN-L, Myrtle-5 and variations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import equinox as eqx
import jax
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.mlp import ACTIVATIONS, Activation, Parameterization

Image = Float[Array, "_ _ _"]
"""Height, width, channels."""


def _entries(name: str, given: Sequence[int], at_least: int) -> tuple[int, ...]:
    if not isinstance(given, tuple | list) or not given:
        raise ValueError(f"{name} must have one entry for each convolution; got {checks.shown(given)}")
    return tuple(checks.whole(f"each of {name}", entry, at_least=at_least) for entry in given)


class Affine(eqx.Module):
    """A convolution (weight of shape s, s, in, out; zero padding) or a linear map (weight in, out), and its bias.

    In the "ntk" parameterization entries are normal with standard deviation `spread` and the map is divided by
    sqrt(fan-in); in the "standard" one they are uniform in ±1/sqrt(fan-in), and `spread` is not used.
    """

    weight: Float[Array, ...]
    bias: Float[Array, " out"] | None
    scale: float = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        key: PRNGKeyArray,
        parameterization: Parameterization = "ntk",
        bias: bool = False,
        spread: float | Float[Array, ""] = 1.0,
        stride: int = 1,
    ) -> None:
        root, (for_weight, for_bias) = math.sqrt(math.prod(shape[:-1])), jax.random.split(checks.key("key", key))
        ntk = checks.one_of("parameterization", parameterization, get_args(Parameterization)) == "ntk"

        def draw(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
            if ntk:
                return spread * jax.random.normal(key, shape)
            return jax.random.uniform(key, shape, minval=-1 / root, maxval=1 / root)

        self.weight = draw(for_weight, shape)
        self.bias = draw(for_bias, shape[-1:]) if bias else None
        self.scale, self.stride = 1 / root if ntk else 1.0, stride

    def __call__(self, x: Array) -> Array:
        z = self._convolved(x) if self.weight.ndim == 4 else x @ self.weight
        if self.scale != 1.0:
            z = self.scale * z
        return z if self.bias is None else z + self.bias

    def _convolved(self, x: Image) -> Image:
        strides = (self.stride, self.stride)
        return lax.conv_general_dilated(x[None], self.weight, strides, "SAME", dimension_numbers=_LAYOUT)[0]


_LAYOUT = ("NHWC", "HWIO", "NHWC")


class ConvNet(eqx.Module):
    """Convolutions (stride 1, zero padding), each followed by an activation and average pooling; then a linear map.

    `ConvNet((32, 32, 3), (512,) * 4, key=key)` is CNN5 with 512 channels; a single convolution makes the two-layer
    network.

    Args:
        shape: Height, width and channels of an image.
        channels: Number of channels after each convolution.
        key: Key of the weights.
        out: Number of outputs.
        window: Side of the convolutions, in pixels.
        pools: Number of 2 x 2 average poolings after each convolution. Default: none.
        activation: The activation.
        parameterization: "ntk" (normal weights, each map divided by sqrt(fan-in)) or "standard" (the frameworks').
        bias: Whether the maps have biases.
        scale: Standard deviation of "ntk" weights.
    """

    convolutions: list[Affine]
    head: Affine
    shape: tuple[int, int, int] = eqx.field(static=True)
    pools: tuple[int, ...] = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        *,
        key: PRNGKeyArray,
        out: int = 1,
        window: int = 3,
        pools: Sequence[int] | None = None,
        activation: Activation = "relu",
        parameterization: Parameterization = "ntk",
        bias: bool = False,
        scale: float | Float[Array, ""] = 1.0,
    ) -> None:
        self.shape = checks.image_shape(shape)
        self.activation = checks.one_of("activation", activation, ACTIVATIONS)
        checks.sizes(out=out, window=window)
        checks.flags(bias=bias)
        checks.real("scale", scale, at_least=0)
        channels = _entries("channels", channels, at_least=1)
        self.pools = (0,) * len(channels) if pools is None else _entries("pools", pools, at_least=0)
        if len(self.pools) != len(channels):
            raise ValueError(f"pools must have one entry for each of the {len(channels)} convolutions; got {pools}")
        keys = jax.random.split(checks.key("key", key), len(channels) + 1)
        common = {"parameterization": parameterization, "bias": bias, "spread": scale}
        self.convolutions = [
            Affine((window, window, fan_in, fan_out), key=k, **common)
            for k, (fan_in, fan_out) in zip(keys[:-1], pairwise((shape[-1], *channels)), strict=True)
        ]
        height, width = (max(1, side >> sum(self.pools)) for side in shape[:2])
        self.head = Affine((height * width * channels[-1], out), key=keys[-1], **common)

    def __call__(self, x: Image) -> Float[Array, " out"]:
        checks.example(self, x, self.shape)
        for convolution, pools in zip(self.convolutions, self.pools, strict=True):
            x = ACTIVATIONS[self.activation](convolution(x))
            for _ in range(pools):
                x = halve(x)
        return self.head(x.ravel())


def myrtle5(
    shape: tuple[int, int, int],
    channels: Sequence[int] = (64, 128, 256, 512),
    *,
    key: PRNGKeyArray,
    out: int = 1,
    parameterization: Parameterization = "ntk",
    bias: bool = False,
) -> ConvNet:
    """The Myrtle network of five layers: conv, conv, pool, conv, pool, conv, three pools, linear; average pooling.

    Args:
        shape: Height, width and channels of an image.
        channels: Number of channels after each convolution.
        key: Key of the weights.
        out: Number of outputs.
        parameterization: "ntk" or "standard"; see `ConvNet`.
        bias: Whether the maps have biases.
    """
    return ConvNet(shape, channels, key=key, out=out, pools=(0, 1, 1, 3), parameterization=parameterization, bias=bias)


def halve(x: Image) -> Image:
    """Means over squares of 2 x 2 pixels; an odd last row or column is dropped, a side of length 1 is kept."""
    window = (min(2, x.shape[0]), min(2, x.shape[1]), 1)
    return lax.reduce_window(x, x.dtype.type(0), lax.add, window, window, "VALID") / math.prod(window)
