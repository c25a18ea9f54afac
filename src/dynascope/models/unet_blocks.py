"""The parts of a U-Net: residual blocks, attention, and the way down and up again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from dynascope.models.convnet import Image
from dynascope.models.transformer import Attention
from dynascope.models.unet_layers import Conv, Doubled, Draws, Embedding, GroupNorm, Vector, activate, drop_out


class Residual(eqx.Module):
    """x + conv(dropout(gelu(norm(conv(gelu(norm(x))) + vectors)))), where each of the vectors is embedded and added to
    all pixels, and the last convolution is zero at first. If the number of channels changes, a 1 x 1 convolution of x
    replaces x."""

    norms: tuple[GroupNorm, GroupNorm]
    first: Conv
    second: Conv
    embeddings: list[Embedding]
    shortcut: Conv | None
    dropout: float = eqx.field(static=True)

    def __init__(
        self, fan_in: int, out: int, vectors: Sequence[int], groups: int, dropout: float, *, draws: Draws
    ) -> None:
        self.norms = GroupNorm(fan_in, groups, draws=draws), GroupNorm(out, groups, draws=draws)
        self.first, self.second = Conv(3, fan_in, out, draws=draws), Conv(3, out, out, draws=draws, zero=True)
        self.shortcut = None if fan_in == out else Conv(1, fan_in, out, draws=draws)
        self.embeddings = [Embedding(dim, out, draws=draws) for dim in vectors]
        self.dropout = dropout

    def __call__(self, x: Image, vectors: Sequence[Vector], key: PRNGKeyArray | None) -> Image:
        y = self.first(activate(self.norms[0], x))
        for embedding, vector in zip(self.embeddings, vectors, strict=True):
            y = y + embedding(vector).astype(x.dtype)
        y = activate(self.norms[1], y)
        y = self.second(y if key is None else drop_out(y, self.dropout, key))
        return y + (x if self.shortcut is None else self.shortcut(x))


class Backbone(eqx.Module):
    """Residual blocks at every level on the way down and up, images halved or doubled in between, and at the lowest
    level a block, attention and a block. The output of a level on the way down is concatenated to its input on the way
    up.

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
        draws: Draws,
        blocks: int = 2,
        vectors: Sequence[int] = (),
        entering: int = 0,
        groups: int = 8,
        heads: int = 4,
        dropout: float = 0.0,
        zero: bool = True,
    ) -> None:
        def residual(fan_in: int, out: int) -> Residual:
            return Residual(fan_in, out, vectors, groups, dropout, draws=draws)

        self.stem, width = Conv(3, fan_in, channels[0], draws=draws), channels[0]
        self.down, self.up = [], []
        for each in channels:
            self.down.append([residual(each if block else width, each) for block in range(blocks)])
            width = each
        self.halved = [Conv(2, each, each, draws=draws, stride=2) for each in channels[:-1]]
        self.entries = [Embedding(entering, each, draws=draws) for each in channels[:-1] if entering]
        self.middle = residual(width, width), residual(width, width)
        self.norm, self.attention = GroupNorm(width, groups, draws=draws), attention(width, heads, draws)
        for level, each in enumerate(reversed(channels)):
            self.up.append([residual(each if block or not level else 2 * each, each) for block in range(blocks)])
        self.doubled = [Doubled(a, b, draws=draws) for a, b in pairwise(reversed(channels))]
        self.last, self.head = (
            GroupNorm(channels[0], groups, draws=draws),
            Conv(3, channels[0], out, draws=draws, zero=zero),
        )

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
        return self.head(activate(self.last, x))


def attention(dim: int, heads: int, draws: Draws) -> Attention:
    """Attention with its parameters from these draws."""
    shapes = eqx.filter_eval_shape(Attention, dim, heads, key=jax.random.key(0))
    leaves, tree = jax.tree.flatten(shapes)
    return jax.tree.unflatten(tree, [draws.uniform(leaf.shape, dim) for leaf in leaves])
