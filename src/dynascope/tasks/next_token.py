"""Next-token prediction on a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope.checks import shown, sizes
from dynascope.tasks.task import SampledTask


class NextToken(SampledTask):
    """The mean cross-entropy of the next token, over all positions of windows that begin anywhere in the text.

    The text stays on the device, and batches are drawn inside the compiled step.
    """

    tokens: Int[Array, " n"]
    """The text."""
    context: int = eqx.field(static=True)
    """Number of tokens that the model sees; a window has one more."""

    def __check_init__(self) -> None:
        sizes(context=self.context)
        if np.ndim(self.tokens) != 1 or getattr(self.tokens, "dtype", np.dtype(float)).kind not in "iu":
            raise ValueError(f"tokens must be an array of integers with one axis; got {shown(self.tokens)}")
        if len(self.tokens) <= self.context:
            raise ValueError(f"context must be below the number of tokens, {len(self.tokens)}; got {self.context}")

    def sample(self, key: PRNGKeyArray, count: int) -> Int[Array, "count window"]:
        """`count` windows of context + 1 tokens."""
        sizes(count=count)
        starts = jax.random.randint(key, (count, 1), 0, len(self.tokens) - self.context)
        return self.tokens[starts + jnp.arange(self.context + 1, dtype=starts.dtype)]

    def loss(self, model: Callable[[Any], Any], windows: Int[Array, "count window"]) -> Float[Array, ""]:
        """The mean cross-entropy of a batch of windows."""
        scores = jax.nn.log_softmax(jax.vmap(model)(windows[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(scores, windows[:, 1:, None], axis=2))
