"""The one-layer model of the theory of noisy recall: attention and a linear feed-forward map, in one-hot coordinates.

"Simple structures in neural networks", Eq. 4.2: with x_t = (z_t, z_{t-1}) as unit vectors (nothing before the first
token), the logits after the last position T are

    V sum_t softmax(x_T^T K x_{1:T})_t x_t + F x_T.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from dynascope import checks


class OneLayerRecall(eqx.Module):
    """The model on one sequence of tokens (length,), with logits (vocabulary,) of the token after the last one.

    All weights start at zero. The coordinates of an input are the current token's, then the previous one's.

    Args:
        vocabulary: Number of tokens.
        previous: Whether inputs have the previous token's coordinates.
    """

    score: Float[Array, "d d"]
    """K = W_QK, (query, key)."""
    value: Float[Array, "vocabulary d"]
    """V = W_U W_V."""
    feed: Float[Array, "vocabulary d"]
    """F = W_U W_F."""

    def __init__(self, vocabulary: int, *, previous: bool = True) -> None:
        checks.sizes(vocabulary=vocabulary)
        checks.flags(previous=previous)
        dim = (2 if previous else 1) * vocabulary
        self.score = jnp.zeros((dim, dim))
        self.value = self.feed = jnp.zeros((vocabulary, dim))

    def inputs(self, tokens: Int[Array, " length"]) -> Float[Array, "length d"]:
        """x_1, ..., x_T.

        Args:
            tokens: The sequence, (length,).
        """
        size = len(self.value)
        now = jax.nn.one_hot(tokens, size, dtype=self.value.dtype)
        if self.value.shape[1] == size:
            return now
        return jnp.concatenate([now, jnp.pad(now[:-1], ((1, 0), (0, 0)))], axis=1)

    def attention(self, tokens: Int[Array, " length"]) -> Float[Array, " length"]:
        """The attention of the last position to each position.

        Args:
            tokens: The sequence, (length,).
        """
        x = self.inputs(tokens)
        return jax.nn.softmax(x @ (x[-1] @ self.score))

    def parts(self, tokens: Int[Array, " length"]) -> tuple[Float[Array, " vocabulary"], Float[Array, " vocabulary"]]:
        """The logits of attention and of the feed-forward map, whose sum the model returns.

        Args:
            tokens: The sequence, (length,).
        """
        x = self.inputs(tokens)
        return self.value @ (self.attention(tokens) @ x), self.feed @ x[-1]

    def __call__(self, tokens: Int[Array, " length"]) -> Float[Array, " vocabulary"]:
        if tokens.ndim != 1:
            raise ValueError(f"OneLayerRecall takes one sequence (use jax.vmap for a batch); got shape {tokens.shape}")
        attended, fed = self.parts(tokens)
        return attended + fed
