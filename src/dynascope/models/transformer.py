"""Transformer blocks, shared by vision transformers and language models: attention and a two-layer network."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.attention import Attention
from dynascope.models.linear import Init, Linear, Scale

Compute = Literal["float32", "bfloat16"]


class Products(NamedTuple):
    """The factors A and B of the products A Bᵀ of each head: W_K and W_Q first, then W_V and W_O."""

    left: Float[Array, "product layer head dim head_dim"]
    right: Float[Array, "product layer head dim head_dim"]


class LayerNorm(eqx.Module):
    """Normalize rows to mean 0 and variance 1 (in float32), then apply a gain and an offset to each coordinate."""

    gain: Float[Array, " dim"]
    offset: Float[Array, " dim"]

    def __init__(self, dim: int) -> None:
        self.gain, self.offset = jnp.ones(dim), jnp.zeros(dim)

    def __call__(self, x: Float[Array, "*rows dim"]) -> Float[Array, "*rows dim"]:
        wide = x.astype(self.gain.dtype)
        # Both moments in one pass, which a GPU fuses. One coordinate is subtracted first, so that no digits are lost
        # where the mean is large; neither the result nor its derivatives depend on it.
        near = wide - lax.stop_gradient(wide[..., :1])
        mean = near.mean(axis=-1, keepdims=True)
        variance = jnp.mean(near**2, axis=-1, keepdims=True) - mean**2
        return ((near - mean) * lax.rsqrt(variance + 1e-5) * self.gain + self.offset).astype(x.dtype)


class Block(eqx.Module):
    """Attention, then a network with one hidden layer of GELUs, each with a residual connection. The layer norm acts on
    the input of each part (`pre_norm`), or after each sum."""

    attention: Attention
    up: Linear
    down: Linear
    norms: tuple[LayerNorm, LayerNorm]
    pre_norm: bool = eqx.field(static=True)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        first, second = self.norms
        if self.pre_norm:
            x = x + self.attention(first(x))
            return x + self.down(jax.nn.gelu(self.up(second(x)), approximate=False))
        x = first(x + self.attention(x))
        return second(x + self.down(jax.nn.gelu(self.up(x), approximate=False)))


class Transformer(eqx.Module):
    """`depth` blocks on an array of tokens (tokens, dim), and with `pre_norm` a last layer norm.

    `scale` multiplies all initial weights and biases of attention and networks, not the layer norms; `residual_scale`
    multiplies the initial weights of the two maps of a block that write to the residual stream. With
    `compute="bfloat16"` matrix products run in that precision, from float32 weights; norms and softmax stay in float32.
    """

    blocks: list[Block]
    norm: LayerNorm | None
    compute: Compute | str = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        depth: int,
        heads: int,
        hidden: int,
        head_dim: int | None = None,
        *,
        key: PRNGKeyArray,
        causal: bool = False,
        pre_norm: bool = True,
        init: Init | str = "framework",
        scale: Scale = 1.0,
        residual_scale: float = 1.0,
        bias: bool = True,
        compute: Compute | str = "float32",
    ) -> None:
        checks.sizes(dim=dim, depth=depth, hidden=hidden)
        checks.flags(causal=causal, pre_norm=pre_norm, bias=bias)
        self.compute = checks.one_of("compute", compute, get_args(Compute))
        self.blocks = []
        for block_key in jax.random.split(checks.key("key", key), depth):
            keys, same = jax.random.split(block_key, 3), {"init": init, "bias": bias}
            attention = Attention(
                dim, heads, head_dim, key=keys[0], causal=causal, scale=scale, residual_scale=residual_scale, **same
            )
            up = Linear(dim, hidden, key=keys[1], scale=scale, **same)
            down = Linear(hidden, dim, key=keys[2], scale=scale * residual_scale, **same)
            self.blocks.append(Block(attention, up, down, (LayerNorm(dim), LayerNorm(dim)), pre_norm))
        self.norm = LayerNorm(dim) if pre_norm else None

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        dim = len(self.blocks[0].norms[0].gain)
        if x.ndim != 2 or x.shape[1] != dim:
            raise ValueError(f"Transformer takes tokens of shape (tokens, {dim}); got shape {x.shape}")
        if self.compute == "bfloat16":
            x = x.astype(jnp.bfloat16)
        for block in self.blocks:
            x = block(x)
        return x if self.norm is None else self.norm(x)

    def products(self) -> Products:
        """(W_K, W_Q) and (W_V, W_O) of every layer and head."""
        heads = [block.attention for block in self.blocks]
        left = [[head.key for head in heads], [head.value for head in heads]]
        right = [[head.query for head in heads], [head.output for head in heads]]
        return Products(*(jnp.stack([jnp.stack(layers) for layers in side]) for side in (left, right)))


def residual_scale(depth: int) -> float:
    """GPT-2's factor: 1/sqrt(number of maps that write to the residual stream)."""
    return 1 / math.sqrt(2 * depth)
