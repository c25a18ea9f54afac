"""Weights of the two-layer transformer that solve noisy in-context recall, written down by hand.

"Simple structures in neural networks", Section 4.4.4.2, with scores x_query^T W x_key as in Eq. 4.1 (the document
prints both W_QK the other way round). All embeddings are orthonormal: the first layer attends to the previous token
and copies it to a fresh direction R W_E; the second compares that with the trigger, avoids the noise token and reads
the target out; a linear feed-forward map adds the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.arguments import PositiveNumber
from dynascope.theory.recall.chain import TRIGGER, Length, Noise, Size

Square = Float[np.ndarray, "d d"]


class HandBuilt(NamedTuple):
    """The weights, with d = 3 (N + 1) + T. The first feed-forward map is zero."""

    embedding: Float[np.ndarray, "tokens d"]
    positions: Float[np.ndarray, "length d"]
    unembedding: Float[np.ndarray, "tokens d"]
    first_scores: Square
    first_values: Square
    second_scores: Square
    second_values: Square
    feed_forward: Square


def hand_built(
    size: Size,
    length: Length,
    alpha: Noise,
    previous: PositiveNumber = 50.0,
    matching: PositiveNumber = 30.0,
    avoiding: PositiveNumber = 1.0,
    reading: PositiveNumber = 12.0,
) -> HandBuilt:
    """W1_QK = l1 sum p_t p_{t-1}^T; W1_V = R; W2_QK = l2 W_E(q) (R W_E(q) - c W_E(tau))^T;
    W2_V = g sum_{z <= N} W_U(z) W_E(z)^T; F2 = h W_U(tau) W_E(q)^T with h = g + ln(alpha/(1 - alpha)).

    `previous` is l1, `matching` l2, `avoiding` c and `reading` g. Then the target has probability 1 - alpha and the
    noise alpha, and without F2 the target nearly 1. (Where z_{T-1} = q too, position T looks like "q, then q".)
    """
    tokens, d = size + 1, 3 * (size + 1) + length
    basis = np.eye(d)
    embedding, fresh, unembedding, positions = np.split(basis, [tokens, 2 * tokens, 3 * tokens])
    step = positions[1:].T @ positions[:-1]
    match = np.outer(embedding[TRIGGER], fresh[TRIGGER] - avoiding * embedding[size])
    noise = reading + np.log(alpha / (1 - alpha))
    return HandBuilt(
        embedding,
        positions,
        unembedding,
        previous * step,
        fresh.T @ embedding,
        matching * match,
        reading * unembedding[:size].T @ embedding[:size],
        noise * np.outer(unembedding[size], embedding[TRIGGER]),
    )
