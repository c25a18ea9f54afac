"""Which token comes next?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray


class NextToken(eqx.Module):
    """Mean cross-entropy of the next token, at every place of windows that begin anywhere in the text.

    The text stays on the device; a batch is drawn from a key, inside the compiled step.
    """

    tokens: Int[Array, " n"]
    context: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.context < 1 or not jnp.issubdtype(self.tokens.dtype, jnp.integer):
            given = f"{self.tokens.dtype} and context={self.context}"
            raise ValueError(f"next tokens need whole numbers and a context of 1 or more; got {given}")
        if len(self.tokens) <= self.context:
            raise ValueError(f"the text has {len(self.tokens)} tokens; windows of {self.context} + 1 do not fit")

    def sample(self, key: PRNGKeyArray, count: int) -> Int[Array, "count window"]:
        """Windows of context + 1 tokens."""
        starts = jax.random.randint(key, (count, 1), 0, len(self.tokens) - self.context)
        return self.tokens[starts + jnp.arange(self.context + 1, dtype=starts.dtype)]

    def loss(self, model: Callable[[Any], Any], windows: Int[Array, "count window"]) -> Float[Array, ""]:
        scores = jax.nn.log_softmax(jax.vmap(model)(windows[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(scores, windows[:, 1:, None], axis=2))
