"""Attention that stores the four matrices of each head separately, so that their products can be measured."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.linear import Init, Scale, check_init, drawn, factor


class Attention(eqx.Module):
    """Σ over heads of softmax(X W_Q W_Kᵀ Xᵀ / √head_dim) X W_V W_Oᵀ, each W of shape (dim, head_dim).

    The only bias is after W_O. The softmax runs in float32 for any input type.
    """

    key: Float[Array, "heads dim head_dim"]
    query: Float[Array, "heads dim head_dim"]
    value: Float[Array, "heads dim head_dim"]
    output: Float[Array, "heads dim head_dim"]
    bias: Float[Array, " dim"] | None
    causal: bool = eqx.field(static=True)
    factors: tuple[float, float] = eqx.field(static=True)
    """Factors of the maps into the heads and of the map out of them (see `linear.factor`)."""

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int | None = None,
        *,
        key: PRNGKeyArray,
        causal: bool = False,
        init: Init | str = "framework",
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
        self.key, self.query, self.value = (drawn(init, k, into, dim, scale) for k in keys[:3])
        self.output = residual_scale * drawn(init, keys[3], into, inner, scale)
        self.bias = None
        if bias:
            self.bias = drawn(init, keys[4], (dim,), inner, scale) if init == "framework" else jnp.zeros(dim)
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
    """Whether cuDNN has one fused kernel for `mix`: in bfloat16, on a GPU, for heads of at most 128 numbers."""
    return x.dtype == jnp.bfloat16 and jax.default_backend() == "gpu" and head_dim <= 128 and head_dim % 8 == 0


def fused_mix(query: Heads, key: Heads, value: Heads, causal: bool, tokens: int) -> Heads:
    """`mix` by that kernel, for the first `tokens` tokens."""
    lengths = jnp.full((1,), tokens, jnp.int32)
    return jax.nn.dot_product_attention(
        query[None], key[None], value[None], is_causal=causal,
        query_seq_lengths=lengths, key_value_seq_lengths=lengths, implementation="cudnn",
    )[0]  # fmt: skip


def head_size(dim: int, heads: int, head_dim: int | None) -> int:
    """`head_dim`, or dim / heads where it is not given."""
    checks.sizes(dim=dim, heads=heads)
    if head_dim is None and dim % heads:
        raise ValueError(f"dim must be a multiple of heads unless head_dim is given; got dim={dim}, heads={heads}")
    head_dim = dim // heads if head_dim is None else head_dim
    checks.sizes(head_dim=head_dim)
    return head_dim
