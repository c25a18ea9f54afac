"""What is read of a transformer, on weights that are known: the hand-built solution, and a model in plain numpy."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.experiments.recall import readings
from dynascope.experiments.recall.shuffled_targets import ShuffledTargets
from dynascope.models import RecallTransformer, without_feed
from dynascope.models.frozen import Frozen
from dynascope.tasks import NoisyRecall
from dynascope.theory.recall.hand_built import hand_built

SIZE, LENGTH, ALPHA = 8, 24, 0.5


@pytest.fixture(scope="module")
def solved() -> RecallTransformer:
    """The transformer with the weights of Section 4.4.4.2."""
    weights = hand_built(SIZE, LENGTH, ALPHA)
    dim = weights.embedding.shape[1]
    sizes = {"dim": dim, "feeds": ("none", "linear"), "score_scale": 1}
    model = RecallTransformer(SIZE + 1, LENGTH, key=jax.random.key(0), **sizes)
    table = {"embedding": weights.embedding, "places": weights.positions, "readout": weights.unembedding}
    one = jnp.eye(dim)
    parts = (weights.first_scores, weights.first_values, one, weights.second_scores, weights.second_values, one)
    return eqx.tree_at(
        lambda m: (
            m.frozen,
            *(getattr(block, name) for block in m.blocks for name in ("score", "value", "output")),
            m.blocks[1].feed.out,
        ),
        model,
        (
            Frozen({name: jnp.asarray(part, jnp.float32) for name, part in table.items()}),
            *(jnp.asarray(part, jnp.float32) for part in (*parts, weights.feed_forward)),
        ),
    )


@pytest.fixture(scope="module")
def task() -> NoisyRecall:
    return NoisyRecall.uniform(SIZE, length=LENGTH, alpha=ALPHA, loss_at="triggers")


def test_the_hand_built_weights_are_the_memories_that_they_were_written_as(solved):
    found = {name: np.asarray(table) for name, table in readings.memories(solved).items()}
    match = np.zeros((SIZE + 1, SIZE + 1))
    match[0, 0] = 30.0
    np.testing.assert_allclose(found["match"], match, atol=1e-5)
    np.testing.assert_allclose(found["values"], np.diag([12.0] * SIZE + [0.0]), atol=1e-5)
    feed = np.zeros((SIZE + 1, SIZE + 1))
    feed[0, SIZE] = 12.0
    np.testing.assert_allclose(found["feed"], feed, atol=1e-5)


def test_memories_are_input_by_output():
    """Against W_U F2 W_E and its like, one token at a time."""
    model = RecallTransformer(5, 6, dim=4, feeds=("mlp", "mlp"), key=jax.random.key(3))
    found = jax.tree.map(np.asarray, readings.memories(model))
    embedding, readout = np.asarray(model.embedding, float), np.asarray(model.readout, float)
    first, second = model.blocks
    copied = np.asarray(first.output) @ np.asarray(first.value) @ embedding[1]
    into, out = np.asarray(second.feed.into), np.asarray(second.feed.out)
    np.testing.assert_allclose(found["feed"][1, 2], readout[2] @ out @ np.maximum(into @ embedding[1], 0), rtol=1e-4)
    value = np.asarray(second.output) @ np.asarray(second.value) @ embedding[1]
    np.testing.assert_allclose(found["values"][1, 2], readout[2] @ value, rtol=1e-4)
    np.testing.assert_allclose(found["match"][1, 2], embedding[2] @ np.asarray(second.score) @ copied, rtol=1e-4)


def test_the_hand_built_solution_attends_to_targets_after_triggers(solved, task):
    batch = task.sample(jax.random.key(1), 64)
    found = jax.tree.map(np.asarray, eqx.filter_jit(readings.seen)(task, solved, batch))
    assert found["previous"] > 0.99
    assert found["on_target"] > 20 * found["on_noise"]
    assert found["on_target"] + found["on_noise"] <= found["after"] + 1e-6 <= 1 + 2e-6
    np.testing.assert_allclose(found["margin"], 12, rtol=1e-5)
    np.testing.assert_allclose(found["example"].sum(), 1, rtol=1e-5)
    assert found["split"].shape == (2, 2)


def test_attention_and_predictions_against_a_count_one_sequence_at_a_time(task):
    model = RecallTransformer(SIZE + 1, LENGTH, dim=8, feeds=("mlp", "mlp"), key=jax.random.key(5))
    batch = task.sample(jax.random.key(2), 16)
    found = jax.tree.map(np.asarray, eqx.filter_jit(readings.seen)(task, model, batch))
    attention = np.asarray(jax.vmap(model.attention)(batch.tokens))
    logits, where = np.asarray(jax.vmap(model)(batch.tokens)), np.asarray(task.positions(batch.tokens))
    tokens, labels, target = (np.asarray(part) for part in batch)
    sums, split = dict.fromkeys(("on_target", "on_noise", "after", "previous"), 0.0), np.zeros((2, 2))
    for row, sequence in enumerate(tokens):
        for at in range(1, LENGTH):
            sums["previous"] += attention[row, 0, at, at - 1] / (LENGTH - 1)
            if sequence[at - 1] == sequence[-1]:
                sums["after"] += attention[row, 1, -1, at]
                sums["on_target"] += attention[row, 1, -1, at] * (sequence[at] == target[row])
                sums["on_noise"] += attention[row, 1, -1, at] * (sequence[at] == SIZE)
        for at in np.flatnonzero(where[row]):
            split[int(logits[row, at].argmax() == SIZE), int(labels[row, at] == SIZE)] += 1
    for name, total in sums.items():
        np.testing.assert_allclose(found[name], total / len(tokens), rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(found["split"], split / split.sum(), rtol=1e-5)


@pytest.mark.parametrize("feeds", [("mlp", "linear"), ("none", "none")])
def test_dropping_a_map_is_the_model_without_it(feeds, task):
    model = RecallTransformer(SIZE + 1, LENGTH, dim=8, feeds=feeds, key=jax.random.key(6))
    batch = task.sample(jax.random.key(3), 8)
    found = eqx.filter_jit(readings.without)(task, model, batch)
    kept = (model, without_feed(model, 0), without_feed(model, 1))
    for at, each in enumerate(kept):
        wanted = eqx.filter_jit(task.scores)(each, batch)
        for name in readings.SCORES:
            np.testing.assert_allclose(found[name][at], wanted[name], rtol=1e-5, atol=1e-7)


def test_random_directions_at_full_rank_are_the_model_itself_and_at_rank_0_none(task):
    model = RecallTransformer(SIZE + 1, LENGTH, dim=8, feeds=("none", "none"), key=jax.random.key(7))
    batch = task.sample(jax.random.key(4), 8)
    found = eqx.filter_jit(readings.on_random_directions)(task, model, batch, (0, 4, 8))
    less = eqx.tree_at(lambda m: m.blocks[0].output, model, jnp.zeros((8, 8)))
    wanted = [readings.scores(task, each, batch)["clean_loss"] for each in (less, model)]
    np.testing.assert_allclose(np.asarray(found["clean_loss"])[[0, 2]], wanted, rtol=1e-5)


def test_unrelated_labels_differ_only_where_a_target_followed_a_trigger():
    task = NoisyRecall.uniform(6, length=12, alpha=0.4, loss_at="triggers")
    both = [ShuffledTargets(task, jnp.asarray(each)) for each in (False, True)]
    plain, other = (jax.jit(lambda key, t=t: t.sample(key, 9))(jax.random.key(0)) for t in both)
    np.testing.assert_array_equal(other.tokens, plain.tokens)
    where = (np.asarray(plain.tokens) == 0) & (np.asarray(plain.labels) != 6)
    wanted = np.where(where, np.roll(plain.target, 1)[:, None], plain.labels)
    np.testing.assert_array_equal(other.labels, wanted)
    np.testing.assert_array_equal(plain.labels, task.sample(jax.random.key(0), 9).labels)
