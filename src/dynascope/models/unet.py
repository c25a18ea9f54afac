"""The U-Net of diffusion models: the noise in an image, given how noisy it is and a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.convnet import Image
from dynascope.models.transformer import Compute
from dynascope.models.unet_blocks import Backbone
from dynascope.models.unet_layers import Draws, Embedding, Vector, draw_at_once

Norm = Literal["group", "layer"]
Placement = Literal["every", "downsampling"]

WAVES = 64
"""Sines and cosines of the time."""
TIME = 4 * WAVES
"""Size of the embedded time."""


class UNet(eqx.Module):
    """ε̂(z, γ, condition): the noise in one noisy image z (height, width, channels), as z + a U-Net of z.

    γ is minus the logarithm of the signal-to-noise ratio. The time (γ - gamma_min) / (gamma_max - gamma_min), times
    1000, becomes 64 sines and cosines and an embedding of 256 numbers, which enters every block. At the start the last
    convolution is zero and the output is z. With a `key` the call applies dropout, for training; without one there is
    none. `jax.vmap` over images turns every convolution into a single one of the whole batch. `UNet((32, 32, 3),
    key=key)` has 10.6 million parameters.

    Args:
        shape: Height, width and channels of an image.
        condition: Number of entries of the condition.
        key: Key of the weights.
        channels: Channels of each level; images are halved between levels.
        blocks: Number of residual blocks in each level.
        norm: Norms over groups of channels ("group") or over the whole image ("layer").
        groups: Number of groups of channels.
        placement: The condition enters every block ("every"), or after each halving of the image ("downsampling").
        heads: Number of attention heads at the lowest level.
        dropout: Share of activations that dropout removes.
        gamma_min: γ at time 0.
        gamma_max: γ at time 1.
        compute: "bfloat16" for convolutions and attention of float32 weights in that precision, and nothing else.
        scale: Factor of all initial parameters.
    """

    time: Embedding
    backbone: Backbone
    shape: tuple[int, int, int] = eqx.field(static=True)
    condition: int = eqx.field(static=True)
    gammas: tuple[float, float] = eqx.field(static=True)
    placement: Placement = eqx.field(static=True)
    compute: Compute = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        condition: int = 4,
        *,
        key: PRNGKeyArray,
        channels: Sequence[int] = (64, 128, 256),
        blocks: int = 2,
        norm: Norm = "group",
        groups: int = 8,
        placement: Placement = "every",
        heads: int = 4,
        dropout: float = 0.1,
        gamma_min: float = -5.0,
        gamma_max: float = 10.0,
        compute: Compute = "float32",
        scale: float = 1.0,
    ) -> None:
        self.shape = checks.image_shape(shape)
        self.condition = checks.whole("condition", condition, at_least=1, at_most=2**31 - 1)
        self.placement = checks.one_of("placement", placement, get_args(Placement))
        self.compute = checks.one_of("compute", compute, get_args(Compute))
        checks.real("dropout", dropout, at_least=0, below=1)
        checks.real("scale", scale, above=0)
        checks.real("gamma_min", gamma_min)
        self.gammas = float(gamma_min), float(checks.real("gamma_max", gamma_max, above=float(gamma_min)))
        layer = checks.one_of("norm", norm, get_args(Norm)) == "layer"
        groups = 1 if layer else checks.whole("groups", groups, at_least=1)
        widths = levels(self.shape, channels, blocks, groups, heads)
        every = placement == "every"
        if not every and len(widths) == 1:
            raise ValueError('channels must have two levels or more for placement="downsampling"; got one')
        checks.key("key", key)

        def parts(draws: Draws) -> tuple[Embedding, Backbone]:
            backbone = Backbone(
                self.shape[-1],
                self.shape[-1],
                widths,
                draws=draws,
                blocks=blocks,
                vectors=(TIME, condition) if every else (TIME,),
                entering=0 if every else condition,
                groups=groups,
                heads=heads,
                dropout=float(dropout),
            )
            return Embedding(WAVES, TIME, draws=draws), backbone

        self.time, self.backbone = draw_at_once(parts, key, scale)

    def __call__(
        self, z: Image, gamma: Float[Array, ""] | float, condition: Vector, *, key: PRNGKeyArray | None = None
    ) -> Image:
        checks.example(self, z, self.shape)
        if jnp.shape(condition) != (self.condition,):
            wanted = f"a vector of {self.condition} numbers (use jax.vmap for a batch)"
            raise ValueError(f"condition must be {wanted}; got {checks.shown(condition)}")
        kind = self.time.first.weight.dtype
        first, last = self.gammas
        time = self.time(waves((jnp.asarray(checks.real("gamma", gamma), kind) - first) / (last - first)))
        vector = jnp.asarray(condition, kind)
        every = self.placement == "every"
        x = z.astype(jnp.bfloat16) if self.compute == "bfloat16" else z
        noise = self.backbone(x, (time, vector) if every else (time,), None if every else vector, key)
        return noise.astype(z.dtype) + z


def waves(time: Float[Array, ""], count: int = WAVES) -> Float[Array, " count"]:
    """Sines, then cosines, of 1000 `time` at count / 2 frequencies from 1 to 1/10,000, spaced geometrically."""
    half = count // 2
    frequencies = jnp.exp(-math.log(10_000) * jnp.arange(half, dtype=time.dtype) / (half - 1))
    angles = 1000 * time * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])


def levels(
    shape: tuple[int, int, int], channels: Sequence[int], blocks: int, groups: int, heads: int
) -> tuple[int, ...]:
    """The channels of each level, checked to be divisible by groups and heads, with images that can be halved between
    levels."""
    if not isinstance(channels, tuple | list) or not channels:
        raise ValueError(f"channels must have one entry for each level; got {checks.shown(channels)}")
    widths = tuple(checks.whole("each of channels", each, at_least=1, at_most=2**31 - 1) for each in channels)
    checks.whole("blocks", blocks, at_least=1, at_most=1000)
    checks.whole("heads", heads, at_least=1)
    (height, width, _), factor = shape, 2 ** (len(widths) - 1)
    if height % factor or width % factor:
        needed = f"multiples of {factor}, to be halved between {len(widths)} levels"
        raise ValueError(f"height and width must be {needed}; got {height} x {width}")
    if any(each % groups for each in widths):
        raise ValueError(f"each of channels must be a multiple of groups={groups}; got {widths}")
    if widths[-1] % heads:
        raise ValueError(f"the last of channels must be a multiple of heads={heads}; got {widths[-1]}")
    return widths
