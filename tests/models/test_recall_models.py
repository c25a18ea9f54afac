"""Transformers of noisy recall: against Eq. 4.1 in numpy, the hand-built solution, and without some of their parts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import BudgetSplit, OneLayerRecall, RecallTransformer, budget_split, without_feed
from dynascope.models.frozen import Frozen
from dynascope.tasks import NoisyRecall, informative
from dynascope.theory.recall.hand_built import hand_built

TOKENS = jnp.array([2, 0, 1, 3, 0, 1])


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attended(x, block):
    logits = block.scale * x @ np.asarray(block.score) @ x.T
    logits[np.triu_indices(len(x), 1)] = -np.inf
    return softmax(logits)


def fed(feed, x):
    if feed.out is None:
        return 0 * x
    x = x if feed.into is None else np.maximum(x @ np.asarray(feed.into).T, 0)
    return x @ np.asarray(feed.out).T


@pytest.mark.parametrize("feeds", [("mlp", "linear"), ("none", "mlp", "none")])
def test_the_transformer_is_that_of_the_document(feeds):
    model = RecallTransformer(5, 8, dim=6, feeds=feeds, key=jax.random.key(0))
    logits, attention, margin = eqx.filter_jit(lambda m: (m(TOKENS), m.attention(TOKENS), m.feed_margin(1, 2, 4)))(
        model
    )
    x = np.asarray(model.embedding)[TOKENS] + np.asarray(model.frozen.value()["places"])[:6]
    for at, block in enumerate(model.blocks):
        weights = attended(x, block)
        np.testing.assert_allclose(attention[at], weights, atol=1e-5)
        x = x + weights @ x @ np.asarray(block.value).T @ np.asarray(block.output).T
        x = x + fed(block.feed, x)
    np.testing.assert_allclose(logits, x @ np.asarray(model.readout).T, atol=1e-4)
    row = np.asarray(model.readout) @ fed(model.blocks[1].feed, np.asarray(model.embedding)[2])
    assert float(margin) == pytest.approx(row[4] - row[:4].max(), abs=1e-5)


def test_only_the_matrices_of_the_blocks_are_trained():
    model = RecallTransformer(5, 8, dim=4, feeds=("mlp", "none"), key=jax.random.key(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    assert count == 2 * 3 * 16 + 2 * 4 * 16


def test_a_dropped_feed_forward_map_leaves_the_model_as_it_was():
    model = RecallTransformer(5, 8, dim=4, key=jax.random.key(0))
    before = jax.tree.map(np.array, eqx.filter(model, eqx.is_array))
    dropped = without_feed(model, 1)
    assert dropped.blocks[1].feed.out is None
    assert dropped.blocks[0].feed.out is model.blocks[0].feed.out
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(eqx.filter(model, eqx.is_array)), strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_hand_built_solution_recalls_and_its_feed_forward_map_is_the_noise():
    """P(target) = 1 - alpha and P(noise) = alpha; without F2 the target is nearly certain (medians: the token before
    the last can be the trigger too)."""
    size, length, alpha = 20, 60, 0.3
    weights = hand_built(size, length, alpha)
    d = weights.embedding.shape[1]
    model = RecallTransformer(size + 1, length, dim=d, feeds=("none", "linear"), score_scale=1, key=jax.random.key(0))
    one = jnp.eye(d)
    first, second = model.blocks
    parts = [weights.first_scores, weights.first_values, weights.second_scores, weights.second_values]
    table = {"embedding": weights.embedding, "places": weights.positions, "readout": weights.unembedding}
    model = eqx.tree_at(
        lambda m: (
            m.frozen,
            *(getattr(b, n) for b in m.blocks for n in ("score", "value", "output")),
            m.blocks[1].feed.out,
        ),
        model,
        (
            Frozen({name: jnp.asarray(part, jnp.float32) for name, part in table.items()}),
            *(jnp.asarray(part, jnp.float32) for part in (*parts[:2], one, *parts[2:], one, weights.feed_forward)),
        ),
    )
    assert first.scale == second.scale == 1
    task = NoisyRecall.uniform(size, length=length, alpha=alpha)

    @eqx.filter_jit
    def shares(model):
        batch = task.sample(jax.random.key(1), 60)
        rows = [jax.nn.softmax(jax.vmap(m)(batch.tokens)[:, -1]) for m in (model, without_feed(model, 1))]
        return informative(batch), batch.target, rows

    seen, target, (whole, dropped) = jax.tree.map(np.asarray, shares(model))
    own = np.arange(60), target
    found = [np.median(share[seen]) for share in (whole[own], whole[:, size], dropped[own])]
    np.testing.assert_allclose(found, [0.7, 0.3, 1.0], atol=3e-3)


def test_the_one_layer_model_is_that_of_the_theory():
    model = OneLayerRecall(4)
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [part.shape for part in (model.score, model.value, model.feed)]
    drawn = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]
    model = eqx.tree_at(lambda m: (m.score, m.value, m.feed), model, tuple(drawn))
    tokens = np.array([2, 0, 3, 1, 0])
    x = np.concatenate([np.eye(4)[tokens], np.vstack([np.zeros(4), np.eye(4)[tokens[:-1]]])], axis=1)
    score, value, feed = (np.asarray(part) for part in drawn)
    expected = value @ (softmax(x[-1] @ score @ x.T) @ x) + feed @ x[-1]
    np.testing.assert_allclose(eqx.filter_jit(model)(jnp.asarray(tokens)), expected, rtol=1e-4)
    assert OneLayerRecall(4, previous=False).value.shape == (4, 4)


def test_a_budget_is_spent_as_it_is_split():
    split = budget_split(2**15, 0.5, dim=64)
    assert (split.attention, split.hidden, split.parameters) == (32, 64, 2**15)
    model = BudgetSplit(5, 8, 2**10, 0.25, key=jax.random.key(0), dim=8)
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    assert sum(leaf.size for leaf in leaves) == budget_split(2**10, 0.25, dim=8).parameters == 2**10
    assert eqx.filter_jit(model)(TOKENS).shape == (6, 5)
    with pytest.raises(ValueError, match="budget must pay"):
        budget_split(10, 0.5, dim=64)
