"""Transformers, shared by vision and language models: linear maps, attention, and blocks of both.

Attention stores the four matrices of each head separately, so that their products can be measured.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Compute = Literal["float32", "bfloat16"]
Init = Literal["framework", "normal", "ntk"]
Scale = float | Float[Array, ""]

STANDARD = 0.02
"""Standard deviation of "normal" weights, GPT-2's."""


def check_init(init: str, scale: Scale) -> None:
    """Refuse an unknown initialization, and a scale from which training cannot start."""
    checks.one_of("init", init, get_args(Init))
    checks.real("scale", scale, above=0)


def draw_weights(init: Init, key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, scale: Scale) -> Array:
    """Initial weights times `scale`: uniform in ±1/sqrt(fan-in), the usual framework default ("framework"); normal with
    standard deviation 0.02 ("normal"); or standard normal, with `factor` in the forward pass ("ntk")."""
    if init == "framework":
        bound = 1 / math.sqrt(fan_in)
        return scale * jax.random.uniform(key, shape, minval=-bound, maxval=bound)
    return scale * (STANDARD if init == "normal" else 1.0) * jax.random.normal(key, shape)


def factor(init: Init, fan_in: int) -> float:
    """The factor of a linear map in the forward pass: 1/sqrt(fan-in) in the tangent-kernel scaling, else 1."""
    return 1 / math.sqrt(fan_in) if init == "ntk" else 1.0


class Linear(eqx.Module):
    """x ↦ x W + b, for rows x. Biases are drawn like the weights if init is "framework", and zero otherwise."""

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"] | None
    factor: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        out: int,
        *,
        key: PRNGKeyArray,
        init: Init = "framework",
        scale: Scale = 1.0,
        bias: bool = True,
    ) -> None:
        checks.sizes(dim=dim, out=out)
        check_init(init, scale)
        for_weight, for_bias = jax.random.split(checks.key("key", key))
        self.weight = draw_weights(init, for_weight, (dim, out), dim, scale)
        self.bias = None
        if bias:
            self.bias = draw_weights(init, for_bias, (out,), dim, scale) if init == "framework" else jnp.zeros(out)
        self.factor = factor(init, dim)

    def __call__(self, x: Float[Array, "*rows in"]) -> Float[Array, "*rows out"]:
        y = x @ self.weight.astype(x.dtype)
        if self.factor != 1.0:
            y = y * self.factor
        return y if self.bias is None else y + self.bias.astype(x.dtype)


class Attention(eqx.Module):
    """Σ over heads of softmax(X W_Q W_Kᵀ Xᵀ / √head_dim) X W_V W_Oᵀ, each W of shape (dim, head_dim).

    The only bias is after W_O. The softmax runs in float32 for any input type.

    Args:
        dim: Width of a token.
        heads: Number of heads.
        head_dim: Width of a head. Default: dim / heads.
        key: Key of the weights.
        causal: Whether positions see only those before them.
        init: "framework", "normal" or "ntk"; see `Transformer`.
        scale: Factor of the initial weights.
        residual_scale: Factor of the initial W_O.
        bias: Whether there is a bias after W_O.
    """

    key: Float[Array, "heads dim head_dim"]
    query: Float[Array, "heads dim head_dim"]
    value: Float[Array, "heads dim head_dim"]
    output: Float[Array, "heads dim head_dim"]
    bias: Float[Array, " dim"] | None
    causal: bool = eqx.field(static=True)
    factors: tuple[float, float] = eqx.field(static=True)
    """Factors of the maps into the heads and of the map out of them (see `factor`)."""

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int | None = None,
        *,
        key: PRNGKeyArray,
        causal: bool = False,
        init: Init = "framework",
        scale: Scale = 1.0,
        residual_scale: float = 1.0,
        bias: bool = True,
    ) -> None:
        check_init(init, scale)
        checks.flags(causal=causal, bias=bias)
        checks.real("residual_scale", residual_scale, at_least=0)
        head_dim = head_size(dim, heads, head_dim)
        keys = jax.random.split(checks.key("key", key), 5)
        into, inner = (heads, dim, head_dim), heads * head_dim
        self.key, self.query, self.value = (draw_weights(init, k, into, dim, scale) for k in keys[:3])
        self.output = residual_scale * draw_weights(init, keys[3], into, inner, scale)
        self.bias = None
        if bias:
            self.bias = draw_weights(init, keys[4], (dim,), inner, scale) if init == "framework" else jnp.zeros(dim)
        self.causal, self.factors = causal, (factor(init, dim), factor(init, inner))

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        tokens, fused = len(x), fusible(x, self.key.shape[-1])
        if fused:  # the kernel needs an even number of tokens; the token added is not attended to
            x = jnp.pad(x, ((0, tokens % 2), (0, 0)))
        maps = (matrix.astype(x.dtype) for matrix in (self.query, self.key, self.value))
        q, k, v = (self.factors[0] * jnp.einsum("td,hde->the", x, matrix) for matrix in maps)
        mixed = fused_mix(q, k, v, self.causal, tokens) if fused else mix(q, k, v, self.causal)
        out = self.factors[1] * jnp.einsum("the,hde->td", mixed, self.output.astype(x.dtype))[:tokens]
        return out if self.bias is None else out + self.bias.astype(x.dtype)


Heads = Float[Array, "tokens heads head_dim"]


def mix(query: Heads, key: Heads, value: Heads, causal: bool) -> Heads:
    """Each head's average of the values, weighted by the softmax of its logits."""
    tokens, _, head_dim = query.shape
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    logits = jnp.einsum("qhe,khe->hqk", query, key, preferred_element_type=wide) / math.sqrt(head_dim)
    if causal:
        logits = jnp.where(jnp.tri(tokens, dtype=bool), logits, -jnp.inf)
    return jnp.einsum("hqk,khe->qhe", jax.nn.softmax(logits).astype(value.dtype), value)


def fusible(x: Float[Array, "tokens dim"], head_dim: int) -> bool:
    """Whether cuDNN has one fused kernel for `mix`: in bfloat16, on a GPU, for heads of at most 128 numbers, and of 256
    from the Hopper generation on."""
    if x.dtype != jnp.bfloat16 or jax.default_backend() != "gpu" or head_dim % 8:
        return False
    capability = getattr(jax.devices()[0], "compute_capability", "0.0")
    return head_dim <= (256 if float(capability) >= 9 else 128)


def fused_mix(
    query: Heads, key: Heads, value: Heads, causal: bool, tokens: int, *, scale: float | None = None
) -> Heads:
    """`mix` by that kernel, for the first `tokens` tokens; logits are divided by √head_dim unless `scale` is given."""
    lengths = jnp.full((1,), tokens, jnp.int32)
    return jax.nn.dot_product_attention(
        query[None],
        key[None],
        value[None],
        scale=scale,
        is_causal=causal,
        query_seq_lengths=lengths,
        key_value_seq_lengths=lengths,
        implementation="cudnn",
    )[0]


def head_size(dim: int, heads: int, head_dim: int | None) -> int:
    """`head_dim`, or dim / heads if it is not given."""
    checks.sizes(dim=dim, heads=heads)
    if head_dim is None and dim % heads:
        raise ValueError(f"dim must be a multiple of heads unless head_dim is given; got dim={dim}, heads={heads}")
    head_dim = dim // heads if head_dim is None else head_dim
    checks.sizes(head_dim=head_dim)
    return head_dim


class Products(NamedTuple):
    """The factors A and B of the products A Bᵀ of each head: W_K and W_Q first, then W_V and W_O."""

    left: Float[Array, "product layer head dim head_dim"]
    """W_K, then W_V."""
    right: Float[Array, "product layer head dim head_dim"]
    """W_Q, then W_O."""


class LayerNorm(eqx.Module):
    """Normalize rows to mean 0 and variance 1 (in float32), then apply a gain and an offset to each coordinate."""

    gain: Float[Array, " dim"]
    offset: Float[Array, " dim"]

    def __init__(self, dim: int) -> None:
        self.gain, self.offset = jnp.ones(dim), jnp.zeros(dim)

    def __call__(self, x: Float[Array, "*rows dim"]) -> Float[Array, "*rows dim"]:
        wide = x.astype(self.gain.dtype)
        # Both moments in one pass, which a GPU fuses. One coordinate is subtracted first, so that no digits are lost if
        # the mean is large; neither the result nor its derivatives depend on it.
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
    """Blocks of attention and networks on an array of tokens (tokens, dim), and with `pre_norm` a last layer norm.

    Args:
        dim: Width of a token.
        depth: Number of blocks.
        heads: Number of attention heads.
        hidden: Number of hidden neurons of a block.
        head_dim: Width of a head. Default: dim / heads.
        key: Key of the weights.
        causal: Whether positions see only those before them.
        pre_norm: Layer norm at the input of each part of a block; otherwise after each sum.
        init: "framework" for weights uniform in ±1/sqrt(fan-in), "normal" for standard deviation 0.02, "ntk" for
            standard normal ones with 1/sqrt(fan-in) in the forward pass.
        scale: Factor of all initial weights and biases of attention and networks, not of the layer norms.
        residual_scale: Factor of the initial weights of the two maps of a block that write to the residual stream.
        bias: Whether the networks and the attention's output have biases.
        compute: "bfloat16" for matrix products of float32 weights in that precision, not norms and softmax.
    """

    blocks: list[Block]
    norm: LayerNorm | None
    compute: Compute = eqx.field(static=True)

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
        init: Init = "framework",
        scale: Scale = 1.0,
        residual_scale: float = 1.0,
        bias: bool = True,
        compute: Compute = "float32",
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
