"""Language models: which token comes next."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope.models.linear import STANDARD, Init, Linear, Scale
from dynascope.models.transformer import Compute, Products, Transformer, residual_scale


class GPT(eqx.Module):
    """A causal transformer on one row of tokens, giving logits of the next token at every place; `jax.vmap` it.

    As in GPT-2: layer norm at the input of each block, weights normal with standard deviation 0.02, and maps that
    write to the sum smaller by 1/sqrt(2 depth); with `tied` the embedding also reads out. No biases in keys, queries
    and values. `scale` multiplies the initial attention, networks and read-out; embedding and places are left alone.
    A token outside the vocabulary makes the logits NaN.
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
        init: Init | str = "normal",
        scale: Scale = 1.0,
        bias: bool = True,
        compute: Compute | str = "float32",
    ) -> None:
        if vocabulary < 1 or context < 1:
            raise ValueError(f"a GPT needs vocabulary and context >= 1; got {vocabulary} and {context}")
        keys = jax.random.split(key, 4)
        self.embedding = STANDARD * jax.random.normal(keys[0], (vocabulary, dim))
        self.places = STANDARD * jax.random.normal(keys[1], (context, dim))
        self.trunk = Transformer(
            dim, depth, heads, hidden or 4 * dim, head_dim, key=keys[2], causal=causal, pre_norm=pre_norm, init=init,
            scale=scale, residual_scale=residual_scale(depth) if init == "normal" else 1.0, bias=bias, compute=compute,
        )  # fmt: skip
        self.readout = None if tied else Linear(dim, vocabulary, key=keys[3], init=init, scale=scale, bias=False)

    def __call__(self, tokens: Int[Array, " tokens"]) -> Float[Array, "tokens vocabulary"]:
        if tokens.ndim != 1 or tokens.shape[0] > self.places.shape[0]:
            allowed = f"one row of {self.places.shape[0]} tokens at most (jax.vmap it over rows)"
            raise ValueError(f"this GPT takes {allowed}; got shape {tokens.shape}")
        embedded = self.embedding.at[tokens].get(mode="fill", fill_value=jnp.nan)  # a token not in the vocabulary shows
        out = self.trunk(embedded + self.places[: tokens.shape[0]])
        logits = out @ self.embedding.T.astype(out.dtype) if self.readout is None else self.readout(out)
        return logits.astype(self.places.dtype)

    def products(self) -> Products:
        """Of every layer and head: (W_K, W_Q) and (W_V, W_O)."""
        return self.trunk.products()
