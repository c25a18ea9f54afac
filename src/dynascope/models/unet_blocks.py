"""What a U-Net is made of: convolutions, group normalization, residual blocks, and the way down and up again.

Everything takes one image (height, width, channels) in float32 or bfloat16 and keeps that type; weights stay in
float32, and norms, activations and embedded vectors are computed in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.models.convnet import Image
from dynascope.models.transformer import Attention, Linear, drawn

Vector = Float[Array, " _"]
_LAYOUT = ("NHWC", "HWIO", "NHWC")


class Conv(eqx.Module):
    """A convolution with zero padding and a bias: weight (size, size, in, out), at first uniform in ±1/sqrt(fan-in), or
    zero."""

    weight: Float[Array, "size size in out"]
    bias: Float[Array, " out"]
    stride: int = eqx.field(static=True)

    def __init__(
        self, size: int, fan_in: int, out: int, *, key: PRNGKeyArray, stride: int = 1, zero: bool = False
    ) -> None:
        for_weight, for_bias = jax.random.split(key)
        shape, inner, scale = (size, size, fan_in, out), size * size * fan_in, 0.0 if zero else 1.0
        self.weight = drawn("framework", for_weight, shape, inner, scale)
        self.bias = drawn("framework", for_bias, (out,), inner, scale)
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

    def __init__(self, fan_in: int, out: int, *, key: PRNGKeyArray) -> None:
        for_weight, for_bias = jax.random.split(key)
        self.weight = drawn("framework", for_weight, (2, 2, fan_in, out), fan_in, 1.0)
        self.bias = drawn("framework", for_bias, (out,), fan_in, 1.0)

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

    def __init__(self, channels: int, groups: int) -> None:
        self.gain, self.offset, self.groups = jnp.ones(channels), jnp.zeros(channels), groups

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


def activated(norm: GroupNorm, x: Float[Array, "*space channels"]) -> Float[Array, "*space channels"]:
    """GELU of the normalized image, in the type of the image."""
    return jax.nn.gelu(norm(x), approximate=False).astype(x.dtype)


class Embedding(eqx.Module):
    """Two linear maps of a vector, each followed by GELUs."""

    first: Linear
    second: Linear

    def __init__(self, dim: int, out: int, *, key: PRNGKeyArray) -> None:
        keys = jax.random.split(key)
        self.first, self.second = Linear(dim, out, key=keys[0]), Linear(out, out, key=keys[1])

    def __call__(self, x: Vector) -> Vector:
        hidden = jax.nn.gelu(self.first(x), approximate=False)
        return jax.nn.gelu(self.second(hidden), approximate=False)


class Residual(eqx.Module):
    """x + conv(dropout(gelu(norm(conv(gelu(norm(x))) + vectors)))), where each of the vectors is embedded and added to
    all pixels, and the last convolution is zero at first. A 1 x 1 convolution of x stands for x where the number of
    channels changes."""

    norms: tuple[GroupNorm, GroupNorm]
    first: Conv
    second: Conv
    embeddings: list[Embedding]
    shortcut: Conv | None
    dropout: float = eqx.field(static=True)

    def __init__(
        self, fan_in: int, out: int, vectors: Sequence[int], groups: int, dropout: float, *, key: PRNGKeyArray
    ) -> None:
        keys = jax.random.split(key, 3 + len(vectors))
        self.norms = GroupNorm(fan_in, groups), GroupNorm(out, groups)
        self.first, self.second = Conv(3, fan_in, out, key=keys[0]), Conv(3, out, out, key=keys[1], zero=True)
        self.shortcut = None if fan_in == out else Conv(1, fan_in, out, key=keys[2])
        self.embeddings = [Embedding(dim, out, key=key) for dim, key in zip(vectors, keys[3:], strict=True)]
        self.dropout = dropout

    def __call__(self, x: Image, vectors: Sequence[Vector], key: PRNGKeyArray | None) -> Image:
        y = self.first(activated(self.norms[0], x))
        for embedding, vector in zip(self.embeddings, vectors, strict=True):
            y = y + embedding(vector).astype(x.dtype)
        y = activated(self.norms[1], y)
        y = self.second(y if key is None else dropped(y, self.dropout, key))
        return y + (x if self.shortcut is None else self.shortcut(x))


def dropped(x: Image, share: float, key: PRNGKeyArray) -> Image:
    """Set this share of the numbers to zero and divide the others by 1 - share."""
    if share == 0:
        return x
    threshold = min(round(share * 2**16), 2**16 - 1)  # of 16 random bits, half of what a float takes
    keep = jax.random.bits(key, x.shape, jnp.uint16) >= threshold
    return jnp.where(keep, x / (1 - share), jnp.zeros_like(x))


class Backbone(eqx.Module):
    """Residual blocks at every level on the way down and up, images halved or doubled in between, and at the lowest
    level a block, attention and a block. What leaves a level on the way down is concatenated to what enters it on the
    way up.

    `vectors` are the sizes of the vectors that enter every block, and `entering` that of one that is added to each
    halved image instead (none: 0).
    """

    stem: Conv
    down: list[list[Residual]]
    halved: list[Conv]
    entries: list[Embedding]
    middle: tuple[Residual, Residual]
    norm: GroupNorm
    attention: Attention
    up: list[list[Residual]]
    doubled: list[Doubled]
    last: GroupNorm
    head: Conv

    def __init__(
        self,
        fan_in: int,
        out: int,
        channels: Sequence[int],
        *,
        key: PRNGKeyArray,
        blocks: int = 2,
        vectors: Sequence[int] = (),
        entering: int = 0,
        groups: int = 8,
        heads: int = 4,
        dropout: float = 0.0,
        zero: bool = True,
    ) -> None:
        levels = len(channels)
        keys = iter(jax.random.split(key, 5 + 2 * levels * blocks + 3 * (levels - 1)))

        def residual(fan_in: int, out: int) -> Residual:
            return Residual(fan_in, out, vectors, groups, dropout, key=next(keys))

        self.stem, width = Conv(3, fan_in, channels[0], key=next(keys)), channels[0]
        self.down, self.up = [], []
        for each in channels:
            self.down.append([residual(each if block else width, each) for block in range(blocks)])
            width = each
        self.halved = [Conv(2, each, each, key=next(keys), stride=2) for each in channels[:-1]]
        self.entries = [Embedding(entering, each, key=next(keys)) for each in channels[:-1] if entering]
        self.middle = residual(width, width), residual(width, width)
        self.norm, self.attention = GroupNorm(width, groups), Attention(width, heads, key=next(keys))
        for level, each in enumerate(reversed(channels)):
            self.up.append([residual(each if block or not level else 2 * each, each) for block in range(blocks)])
        self.doubled = [Doubled(a, b, key=next(keys)) for a, b in pairwise(reversed(channels))]
        self.last, self.head = GroupNorm(channels[0], groups), Conv(3, channels[0], out, key=next(keys), zero=zero)

    def __call__(
        self, x: Image, vectors: Sequence[Vector] = (), entering: Vector | None = None, key: PRNGKeyArray | None = None
    ) -> Image:
        count = sum(map(len, self.down)) + sum(map(len, self.up)) + 2
        keys = iter([None] * count if key is None else jax.random.split(key, count))
        x, skips = self.stem(x), []
        for level, blocks in enumerate(self.down):
            for block in blocks:
                x = block(x, vectors, next(keys))
            if level < len(self.halved):
                skips.append(x)
                x = self.halved[level](x)
                if entering is not None:
                    x = x + self.entries[level](entering).astype(x.dtype)
        x = self.middle[0](x, vectors, next(keys))
        tokens = self.norm(x).astype(x.dtype).reshape(-1, x.shape[-1])
        x = self.middle[1](x + self.attention(tokens).reshape(x.shape), vectors, next(keys))
        for level, blocks in enumerate(self.up):
            for block in blocks:
                x = block(x, vectors, next(keys))
            if level < len(self.doubled):
                x = jnp.concatenate([self.doubled[level](x), skips.pop()], axis=-1)
        return self.head(activated(self.last, x))
