"""Noisy recall: its sampler against the exact chain and the text's own counts, its loss and scores by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks import NoisyRecall, RecallBatch, informative, most_frequent
from dynascope.tasks.data.text import character_frequencies
from dynascope.tasks.token_chain import alias_table, in_a_row, in_blocks
from dynascope.theory.recall.chain import occupation, transition


def sampled(task, count=4000, seed=0):
    return eqx.filter_jit(lambda task, key: task.sample(key, count))(task, jax.random.key(seed))


def test_alias_tables_draw_the_distribution():
    rows = np.array([[0.5, 0.25, 0.25, 0.0], [0.01, 0.02, 0.03, 0.94], [0.25] * 4])
    table, u = alias_table(rows), (jnp.arange(20_000, dtype=jnp.float32) + 0.5) / 20_000
    for row, expected in enumerate(rows):
        drawn = table.draw(jnp.full(20_000, row), u)
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20_000, expected, atol=3e-4)


@pytest.mark.parametrize("length", [0, 1, 2, 10, 23])
def test_blocks_give_the_same_tokens_as_a_row(length):
    table = alias_table(np.random.default_rng(0).dirichlet(np.ones(5), 5))
    first = jnp.arange(8, dtype=jnp.int32) % 5
    u = jax.random.uniform(jax.random.key(1), (8, length))
    row, blocks = in_a_row(table.draw, first, u), in_blocks(table.draw, first, u, 5)
    assert row.shape == (8, length)
    np.testing.assert_array_equal(row, blocks)


def test_transitions_and_counts_are_those_of_the_chain():
    batch = sampled(NoisyRecall.uniform(6, length=20, alpha=0.3), 20_000)
    mine = np.asarray(batch.target) == 2
    tokens = np.asarray(batch.tokens)[mine]
    pairs = np.zeros((7, 7))
    np.add.at(pairs, (tokens[:, :-2].ravel(), tokens[:, 1:-1].ravel()), 1)
    np.testing.assert_allclose(pairs / pairs.sum(1, keepdims=True), transition(6, 0.3, 2), atol=0.015)
    counts = np.stack([(tokens[:, :-1] == token).sum(1) for token in range(7)], 1)
    exact = occupation(6, 19, 0.3, 2)
    spread = np.sqrt((np.diag(exact.square) - exact.mean**2) / len(tokens))
    np.testing.assert_array_less(np.abs(counts.mean(0) - exact.mean), 4.5 * spread)


def test_the_end_is_a_trigger_and_then_the_target_or_noise():
    batch = sampled(NoisyRecall.uniform(6, length=9, alpha=0.3))
    answer = np.asarray(batch.labels[:, -1])
    assert (np.asarray(batch.tokens[:, -1]) == 0).all()
    np.testing.assert_array_equal(batch.tokens[:, 1:], batch.labels[:, :-1])
    assert ((answer == 6) | (answer == np.asarray(batch.target))).all()
    assert (answer == 6).mean() == pytest.approx(0.3, abs=0.03)
    assert set(np.asarray(batch.target)) == set(range(6))


def test_each_trigger_has_its_own_target():
    task = NoisyRecall(np.full(5, 0.2), length=40, alpha=0.0, triggers=(1, 3))
    batch = sampled(task, 200)
    for tokens in np.asarray(batch.tokens)[:, :-1]:
        for trigger in (1, 3):
            assert len(set(tokens[1:][tokens[:-1] == trigger])) <= 1
    assert set(np.asarray(batch.tokens[:, -1])) == {1, 3}
    assert bool(jnp.all(jnp.where(informative(batch), True, batch.tokens[:, -1] >= 0)))


def test_the_text_has_its_counts_and_the_space_is_its_trigger():
    found = character_frequencies()
    assert len(found.alphabet) == 65
    counts = np.round(found.first * 1_115_394).astype(int)
    named = {sign: counts[found.alphabet.index(sign)] for sign in " etoa"}
    assert named == {" ": 169892, "e": 94611, "t": 67009, "o": 65798, "a": 55507}
    assert most_frequent(found.first, 5) == (1, 39, 43, 53, 58)
    np.testing.assert_allclose(found.following.sum(1), 1)
    task = NoisyRecall(found.first, found.following, length=32)
    assert (task.triggers, task.noise, task.vocabulary) == ((1,), 65, 66)
    known = NoisyRecall(found.first, found.following, length=32, noise=2)
    assert (known.noise, known.vocabulary) == (2, 65)
    tokens = np.asarray(sampled(task, 2000).tokens)
    after = tokens[:, 1:-1][tokens[:, :-2] == found.alphabet.index("t")]
    assert (after == found.alphabet.index("h")).mean() == pytest.approx(
        found.following[found.alphabet.index("t"), found.alphabet.index("h")], abs=0.04
    )


def test_the_loss_is_taken_at_triggers_seen_before():
    """Not at position 6, after which the last token is set."""
    triggers, last = (NoisyRecall(np.full(4, 0.25), length=8, triggers=(0,), loss_at=at) for at in ("triggers", "last"))
    tokens = jnp.array([[0, 1, 0, 2, 0, 3, 0, 0]])
    batch = RecallBatch(tokens, jnp.array([[1, 0, 2, 0, 3, 0, 0, 4]]), jnp.array([1]))
    table = np.sqrt(np.arange(40.0, dtype=np.float32)).reshape(8, 5)
    log = table - np.log(np.exp(table).sum(1, keepdims=True))

    @jax.jit
    def found(batch, table):
        whole, end = (lambda _: table), (lambda _: table[-1])
        losses = [triggers.loss(whole, batch), last.loss(whole, batch), last.loss(end, batch)]
        return losses, [triggers.scores(model, batch) for model in (whole, end)], triggers.positions(batch.tokens)

    losses, scores, positions = found(batch, jnp.asarray(table))
    np.testing.assert_array_equal(positions[0], [0, 0, 1, 0, 1, 0, 0, 1])
    expected = [-(log[2, 2] + log[4, 3] + log[7, 4]) / 3, -log[7, 4], -log[7, 4]]
    np.testing.assert_allclose(np.array(losses), expected, rtol=1e-5)
    for each in scores:
        named = {"correct": np.exp(log[7, 1]), "noise": np.exp(log[7, 4]), "clean_loss": -log[7, 1]}
        named |= {"recalled": np.exp(log[7, 1]), "accuracy": 0.0}
        assert {name: float(value) for name, value in each.items()} == pytest.approx(named, rel=1e-5)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="noise must not be one of the triggers"):
        NoisyRecall(np.full(4, 0.25), noise=1, triggers=(1,))
    with pytest.raises(ValueError, match="first must hold probabilities"):
        NoisyRecall(np.full(4, 0.5))
    with pytest.raises(ValueError, match="must hold distinct tokens"):
        NoisyRecall(np.full(4, 0.25), triggers=(1, 1))
    task = NoisyRecall(np.full(4, 0.25), length=8)
    batch = RecallBatch(np.zeros((2, 8), int), np.zeros((2, 8), int), np.zeros(2, int))
    with pytest.raises(ValueError, match="loss_at must be"):
        task.loss(lambda _: jnp.zeros(5), batch)
