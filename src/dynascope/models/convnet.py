"""Convolutional networks on images (height, width, channels): CNN-L, Myrtle-5, a layer more or less."""

from __future__ import annotations

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.models.mlp import ACTIVATIONS, Activation, Parameterization
from dynascope.models.tapping import Tap, untapped

Image = Float[Array, "_ _ _"]
"""Height, width, channels."""


class Affine(eqx.Module):
    """A convolution (weight of shape s, s, in, out; zero padding) or a linear map (weight in, out), and its bias.

    In the "ntk" parameterization entries are normal with standard deviation `spread` and the map is divided by
    sqrt(fan-in); in the "standard" one they are uniform in +-1/sqrt(fan-in), and `spread` does not matter.
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
        parameterization: Parameterization | str = "ntk",
        bias: bool = False,
        spread: float | Float[Array, ""] = 1.0,
        stride: int = 1,
    ) -> None:
        root, (for_weight, for_bias) = math.sqrt(math.prod(shape[:-1])), jax.random.split(key)
        ntk = parameterization == "ntk"
        if not ntk and parameterization != "standard":
            raise ValueError(f"parameterization must be standard or ntk; got {parameterization!r}")

        def draw(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
            if ntk:
                return spread * jax.random.normal(key, shape)
            return jax.random.uniform(key, shape, minval=-1 / root, maxval=1 / root)

        self.weight = draw(for_weight, shape)
        self.bias = draw(for_bias, shape[-1:]) if bias else None
        self.scale, self.stride = 1 / root if ntk else 1.0, stride

    def __call__(self, x: Array, tap: Tap = untapped) -> Array:
        conv = self.weight.ndim == 4
        z = self._convolved(x) if conv else x @ self.weight
        if self.scale != 1.0:
            z = self.scale * z
        if self.bias is not None:
            z = z + self.bias
        return tap(z, x, scale=self.scale, bias=self.bias is not None, windows=self._windows if conv else None)

    def _convolved(self, x: Image) -> Image:
        strides = (self.stride, self.stride)
        return lax.conv_general_dilated(x[None], self.weight, strides, "SAME", dimension_numbers=_LAYOUT)[0]

    def _windows(self, x: Image) -> Image:
        """At every position of the output the part of the image it is made of, laid flat like the weight."""
        size, stride = self.weight.shape[:2], self.stride
        around = lax.padtype_to_pads(x.shape[:2], size, (stride, stride), "SAME")
        padded = jnp.pad(x, (*around, (0, 0)))
        rows, columns = (-(-side // stride) for side in x.shape[:2])

        def shifted(i: int, j: int) -> Image:
            return padded[i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]

        return jnp.concatenate([shifted(i, j) for i in range(size[0]) for j in range(size[1])], axis=-1)


_LAYOUT = ("NHWC", "HWIO", "NHWC")


class ConvNet(eqx.Module):
    """Convolutions (stride 1, zero padding), each with an activation and then so many average poolings by two; at last
    the image is laid flat, and a linear map follows.

    `ConvNet((32, 32, 3), (512,) * 4, key=key)` is CNN5 with 512 channels; a single convolution makes the two-layer
    network; `myrtle5` is below. Without `bias` and in the "ntk" parameterization unless it is asked for otherwise;
    "standard" with biases is the usual framework default.
    """

    convolutions: list[Affine]
    head: Affine
    pools: tuple[int, ...] = eqx.field(static=True)
    activation: Activation | str = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        channels: Sequence[int],
        *,
        key: PRNGKeyArray,
        out: int = 1,
        window: int = 3,
        pools: Sequence[int] | None = None,
        activation: Activation | str = "relu",
        parameterization: Parameterization | str = "ntk",
        bias: bool = False,
        scale: float | Float[Array, ""] = 1.0,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}")
        self.pools = tuple(pools) if pools is not None else (0,) * len(channels)
        if len(self.pools) != len(channels) or not channels:
            raise ValueError(f"pools says for each of {len(channels)} convolutions how many follow; got {pools}")
        keys = jax.random.split(key, len(channels) + 1)
        sizes = (shape[-1], *channels)
        common = {"parameterization": parameterization, "bias": bias, "spread": scale}
        self.convolutions = [
            Affine((window, window, fan_in, fan_out), key=k, **common)
            for k, fan_in, fan_out in zip(keys[:-1], sizes[:-1], sizes[1:], strict=True)
        ]
        self.activation = activation
        height, width = (max(1, side >> sum(self.pools)) for side in shape[:2])
        self.head = Affine((height * width * channels[-1], out), key=keys[-1], **common)

    def _features(self, x: Image, tap: Tap = untapped) -> Image:
        for convolution, pools in zip(self.convolutions, self.pools, strict=True):
            x = ACTIVATIONS[self.activation](convolution(x, tap))
            for _ in range(pools):
                x = halved(x)
        return x

    def __call__(self, x: Image) -> Float[Array, " out"]:
        return self.tapped(x, untapped)

    def tapped(self, x: Image, tap: Tap) -> Float[Array, " out"]:
        """The forward pass, open to a look at its affine maps: see `models.tapping`."""
        return self.head(self._features(x, tap).ravel(), tap)


def myrtle5(
    shape: tuple[int, int, int],
    channels: Sequence[int] = (64, 128, 256, 512),
    *,
    key: PRNGKeyArray,
    out: int = 1,
    parameterization: Parameterization | str = "ntk",
    bias: bool = False,
) -> ConvNet:
    """The Myrtle network of five layers: conv, conv, pool, conv, pool, conv, three pools, linear; average pooling."""
    return ConvNet(shape, channels, key=key, out=out, pools=(0, 1, 1, 3), parameterization=parameterization, bias=bias)


def halved(x: Image) -> Image:
    """Means over squares of 2 x 2 (over what there is, where a side is 1; an odd last row or column is left out)."""
    window = (min(2, x.shape[0]), min(2, x.shape[1]), 1)
    return lax.reduce_window(x, x.dtype.type(0), lax.add, window, window, "VALID") / math.prod(window)
