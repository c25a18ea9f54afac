"""The least losses of the next token away from triggers: the entropy of bigrams, and that without them.

A context of noisy in-context recall starts from `first` and continues by `following`, except after the trigger, where
the target comes (uniform among the N tokens) or, with probability alpha, the noise token N; from there it goes on by
`first`. With w the distribution of a token that is no trigger, over positions 1 to T - 2, and p(.|z) that of the next
token,

    bigram = sum_z w(z) H(p(.|z)),    unigram = H(sum_z w(z) p(.|z)):

the least losses of a model that sees the last token, and of one without any input.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import Count, Domain, Whole, check_arguments
from dynascope.theory.recall.chain import Probability

Shares = Annotated[Float[np.ndarray, " n"], Domain("from 0 to 1", lambda x: (x >= 0) & (x <= 1))]
ShareRows = Annotated[Float[np.ndarray, "n n"], Domain("from 0 to 1", lambda x: (x >= 0) & (x <= 1))]


class LeastLosses(NamedTuple):
    """Means over positions whose token is no trigger, in nats."""

    bigram: float
    """Loss of a model that sees the last token."""
    unigram: float
    """Loss of a model without any input."""


@check_arguments
def least_losses(
    first: Shares, following: ShareRows, alpha: Probability, trigger: Count, length: Annotated[int, Whole(3, 100_000)]
) -> LeastLosses:
    """The least losses of the next token away from the trigger.

    Args:
        first: Distribution of the first token, and of that after the noise token.
        following: For each token the distribution of the next.
        alpha: Noise level, from 0 to 1.
        trigger: The token that is the trigger, from 0.
        length: Number of tokens T in a context, at least 3.
    """
    size = len(first)
    if trigger >= size:
        raise ValueError(f"trigger must be below the number of tokens, {size}; got {trigger}")
    for name, rows in (("first", first[None]), ("following", following)):
        if not np.allclose(rows.sum(1), 1, atol=1e-6):
            raise ValueError(f"{name} must hold distributions, with sum 1; got sums down to {rows.sum(1).min():.4g}")
    moves = np.zeros((size + 1, size + 1))
    moves[:size, :size], moves[size, :size] = following, first
    now = np.tile(np.append(first, 0.0), (size, 1))  # for every target
    seen = np.zeros(size + 1)
    for _ in range(length - 2):
        away = now.copy()
        away[:, trigger] = 0
        seen += away.mean(0)
        recalled = now[:, trigger, None] * np.hstack([(1 - alpha) * np.eye(size), np.full((size, 1), alpha)])
        now = away @ moves + recalled
    if not seen.sum():
        raise ValueError("first and following must leave some tokens that are no trigger; got the trigger alone")
    weights = seen / seen.sum()
    return LeastLosses(float(weights @ _entropy(moves)), float(_entropy(weights @ moves)))


def _entropy(rows: Float[np.ndarray, "*batch n"]) -> Float[np.ndarray, "*batch"]:
    return np.asarray(-np.sum(rows * np.log(np.where(rows > 0, rows, 1)), axis=-1))
