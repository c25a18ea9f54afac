"""Language models that predict the next token."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.models.transformer import (
    STANDARD,
    Compute,
    Init,
    Linear,
    Products,
    Scale,
    Transformer,
    check_init,
    residual_scale,
)


class GPT(eqx.Module):
    """A causal transformer on one sequence of tokens, with logits of the next token at every position.

    As in GPT-2: layer norm at the input of each block, weights normal with standard deviation 0.02, and maps that write
    to the residual stream smaller by 1/sqrt(2 depth). Keys, queries and values have no biases. A token outside the
    vocabulary makes the logits NaN.

    Args:
        vocabulary: Number of tokens.
        context: The longest sequence.
        key: Key of the weights.
        dim: Width of the residual stream.
        depth: Number of blocks.
        heads: Number of attention heads.
        head_dim: Width of a head. Default: dim / heads.
        hidden: Number of hidden neurons of a block. Default: 4 dim.
        tied: Whether the embedding is also the readout.
        causal: Whether positions see only those before them.
        pre_norm: Layer norm at the input of each part of a block; otherwise after each sum.
        init: "framework", "normal" or "ntk"; see `Transformer`.
        scale: Factor of the initial attention, networks and readout, but neither the embedding nor the positions.
        bias: Whether the networks and the attention's output have biases.
        compute: "bfloat16" for matrix products in that precision; see `Transformer`.
    """

    embedding: Float[Array, "vocabulary dim"]
    places: Float[Array, "context dim"]
    trunk: Transformer
    readout: Linear | None

    def __init__(
        self,
        vocabulary: int,
        context: int,
        *,
        key: PRNGKeyArray,
        dim: int = 768,
        depth: int = 12,
        heads: int = 12,
        head_dim: int | None = None,
        hidden: int | None = None,
        tied: bool = True,
        causal: bool = True,
        pre_norm: bool = True,
        init: Init = "normal",
        scale: Scale = 1.0,
        bias: bool = True,
        compute: Compute = "float32",
    ) -> None:
        hidden = 4 * dim if hidden is None else hidden
        checks.sizes(vocabulary=vocabulary, context=context, dim=dim, depth=depth)
        checks.flags(tied=tied, causal=causal, pre_norm=pre_norm, bias=bias)
        check_init(init, scale)
        keys = jax.random.split(checks.key("key", key), 4)
        self.embedding = STANDARD * jax.random.normal(keys[0], (vocabulary, dim))
        self.places = STANDARD * jax.random.normal(keys[1], (context, dim))
        self.trunk = Transformer(
            dim,
            depth,
            heads,
            hidden,
            head_dim,
            key=keys[2],
            causal=causal,
            pre_norm=pre_norm,
            init=init,
            scale=scale,
            residual_scale=residual_scale(depth) if init == "normal" else 1.0,
            bias=bias,
            compute=compute,
        )
        self.readout = None if tied else Linear(dim, vocabulary, key=keys[3], init=init, scale=scale, bias=False)

    def __call__(self, tokens: Int[Array, " tokens"]) -> Float[Array, "tokens vocabulary"]:
        if tokens.ndim != 1 or tokens.shape[0] > self.places.shape[0]:
            allowed = f"one sequence of at most {self.places.shape[0]} tokens (use jax.vmap for a batch)"
            raise ValueError(f"GPT takes {allowed}; got shape {tokens.shape}")
        embedded = self.embedding.at[tokens].get(mode="fill", fill_value=jnp.nan)  # an unknown token shows
        out = self.trunk(embedded + self.places[: tokens.shape[0]])
        logits = out @ self.embedding.T.astype(out.dtype) if self.readout is None else self.readout(out)
        return logits.astype(self.places.dtype)

    def products(self) -> Products:
        """(W_K, W_Q) and (W_V, W_O) of every layer and head."""
        return self.trunk.products()
