"""The hand-built two-layer transformer recalls the target and adds the noise."""

import numpy as np

from dynascope.theory.recall.hand_built import hand_built


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attended(x, scores, values):
    logits = x @ scores @ x.T
    logits[np.triu_indices(len(x), 1)] = -np.inf
    return softmax(logits) @ x @ values.T


def last_probabilities(weights, tokens, drop):
    x = weights.embedding[tokens] + weights.positions
    x = x + attended(x, weights.first_scores, weights.first_values)
    x = x + attended(x, weights.second_scores, weights.second_values)
    x = x if drop else x + x @ weights.feed_forward.T
    return softmax(weights.unembedding @ x[-1])


def draw(rng, size, length, alpha):
    target, tokens = rng.integers(1, size), [int(rng.integers(size))]
    while len(tokens) < length - 1:
        after = (target if rng.random() > alpha else size) if tokens[-1] == 0 else rng.integers(size)
        tokens.append(int(after))
    return target, [*tokens, 0]


def test_it_recalls_and_without_its_feed_forward_map_does_only_that():
    size, length, alpha = 20, 60, 0.3
    weights, rng, found = hand_built(size, length, alpha), np.random.default_rng(0), []
    for _ in range(40):
        target, tokens = draw(rng, size, length, alpha)
        whole, dropped = (last_probabilities(weights, tokens, drop) for drop in (False, True))
        found.append([whole[target], whole[size], dropped[target]])
    np.testing.assert_allclose(np.median(found, axis=0), [0.7, 0.3, 1.0], atol=2e-3)
