"""A classifier of the concepts in an image, with the body of a U-Net."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.convnet import Image
from dynascope.models.unet import levels
from dynascope.models.unet_blocks import Backbone
from dynascope.models.unet_layers import Dense, Draws, GroupNorm, draw_at_once

FEATURES = 64
"""Channels of the U-Net's output, and hidden units of the head."""


class ConceptClassifier(eqx.Module):
    """Two logits for each concept of one image: a U-Net, the largest values over all pixels, and a network with one
    hidden layer.

    The U-Net has 64 output channels, the network GELUs. `jax.nn.softmax(model(image))[:, 1]` are the probabilities that
    the two-valued concepts have their second value.

    Args:
        shape: Height, width and channels of an image.
        concepts: Number of concepts.
        key: Key of the weights.
        channels: Channels of each level of the U-Net.
        blocks: Number of residual blocks in each level.
        groups: Number of groups of channels that are normalized together.
        heads: Number of attention heads at the lowest level.
    """

    backbone: Backbone
    norms: tuple[GroupNorm, GroupNorm]
    hidden: Dense
    out: Dense
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        concepts: int = 2,
        *,
        key: PRNGKeyArray,
        channels: Sequence[int] = (32, 32, 32),
        blocks: int = 1,
        groups: int = 4,
        heads: int = 4,
    ) -> None:
        self.shape = checks.image_shape(shape)
        checks.whole("concepts", concepts, at_least=1, at_most=1000)
        if FEATURES % checks.whole("groups", groups, at_least=1):
            raise ValueError(f"groups must divide {FEATURES}; got {groups}")
        widths = levels(self.shape, channels, blocks, groups, heads)
        checks.key("key", key)

        def parts(draws: Draws) -> tuple[Backbone, tuple[GroupNorm, GroupNorm], Dense, Dense]:
            backbone = Backbone(
                self.shape[-1], FEATURES, widths, draws=draws, blocks=blocks, groups=groups, heads=heads, zero=False
            )
            norms = GroupNorm(FEATURES, groups, draws=draws), GroupNorm(FEATURES, groups, draws=draws)
            return backbone, norms, Dense(FEATURES, FEATURES, draws=draws), Dense(FEATURES, 2 * concepts, draws=draws)

        self.backbone, self.norms, self.hidden, self.out = draw_at_once(parts, key)

    def __call__(self, image: Image) -> Float[Array, "concepts 2"]:
        checks.example(self, image, self.shape)
        pooled = self.backbone(image).max(axis=(0, 1))
        hidden = jax.nn.gelu(self.hidden(self.norms[0](pooled)), approximate=False)
        return self.out(self.norms[1](hidden)).reshape(-1, 2)
