"""The synthetic indirect-object task: what every sequence holds, and its scores by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks import IndirectObject


def test_the_target_follows_the_trigger_once_and_the_distractor_twice():
    task = IndirectObject(size=9, length=12, alpha=0.4)
    batch = eqx.filter_jit(lambda key: task.sample(key, 3000))(jax.random.key(0))
    tokens, target, other = (np.asarray(part) for part in (batch.tokens, batch.target, batch.distractor))
    assert (tokens[:, -1] == 0).all()
    assert ((tokens[:, :-1] == 0).sum(1) == 3).all()
    assert tokens[:, -2].min() > 0
    after = np.sort(tokens[:, 1:][tokens[:, :-1] == 0].reshape(-1, 3), axis=1)
    expected = np.sort(np.stack([target, other, other], 1), axis=1)
    np.testing.assert_array_equal(after, expected)
    assert (target != other).all()
    assert min(target.min(), other.min()) == 1
    assert set(tokens[tokens > 0]) == set(range(1, 10))
    label = np.asarray(batch.label)
    assert ((label == target) | (label == 9)).all()
    assert (label == 9).mean() == pytest.approx(0.4, abs=0.04)
    places = np.nonzero(tokens[:, :-1] == 0)[1].reshape(-1, 3)
    assert places.max() == 9
    assert np.diff(places).min() == 2


def test_scores_tell_the_target_from_the_distractor():
    task = IndirectObject(size=5, length=8, alpha=0.0)
    logits = np.arange(6, dtype=np.float32)
    share = np.exp(logits) / np.exp(logits).sum()

    @jax.jit
    def found(logits):
        batch = task.sample(jax.random.key(1), 50)
        return batch, task.scores(lambda _: logits, batch), task.loss(lambda _: logits, batch)

    batch, scores, loss = found(jnp.asarray(logits))
    target, other = np.asarray(batch.target), np.asarray(batch.distractor)
    expected = {"correct": share[target].mean(), "distracted": share[other].mean(), "noise": share[5]}
    expected |= {"choice": (target > other).mean(), "accuracy": 0.0}
    assert {name: float(value) for name, value in scores.items()} == pytest.approx(expected, rel=1e-5)
    assert float(loss) == pytest.approx(-np.log(share)[target].mean(), rel=1e-5)
