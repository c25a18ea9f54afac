"""A synthetic indirect-object task: to recall the one of two tokens that followed the trigger once.

"Simple structures in neural networks", Appendix C.8. The trigger occurs at three places, two of them followed by a
distractor and one by the target, and again at the end; the next token is the target with probability 1 - alpha and the
noise token with probability alpha. All other tokens are uniform among those that are not the trigger, noise included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import SampledTask


class IndirectObjectBatch(NamedTuple):
    """Sequences, the tokens that come next, and the two candidates."""

    tokens: Int[Array, "count length"]
    """The sequences."""
    label: Int[Array, " count"]
    """The next token: the target or the noise."""
    target: Int[Array, " count"]
    """The token that followed the trigger once."""
    distractor: Int[Array, " count"]
    """The token that followed it twice."""


class IndirectObject(SampledTask):
    """Recall of the token that followed the trigger once, with tokens 0, ..., N - 1 and the noise token N; token 0 is
    the trigger.

    The loss is the cross-entropy at the last position. Targets and distractors are not the trigger.
    """

    size: int = eqx.field(static=True, default=65)
    """N."""
    length: int = eqx.field(static=True, default=256)
    """Number of tokens of a sequence."""
    alpha: float | Float[Array, ""] = 0.5
    """The probability of the noise token."""

    def __check_init__(self) -> None:
        checks.whole("size", self.size, at_least=3, at_most=2**31 - 2)
        checks.whole("length", self.length, at_least=7, at_most=2**31 - 1)
        checks.real("alpha", self.alpha, at_least=0, at_most=1)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, the noise token included."""
        return self.size + 1

    def sample(self, key: PRNGKeyArray, count: int) -> IndirectObjectBatch:
        """`count` sequences."""
        checks.sizes(count=count)
        keys = jax.random.split(checks.key("key", key), 6)
        target = jax.random.randint(keys[0], (count,), 1, self.size, jnp.int32)
        shift = jax.random.randint(keys[1], (count,), 1, self.size - 1, jnp.int32)
        distractor = 1 + (target - 1 + shift) % (self.size - 1)
        # Three of the length - 4 first slots, spread by 0, 1, 2: at least two positions apart, the last before the end.
        slots = jax.random.uniform(keys[2], (count, self.length - 4))
        places = jnp.sort(jax.lax.top_k(slots, 3)[1], axis=1) + jnp.arange(3, dtype=jnp.int32)
        once = jax.random.randint(keys[3], (count, 1), 0, 3, jnp.int32)
        after = jnp.where(jnp.arange(3, dtype=jnp.int32) == once, target[:, None], distractor[:, None])
        tokens = jax.random.randint(keys[4], (count, self.length), 1, self.size + 1, jnp.int32)
        row = jnp.arange(count)[:, None]
        tokens = tokens.at[row, places].set(0).at[row, places + 1].set(after).at[:, -1].set(0)
        noisy = jax.random.uniform(keys[5], (count,)) < self.alpha
        return IndirectObjectBatch(tokens, jnp.where(noisy, self.size, target), target, distractor)

    def loss(self, model: Any, batch: IndirectObjectBatch) -> Float[Array, ""]:
        """The mean cross-entropy of the next token after the last position."""
        log = jax.nn.log_softmax(_last(model, batch.tokens))
        return -jnp.mean(jnp.take_along_axis(log, batch.label[:, None], axis=1))

    def scores(self, model: Any, batch: IndirectObjectBatch) -> dict[str, Float[Array, ""]]:
        """Means over a batch of the probabilities at the last position.

        Args:
            model: From a sequence (length,) to logits (length, vocabulary).
            batch: The sequences.

        Returns:
            The probabilities of the target (`correct`), of the distractor (`distracted`) and of the noise token
            (`noise`), the `accuracy`, and `choice`, how often the target is ahead of the distractor.
        """
        log = jax.nn.log_softmax(_last(model, batch.tokens))
        own, other = (
            jnp.take_along_axis(log, each[:, None], axis=1)[:, 0] for each in (batch.target, batch.distractor)
        )
        return {
            "correct": jnp.mean(jnp.exp(own)),
            "distracted": jnp.mean(jnp.exp(other)),
            "noise": jnp.mean(jnp.exp(log[:, self.size])),
            "accuracy": jnp.mean(jnp.argmax(log, axis=1) == batch.target),
            "choice": jnp.mean(own > other),
        }


def _last(model: Any, tokens: Int[Array, "count length"]) -> Float[Array, "count vocabulary"]:
    logits = jax.vmap(model)(tokens)
    return logits if logits.ndim == 2 else logits[:, -1]
