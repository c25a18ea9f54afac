"""Parts of the budget, indirect-object and checkpoint experiments, at tiny sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.experiments.recall.budget import AwayFromTriggers
from dynascope.experiments.recall.indirect_object import _look
from dynascope.experiments.recall.text_questions import (
    Questions,
    rank,
    shares_after,
    text_questions,
)
from dynascope.tasks import IndirectObject, IndirectObjectBatch, NoisyRecall, RecallBatch
from dynascope.tasks.data.text import Frequencies


def recall(length=6):
    draw = np.random.default_rng(0)
    first, following = draw.dirichlet(np.ones(5)), draw.dirichlet(np.ones(5), size=5)
    return NoisyRecall(first, following, length=length, alpha=0.4, triggers=(1,)), first, following


def table(rows):
    """A model whose prediction depends on the last token only."""
    scores = jnp.log(jnp.asarray(rows, jnp.float32))
    return lambda tokens: scores[tokens]


def test_the_loss_away_from_triggers_is_the_entropy_for_the_true_bigrams():
    task, first, following = recall(30)
    away = AwayFromTriggers(task)
    rows = np.zeros((6, 6))
    rows[:5, :5], rows[5, :5] = following, first
    batch = jax.jit(lambda key: away.sample(key, 4000))(jax.random.key(0))
    loss = float(away.loss(table(np.maximum(rows, 1e-30)), batch))
    entropy = away.entropy(np.asarray(batch.tokens), Frequencies(first, following, tuple("abcde")))
    assert loss == pytest.approx(entropy, abs=0.01)


def test_triggers_and_the_token_that_was_set_are_not_asked_for():
    away = AwayFromTriggers(recall()[0])
    tokens, labels = jnp.array([[0, 1, 2, 3, 4, 1]]), jnp.array([[1, 2, 3, 4, 1, 0]])
    batch = RecallBatch(tokens, labels, jnp.array([0]))
    loss = jax.jit(lambda right: away.loss(lambda tokens: right, batch))
    asked = []
    for place in range(6):
        right = jnp.zeros((6, 6)).at[place, batch.labels[0, place]].set(5.0)
        asked.append(float(loss(right)) < np.log(6) - 1e-3)
    assert asked == [True, False, True, True, False, False]


def test_in_the_control_the_token_before_is_the_label():
    away = AwayFromTriggers(recall()[0], previous=True)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 6, (8, 6)))
    batch = RecallBatch(tokens, jnp.zeros_like(tokens), tokens[:, 0])
    knows = lambda tokens: 50.0 * jax.nn.one_hot(jnp.roll(tokens, 1), 6)  # noqa: E731
    assert float(away.loss(knows, batch)) < 1e-6


def test_accuracy_of_others_leaves_the_noise_token_out():
    task = IndirectObject(5, 8, 0.0)
    draw = np.random.default_rng(0)
    target = jnp.asarray(draw.integers(1, 5, 16))
    batch = IndirectObjectBatch(jnp.asarray(draw.integers(0, 6, (16, 8))), target, target, 1 + target % 4)
    logits = jnp.zeros((16, 6)).at[jnp.arange(16), batch.target].set(1.0).at[:, 5].set(2.0)
    keyed = {tuple(np.asarray(t).tolist()): logit for t, logit in zip(batch.tokens, logits, strict=True)}
    book = jnp.stack(list(keyed.values()))
    prompts = jnp.array(list(keyed))

    def model(tokens):
        found = book[jnp.argmax(jnp.all(prompts == tokens, axis=1))]
        return jnp.tile(found, (8, 1))

    seen = jax.jit(lambda: _look(task, model, batch))()
    assert (float(seen["accuracy"]), float(seen["accuracy_of_others"])) == (0.0, 1.0)
    assert float(seen["choice"]) == 1.0


def test_rank_counts_the_more_probable_tokens():
    chances = jnp.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]])
    np.testing.assert_array_equal(rank(chances, 1), [3, 1])


def test_shares_after_count_pairs():
    np.testing.assert_allclose(shares_after(np.array([2, 1, 2, 4, 3, 1]), (2, 3), 1), [0.5, 1.0])


def test_questions_end_in_prepositions_without_the_article_and_ask_for_words_that_recur():
    draw = np.random.default_rng(0)
    tokens = draw.choice(60, size=6000).astype(np.int32)
    alphabet = ("…", "the", "of", "in", *(f"{a}{b}q" for a in "abcdefgh" for b in "xyzuvwr"))[:60]
    found = text_questions(tokens[:4000], tokens[4000:], alphabet, 8, 50)
    assert set(np.asarray(found.after.windows)[:, -1].tolist()) <= {2, 3}
    assert not np.any(np.asarray(found.after.windows) == 1)
    windows, label = np.asarray(found.again.windows), np.asarray(found.again.label)
    assert np.all(np.any(windows[:, :-1] == label[:, None], axis=1))
    assert np.all(label > 40)
    assert len(found.anywhere.label) == 50
    assert found.others[0] == 4
    begin = int(np.flatnonzero(np.all(np.lib.stride_tricks.sliding_window_view(tokens, 8) == windows[0], axis=1))[0])
    assert tokens[begin + 8] == label[0]


def test_a_model_of_the_last_word_gains_nothing_from_context():
    draw = np.random.default_rng(1)
    windows = jnp.asarray(draw.integers(0, 5, (20, 4)))
    questions = Questions(windows, jnp.asarray(draw.integers(0, 5, 20)))
    rows = draw.dirichlet(np.ones(5), size=5)
    last, context = questions.gain(table(rows))
    expected = np.mean(np.log(rows[np.asarray(windows[:, -1]), np.asarray(questions.label)]))
    assert float(last) == pytest.approx(expected, rel=1e-5)
    assert float(context) == pytest.approx(0.0, abs=1e-6)


def test_a_model_that_looks_back_gains_from_context():
    windows = jnp.asarray(np.random.default_rng(2).integers(0, 5, (20, 4)))
    questions = Questions(windows, windows[:, 1])
    copies = lambda tokens: jnp.tile(3.0 * jax.nn.one_hot(tokens[1], 5), (4, 1))  # noqa: E731
    last, context = questions.gain(copies)
    assert float(context) > 1
    whole = 3 - np.log(4 + np.exp(3))
    assert float(last + context) == pytest.approx(whole, rel=1e-5)
