"""Noisy in-context recall: after a trigger comes this sequence's target, or, with probability alpha, the noise token.

"Simple structures in neural networks", Section 4.4. Each sequence draws a target for every trigger, uniformly among the
tokens. It starts from a distribution `first`, continues from a token that is no trigger by `following`, and from a
trigger to its target or to the noise. The last token is a trigger, and the next token is to be predicted: by
association (trigger, then noise) or by recall (the token that followed this trigger before).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import SampledTask
from dynascope.tasks.token_chain import AliasTable, alias_table, chain, is_distribution, uniform_numbers

LossAt = Literal["triggers", "last"]


class RecallBatch(NamedTuple):
    """Sequences, and the token to be recalled."""

    tokens: Int[Array, "count length"]
    """The sequences."""
    labels: Int[Array, "count length"]
    """The token after each position; after the last one, the target or the noise."""
    target: Int[Array, " count"]
    """The target of the last token."""


class NoisyRecall(SampledTask):
    """Recall of the token that followed a trigger, with tokens 0, ..., N - 1 and the noise token.

    From the noise token, sequences continue by `first`. A model maps one sequence (length,) to logits (length,
    vocabulary), or to those of the last position (vocabulary,).

    Args:
        first: The distribution of the first token, (N,).
        following: The distribution of the token after each, (N, N). Default: tokens are independent.
        length: Number of tokens of a sequence.
        alpha: The probability of the noise token after a trigger.
        triggers: The triggers. Default: the most frequent token.
        noise: The noise token. Default: an extra one, N.
        loss_at: The loss is taken at the last position ("last"), or at all triggers seen before ("triggers").
    """

    start: AliasTable
    moves: AliasTable
    alpha: float | Float[Array, ""]
    size: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    triggers: tuple[int, ...] = eqx.field(static=True)
    noise: int = eqx.field(static=True)
    loss_at: LossAt = eqx.field(static=True)

    def __init__(
        self,
        first: Float[np.ndarray, " n"],
        following: Float[np.ndarray, "n n"] | None = None,
        *,
        length: int = 256,
        alpha: float | Float[Array, ""] = 0.5,
        triggers: tuple[int, ...] | None = None,
        noise: int | None = None,
        loss_at: LossAt = "triggers",
    ) -> None:
        unigram = np.asarray(checks.array("first", first, ndim=1), float)
        size = len(unigram)
        if size < 2 or not is_distribution(unigram):
            what = "probabilities of 2 tokens or more, with sum 1"
            raise ValueError(f"first must hold {what}; got {checks.shown(first)}")
        bigram = np.tile(unigram, (size, 1))
        if following is not None:
            bigram = np.asarray(checks.array("following", following, ndim=2), float)
            if bigram.shape != (size, size) or not is_distribution(bigram):
                what = f"probabilities of shape {(size, size)}, rows with sum 1"
                raise ValueError(f"following must hold {what}; got {checks.shown(following)}")
        self.size, self.length = size, checks.whole("length", length, at_least=3, at_most=2**31 - 1)
        self.alpha = checks.real("alpha", alpha, at_least=0, at_most=1)
        self.triggers = most_frequent(unigram, 1) if triggers is None else _tokens("triggers", triggers, size)
        self.noise = size if noise is None else checks.whole("noise", noise, at_least=0, at_most=size)
        self.loss_at = checks.one_of("loss_at", loss_at, get_args(LossAt))
        if self.noise in self.triggers:
            raise ValueError(f"noise must not be one of the triggers, {self.triggers}; got {self.noise}")
        self.start = alias_table(unigram[None])
        self.moves = alias_table(bigram if self.noise < size else np.vstack([bigram, unigram]))

    @classmethod
    def uniform(
        cls, size: int, *, length: int, alpha: float | Float[Array, ""], loss_at: LossAt = "last"
    ) -> NoisyRecall:
        """The task of the theory: all tokens alike, token 0 the trigger, the noise token an extra one.

        Args:
            size: N.
            length: Number of tokens of a sequence.
            alpha: The probability of the noise token after a trigger.
            loss_at: "last" or "triggers".
        """
        checks.whole("size", size, at_least=2, at_most=2**31 - 1)
        return cls(np.full(size, 1 / size), length=length, alpha=alpha, triggers=(0,), loss_at=loss_at)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, the noise token included."""
        return max(self.size, self.noise + 1)

    def sample(self, key: PRNGKeyArray, count: int) -> RecallBatch:
        """`count` sequences."""
        checks.sizes(count=count)
        keys = jax.random.split(checks.key("key", key), 5)
        targets = jax.random.randint(keys[0], (count, len(self.triggers)), 0, self.size, jnp.int32)
        row = jnp.arange(count)[:, None]
        which = jnp.full(self.vocabulary, -1, jnp.int32)
        which = which.at[jnp.array(self.triggers)].set(jnp.arange(len(self.triggers), dtype=jnp.int32))
        alpha = jnp.asarray(self.alpha, jnp.float32)

        def step(token: Array, u: Array) -> Array:
            trigger = which[token]
            recalled = jnp.where(u < alpha, self.noise, targets[row, jnp.maximum(trigger, 0)])
            return jnp.where(trigger >= 0, recalled, self.moves.draw(token, u))

        first = self.start.draw(jnp.zeros(count, jnp.int32), uniform_numbers(keys[1], (count,)))
        rest = chain(step, first, uniform_numbers(keys[2], (count, self.length - 2)), self.vocabulary)
        last = jax.random.randint(keys[3], (count,), 0, len(self.triggers), jnp.int32)
        target = targets[jnp.arange(count), last]
        answer = jnp.where(uniform_numbers(keys[4], (count,)) < alpha, self.noise, target)
        everything = [first[:, None], rest, jnp.array(self.triggers, jnp.int32)[last][:, None], answer[:, None]]
        sequence = jnp.concatenate(everything, axis=1)
        return RecallBatch(sequence[:, :-1], sequence[:, 1:], target)

    def positions(self, tokens: Int[Array, "count length"]) -> Bool[Array, "count length"]:
        """The positions at which the loss is taken. The token before the last position was set, not drawn, so that none
        is there.

        Args:
            tokens: Sequences, (count, length).
        """
        if self.loss_at == "last":
            return jnp.broadcast_to(jnp.arange(self.length) == self.length - 1, tokens.shape)
        found = jnp.zeros(tokens.shape, bool)
        for trigger in self.triggers:
            here = tokens == trigger
            first = jnp.argmax(here, axis=1)
            found |= here & (jnp.arange(self.length) > first[:, None])
        return found & (jnp.arange(self.length) != self.length - 2)

    def loss(self, model: Any, batch: RecallBatch) -> Float[Array, ""]:
        """The mean cross-entropy over these positions."""
        logits = jax.vmap(model)(batch.tokens)
        if logits.ndim == 2:
            scores, where = jax.nn.log_softmax(logits)[:, None], jnp.ones((len(logits), 1), bool)
            labels = batch.labels[:, -1:]
            if self.loss_at != "last":
                raise ValueError('loss_at must be "last" for a model of the last position; got "triggers"')
        else:
            scores, labels, where = jax.nn.log_softmax(logits), batch.labels, self.positions(batch.tokens)
        picked = jnp.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
        return -jnp.sum(jnp.where(where, picked, 0)) / jnp.maximum(jnp.sum(where), 1).astype(scores.dtype)

    def scores(self, model: Any, batch: RecallBatch) -> dict[str, Float[Array, ""]]:
        """Means over a batch at the last position.

        Args:
            model: From a sequence to logits.
            batch: The sequences.

        Returns:
            The probabilities of the target (`correct`) and of the noise token (`noise`), the `accuracy`, the loss with
            the target as the label (`clean_loss`), and `recalled`, the probability of the target if it has followed its
            trigger before.
        """
        logits = jax.vmap(model)(batch.tokens)
        logits = logits if logits.ndim == 2 else logits[:, -1]
        log = jax.nn.log_softmax(logits)
        own = jnp.take_along_axis(log, batch.target[:, None], axis=1)[:, 0]
        seen = informative(batch)
        return {
            "correct": jnp.mean(jnp.exp(own)),
            "noise": jnp.mean(jnp.exp(log[:, self.noise])),
            "accuracy": jnp.mean(jnp.argmax(log, axis=1) == batch.target),
            "clean_loss": -jnp.mean(own),
            "recalled": jnp.sum(jnp.where(seen, jnp.exp(own), 0)) / jnp.maximum(jnp.sum(seen), 1).astype(own.dtype),
        }


def informative(batch: RecallBatch) -> Bool[Array, " count"]:
    """Which sequences show the target after the last token's trigger before the end.

    Args:
        batch: The sequences.
    """
    if not isinstance(batch, RecallBatch):
        raise TypeError(f"batch must be a RecallBatch, as sample returns it; got {checks.shown(batch)}")
    tokens = batch.tokens
    return jnp.any((tokens[:, :-2] == tokens[:, -1:]) & (tokens[:, 1:-1] == batch.target[:, None]), axis=1)


def most_frequent(first: Float[np.ndarray, " n"], count: int) -> tuple[int, ...]:
    """The most frequent tokens, in their own order.

    Args:
        first: The distribution of tokens, (n,).
        count: Number of tokens.
    """
    found = np.asarray(checks.array("first", first, ndim=1), float)
    checks.whole("count", count, at_least=1, at_most=len(found))
    return tuple(sorted(int(token) for token in np.argsort(-found, kind="stable")[:count]))


def _tokens(name: str, given: Any, size: int) -> tuple[int, ...]:
    if not isinstance(given, tuple | list) or not given:
        raise TypeError(f"{name} must be a tuple of tokens; got {checks.shown(given)}")
    found = tuple(checks.whole(f"each of {name}", token, at_least=0, at_most=size - 1) for token in given)
    if len(set(found)) < len(found):
        raise ValueError(f"{name} must hold distinct tokens; got {checks.shown(given)}")
    return found
