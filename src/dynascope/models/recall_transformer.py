"""Small transformers whose parts can be read and removed: one head, no norms, no biases, frozen embeddings.

"Simple structures in neural networks", Eq. 4.1 with Sections 4.4.5.1 and C.8: with scores x_query^T K x_key,

    h = sum_{s <= t} softmax(x_t^T K x_{1:t})_s W_O W_V x_s,    x <- x + h + F(x + h),

and logits W_U x after the last layer. Token embeddings, positions and W_U stay at their random initial values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.models.frozen import Frozen
from dynascope.models.transformer import fused_mix, fusible

Feed = Literal["mlp", "linear", "none"]
Compute = Literal["float32", "bfloat16"]
Square = Float[Array, "dim dim"]
Rows = Float[Array, "tokens dim"]


class FeedForward(eqx.Module):
    """x -> W_out relu(W_in x) ("mlp"), W x ("linear") or 0 ("none"), without biases."""

    into: Float[Array, "hidden dim"] | None
    """W_in; of the other kinds None."""
    out: Float[Array, "dim hidden"] | None
    """W_out, or W of a linear map."""

    def __call__(self, x: Float[Array, "*tokens dim"]) -> Float[Array, "*tokens dim"]:
        if self.out is None:
            return jnp.zeros_like(x)
        if self.into is not None:
            x = jax.nn.relu(x @ self.into.T.astype(x.dtype))
        return x @ self.out.T.astype(x.dtype)


class RecallBlock(eqx.Module):
    """One layer: attention with one head and factored values, then a feed-forward map."""

    score: Square
    """K, of x_query^T K x_key."""
    value: Square
    """W_V."""
    output: Square
    """W_O."""
    feed: FeedForward
    scale: float = eqx.field(static=True)
    """The factor of the scores."""

    def attention(self, x: Rows) -> Float[Array, "tokens tokens"]:
        """The attention of each position (first axis) to those up to it."""
        wide = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
        keys = x @ self.score.T.astype(x.dtype)
        logits = self.scale * jnp.einsum("td,sd->ts", x, keys, preferred_element_type=wide)
        return jax.nn.softmax(jnp.where(jnp.tri(len(x), dtype=bool), logits, -jnp.inf))

    def mix(self, x: Rows) -> Rows:
        """The average of the rows that each position attends to."""
        if not fusible(x, x.shape[-1]):
            return self.attention(x).astype(x.dtype) @ x
        keys = x @ self.score.T.astype(x.dtype)
        tokens = len(x)
        query, key, value = (jnp.pad(each, ((0, tokens % 2), (0, 0)))[:, None] for each in (x, keys, x))
        return fused_mix(query, key, value, True, tokens, scale=self.scale)[:tokens, 0]

    def __call__(self, x: Rows) -> Rows:
        mixed = self.mix(x)
        x = x + mixed @ (self.output @ self.value).T.astype(x.dtype)  # one product of all tokens instead of two
        return x + self.feed(x)


class RecallTransformer(eqx.Module):
    """The stack on one sequence of tokens (tokens,), with logits (tokens, vocabulary).

    Embeddings and positions are N(0, 1), W_U uniform in ±1/sqrt(dim); they are frozen. The trained matrices are uniform
    in ±1/sqrt(fan-in).

    Args:
        vocabulary: Number of tokens.
        context: The longest sequence.
        key: Key of the weights.
        dim: Width of the residual stream.
        feeds: The feed-forward map of each layer: "mlp", "linear" or "none".
        hidden: Number of hidden neurons of an "mlp". Default: 4 dim.
        score_scale: Factor of the scores. Default: 1/sqrt(dim).
        compute: "bfloat16" for matrix products in that precision.
    """

    frozen: Frozen
    blocks: list[RecallBlock]
    compute: Compute = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: int,
        context: int,
        *,
        key: PRNGKeyArray,
        dim: int = 256,
        feeds: Sequence[Feed] = ("mlp", "mlp"),
        hidden: int | None = None,
        score_scale: float | None = None,
        compute: Compute = "float32",
    ) -> None:
        checks.sizes(vocabulary=vocabulary, context=context, dim=dim)
        hidden = 4 * dim if hidden is None else hidden
        checks.sizes(hidden=hidden)
        scale = 1 / math.sqrt(dim) if score_scale is None else checks.real("score_scale", score_scale, above=0)
        self.compute = checks.one_of("compute", compute, get_args(Compute))
        if isinstance(feeds, str) or not isinstance(feeds, Sequence) or not feeds:
            kinds = ", ".join(get_args(Feed))
            raise TypeError(f"feeds must be a list, for each layer one of {kinds}; got {checks.shown(feeds)}")
        keys = jax.random.split(checks.key("key", key), 3 + len(feeds))
        embedding = jax.random.normal(keys[0], (vocabulary, dim))
        places = jax.random.normal(keys[1], (context, dim))
        readout = draw_matrix(keys[2], (vocabulary, dim))
        self.frozen = Frozen({"embedding": embedding, "places": places, "readout": readout})
        self.blocks = []
        for kind, block_key in zip(feeds, keys[3:], strict=True):
            each = jax.random.split(block_key, 5)
            square = (dim, dim)
            feed = feed_forward(kind, dim, hidden, each[3], each[4])
            score, value, output = (draw_matrix(k, square) for k in each[:3])
            self.blocks.append(RecallBlock(score, value, output, feed, float(scale)))

    @property
    def embedding(self) -> Float[Array, "vocabulary dim"]:
        """W_E."""
        return self.frozen.value()["embedding"]

    @property
    def readout(self) -> Float[Array, "vocabulary dim"]:
        """W_U."""
        return self.frozen.value()["readout"]

    def streams(self, tokens: Int[Array, " tokens"]) -> list[Rows]:
        """The residual stream at the input of every layer, and at the end.

        Args:
            tokens: The sequence, (tokens,).
        """
        fixed = self.frozen.value()
        embedding, places = fixed["embedding"], fixed["places"]
        if tokens.ndim != 1 or tokens.shape[0] > places.shape[0]:
            allowed = f"one sequence of at most {places.shape[0]} tokens (use jax.vmap for a batch)"
            raise ValueError(f"RecallTransformer takes {allowed}; got shape {tokens.shape}")
        x = embedding.at[tokens].get(mode="fill", fill_value=jnp.nan) + places[: tokens.shape[0]]
        found = [x.astype(jnp.bfloat16) if self.compute == "bfloat16" else x]
        for block in self.blocks:
            found.append(block(found[-1]))
        return found

    def __call__(self, tokens: Int[Array, " tokens"]) -> Float[Array, "tokens vocabulary"]:
        last = self.streams(tokens)[-1]
        wide = jnp.float32 if last.dtype == jnp.bfloat16 else last.dtype
        return jnp.einsum("td,vd->tv", last, self.readout.astype(last.dtype), preferred_element_type=wide)

    def attention(self, tokens: Int[Array, " tokens"]) -> Float[Array, "layer tokens tokens"]:
        """The attention of each position to each, in every layer.

        Args:
            tokens: The sequence, (tokens,).
        """
        streams = self.streams(tokens)
        return jnp.stack([block.attention(x) for block, x in zip(self.blocks, streams[:-1], strict=True)])

    def feed_margin(self, layer: int, token: int, noise: int) -> Float[Array, ""]:
        """The margin of the noise token in W_U F(W_E(token)), over the best other one.

        Args:
            layer: The layer of F, from 0.
            token: The token that F reads.
            noise: The noise token.
        """
        checks.whole("layer", layer, at_least=0, at_most=len(self.blocks) - 1)
        logits = self.readout @ self.blocks[layer].feed(self.embedding[token])
        return logits[noise] - jnp.max(jnp.where(jnp.arange(len(logits)) == noise, -jnp.inf, logits))


def draw_matrix(key: PRNGKeyArray, shape: tuple[int, int]) -> Float[Array, "out in"]:
    """Uniform in ±1/sqrt(fan-in), for a matrix (out, in)."""
    bound = 1 / math.sqrt(shape[1])
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def feed_forward(kind: Feed, dim: int, hidden: int, into: PRNGKeyArray, out: PRNGKeyArray) -> FeedForward:
    """A feed-forward map of this kind, from two keys."""
    checks.one_of("each of feeds", kind, get_args(Feed))
    if kind == "none":
        return FeedForward(None, None)
    if kind == "linear":
        return FeedForward(None, draw_matrix(out, (dim, dim)))
    return FeedForward(draw_matrix(into, (hidden, dim)), draw_matrix(out, (dim, hidden)))


def without_feed(model: RecallTransformer, layer: int) -> RecallTransformer:
    """A copy of a model without the feed-forward map of one layer.

    Args:
        model: The model.
        layer: The layer, from 0.
    """
    if not isinstance(model, RecallTransformer):
        raise TypeError(f"model must be a RecallTransformer; got {checks.shown(model)}")
    checks.whole("layer", layer, at_least=0, at_most=len(model.blocks) - 1)
    kept = FeedForward(None, None)
    return eqx.tree_at(lambda m: m.blocks[layer].feed, model, kept)
