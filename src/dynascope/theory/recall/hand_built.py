"""Hand-built weights of the two-layer transformer that solve noisy in-context recall.

"Simple structures in neural networks", Section 4.4.4.2, with scores x_query^T W x_key as in Eq. 4.1 (the document
prints both W_QK transposed). All embeddings are orthonormal: the first layer attends to the previous token and copies
it to a fresh direction R W_E; the second compares that with the trigger, avoids the noise token and reads the target
out; a linear feed-forward map adds the noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import PositiveNumber, check_arguments
from dynascope.theory.recall.chain import TRIGGER, Length, Noise, Size

Square = Float[np.ndarray, "d d"]


class HandBuilt(NamedTuple):
    """The weights, with d = 3 (N + 1) + T. The first feed-forward map is zero."""

    embedding: Float[np.ndarray, "tokens d"]
    """W_E. Shape (tokens, d)."""
    positions: Float[np.ndarray, "length d"]
    """Embeddings p_t of the positions. Shape (length, d)."""
    unembedding: Float[np.ndarray, "tokens d"]
    """W_U. Shape (tokens, d)."""
    first_scores: Square
    """W1_QK. Shape (d, d)."""
    first_values: Square
    """W1_V. Shape (d, d)."""
    second_scores: Square
    """W2_QK. Shape (d, d)."""
    second_values: Square
    """W2_V. Shape (d, d)."""
    feed_forward: Square
    """F2. Shape (d, d)."""


@check_arguments
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

    Then the target has probability 1 - alpha and the noise alpha, and without F2 the target nearly 1. (If z_{T-1} = q
    too, position T looks like "q, then q".)

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
        previous: l1. Positive. Default: 50.0.
        matching: l2. Positive. Default: 30.0.
        avoiding: c. Positive. Default: 1.0.
        reading: g. Positive. Default: 12.0.
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
