"""Wide residual networks on images, without batch normalization: the tangent kernel needs single examples."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.convnet import Affine, Image
from dynascope.models.mlp import Parameterization

STEM = 16
"""Channels of the first convolution; the three groups have 1, 2 and 4 times as many, times the widening."""


class Block(eqx.Module):
    """x + conv(relu(conv(relu(x)))); if the shape changes, a 1 x 1 convolution of relu(x) instead of x."""

    first: Affine
    second: Affine
    shortcut: Affine | None

    def __call__(self, x: Image) -> Image:
        open_ = jax.nn.relu(x)
        branch = self.second(jax.nn.relu(self.first(open_)))
        return branch + (x if self.shortcut is None else self.shortcut(open_))


class WideResNet(eqx.Module):
    """WRN-depth-widening (Zagoruyko & Komodakis 2016): three groups of blocks, the second and third at half the
    resolution.

    Then the mean over the image and a linear map. No normalization, no dropout. `WideResNet((32, 32, 3), 10, 10,
    key=key)` is WRN-10-10, with 7.4 million weights.

    Args:
        shape: Height, width and channels of an image.
        depth: 6 n + 4, for n blocks in each group.
        widening: Factor of the number of channels.
        key: Key of the weights.
        out: Number of outputs.
        stem: Number of channels of the first convolution.
        parameterization: "ntk" or "standard"; see `ConvNet`.
        bias: Whether the maps have biases.
    """

    stem: Affine
    blocks: list[Block]
    head: Affine

    def __init__(
        self,
        shape: tuple[int, int, int],
        depth: int = 10,
        widening: int = 10,
        *,
        key: PRNGKeyArray,
        out: int = 1,
        stem: int = STEM,
        parameterization: Parameterization = "ntk",
        bias: bool = False,
    ) -> None:
        channels = checks.image_shape(shape)[-1]
        checks.sizes(widening=widening, out=out, stem=stem)
        checks.flags(bias=bias)
        if checks.whole("depth", depth, at_most=10_000) < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 10, 16, 22, ...; got {depth}")
        each = (depth - 4) // 6
        keys = iter(jax.random.split(checks.key("key", key), 2 + 9 * each))

        def affine(*shape: int, stride: int = 1) -> Affine:
            return Affine(shape, key=next(keys), parameterization=parameterization, bias=bias, stride=stride)

        self.stem, self.blocks, fan_in = affine(3, 3, channels, stem), [], stem
        for group in range(3):
            channels = stem * widening * 2**group
            for place in range(each):
                stride = 2 if group and not place else 1
                first = affine(3, 3, fan_in, channels, stride=stride)
                second = affine(3, 3, channels, channels)
                changes = fan_in != channels or stride > 1
                shortcut = affine(1, 1, fan_in, channels, stride=stride) if changes else None
                self.blocks.append(Block(first, second, shortcut))
                fan_in = channels
        self.head = affine(fan_in, out)

    def __call__(self, x: Image) -> Float[Array, " out"]:
        channels = self.stem.weight.shape[2]
        if x.ndim != 3 or x.shape[2] != channels:
            raise ValueError(f"WideResNet takes one image (height, width, {channels}); got shape {x.shape}")
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(jax.nn.relu(x), axis=(0, 1)))
