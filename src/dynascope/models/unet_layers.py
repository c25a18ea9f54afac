"""The layers of a U-Net: convolutions, transposed ones, linear maps and group normalization.

Layers on images take one image (height, width, channels) in float32 or bfloat16 and keep that type; weights stay in
float32, and norms, activations and embedded vectors are computed in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.models.convnet import Image

Vector = Float[Array, " _"]
Module = TypeVar("Module")
_LAYOUT = ("NHWC", "HWIO", "NHWC")


class Draws:
    """Initial parameters, all multiplied by `scale`. The random ones are cut one after the other from `numbers`."""

    def __init__(self, numbers: Any, scale: Any) -> None:
        self.numbers, self.scale, self.taken = numbers, scale, 0

    def uniform(self, shape: tuple[int, ...], fan_in: int) -> Array:
        """Uniform in ±1/sqrt(fan-in), the usual framework default."""
        first, self.taken = self.taken, self.taken + math.prod(shape)
        piece = np.zeros(shape, np.float32) if self.numbers is None else self.numbers[first : self.taken].reshape(shape)
        return jnp.asarray(piece * (self.scale / math.sqrt(fan_in)), jnp.result_type(float))

    def constant(self, value: float, shape: tuple[int, ...]) -> Array:
        return jnp.asarray(np.full(shape, value, jnp.result_type(float)) * self.scale)


def draw_at_once(make: Callable[[Draws], Module], key: PRNGKeyArray, scale: float = 1.0) -> Module:
    """The value of `make`, with all its random parameters from one draw: compiling one draw per shape of a U-Net would
    take far longer than everything else."""
    counted = Draws(None, scale)
    make(counted)
    numbers = jax.random.uniform(key, (counted.taken,), jnp.float32, -1, 1)
    return make(Draws(numbers if isinstance(numbers, Tracer) else np.asarray(numbers), scale))


class Conv(eqx.Module):
    """A convolution with zero padding and a bias: weight (size, size, in, out), or zero at first."""

    weight: Float[Array, "size size in out"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)

    def __init__(self, size: int, fan_in: int, out: int, *, draws: Draws, stride: int = 1, zero: bool = False) -> None:
        shape, inner = (size, size, fan_in, out), size * size * fan_in
        self.weight = draws.constant(0, shape) if zero else draws.uniform(shape, inner)
        self.bias = draws.constant(0, (out,)) if zero else draws.uniform((out,), inner)
        self.stride = stride

    def __call__(self, x: Image) -> Image:
        weight, strides = self.weight.astype(x.dtype), (self.stride, self.stride)
        # Under jax.vmap the added axis becomes that of the batch: one convolution of all images.
        y = lax.conv_general_dilated(x[None], weight, strides, "SAME", dimension_numbers=_LAYOUT)[0]
        return y + self.bias.astype(x.dtype)


class Doubled(eqx.Module):
    """A transposed 2 x 2 convolution with stride 2: every pixel becomes four, each by a linear map of its own."""

    weight: Float[Array, "2 2 in out"]
    bias: Float[Array, " out"]

    def __init__(self, fan_in: int, out: int, *, draws: Draws) -> None:
        self.weight = draws.uniform((2, 2, fan_in, out), fan_in)
        self.bias = draws.uniform((out,), fan_in)

    def __call__(self, x: Image) -> Image:
        height, width, _ = x.shape
        four = jnp.einsum("hwc,ijco->hiwjo", x, self.weight.astype(x.dtype))
        return four.reshape(2 * height, 2 * width, -1) + self.bias.astype(x.dtype)


class GroupNorm(eqx.Module):
    """Normalize each group of neighboring channels, over all its pixels, to mean 0 and variance 1; then apply a gain
    and an offset to each channel. One group is the layer norm of an image."""

    gain: Float[Array, " channels"]
    offset: Float[Array, " channels"]
    groups: int = eqx.field(static=True)

    def __init__(self, channels: int, groups: int, *, draws: Draws) -> None:
        self.gain, self.offset = draws.constant(1, (channels,)), draws.constant(0, (channels,))
        self.groups = groups

    def __call__(self, x: Float[Array, "*space channels"]) -> Float[Array, "*space channels"]:
        wide, space = x.astype(self.gain.dtype), tuple(range(x.ndim - 1))

        def of_group(each: Vector) -> Vector:
            """The mean over the channels of a group, for each channel."""
            means = each.reshape(self.groups, -1).mean(axis=1)
            return jnp.repeat(means, len(each) // self.groups)

        # First over pixels, then over the few channels, both moments in one pass. A number near the mean is subtracted
        # before, so that no digits are lost; neither the result nor its derivatives depend on it.
        near = wide - lax.stop_gradient(of_group(wide[(0,) * len(space)]))
        mean = of_group(near.mean(axis=space))
        variance = of_group(jnp.mean(near**2, axis=space)) - mean**2
        scale = lax.rsqrt(jnp.maximum(variance, 0) + 1e-6) * self.gain
        return near * scale + (self.offset - mean * scale)


def activate(norm: GroupNorm, x: Float[Array, "*space channels"]) -> Float[Array, "*space channels"]:
    """GELU of the normalized image, in the type of the image."""
    return jax.nn.gelu(norm(x), approximate=False).astype(x.dtype)


class Dense(eqx.Module):
    """x ↦ x W + b."""

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"]

    def __init__(self, dim: int, out: int, *, draws: Draws) -> None:
        self.weight, self.bias = draws.uniform((dim, out), dim), draws.uniform((out,), dim)

    def __call__(self, x: Vector) -> Vector:
        return x @ self.weight + self.bias


class Embedding(eqx.Module):
    """Two linear maps of a vector, each followed by GELUs."""

    first: Dense
    second: Dense

    def __init__(self, dim: int, out: int, *, draws: Draws) -> None:
        self.first, self.second = Dense(dim, out, draws=draws), Dense(out, out, draws=draws)

    def __call__(self, x: Vector) -> Vector:
        hidden = jax.nn.gelu(self.first(x), approximate=False)
        return jax.nn.gelu(self.second(hidden), approximate=False)


def drop_out(x: Image, share: float, key: PRNGKeyArray) -> Image:
    """Set this share of the numbers to zero and divide the others by 1 - share."""
    if share == 0:
        return x
    threshold = min(round(share * 2**16), 2**16 - 1)  # of 16 random bits, half of what a float takes
    keep = jax.random.bits(key, x.shape, jnp.uint16) >= threshold
    return jnp.where(keep, x / (1 - share), jnp.zeros_like(x))
