"""The table, the network and the measurements are what they say, by hand or by an independent computation."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dynascope_grokking.addition import Adder, Table, purity

DIGITS = 7
TABLE = Table.draw(DIGITS, 0.6, shuffled=False, key=jax.random.key(0))
MODEL = Adder(DIGITS, 5, key=jax.random.key(1))


def with_weights(first: jax.Array, second: jax.Array) -> Adder:
    return eqx.tree_at(lambda model: (model.first, model.second), MODEL, (first, second))


def test_the_table_has_every_sum_once():
    first, second = TABLE.pairs[:, :DIGITS].argmax(1), TABLE.pairs[:, DIGITS:].argmax(1)
    rows = {(int(a), int(b), int(s)) for a, b, s in zip(first, second, TABLE.sums.argmax(1), strict=True)}
    assert rows == {(a, b, (a + b) % DIGITS) for a in range(DIGITS) for b in range(DIGITS)}
    assert int(TABLE.trained.sum()) == np.ceil(0.6 * DIGITS**2)


def test_a_shuffled_table_has_the_same_sums_at_other_places():
    shuffled = Table.draw(DIGITS, 0.6, shuffled=True, key=jax.random.key(0))
    assert (shuffled.sums.sum(0) == TABLE.sums.sum(0)).all()
    right = (shuffled.sums.argmax(1) == TABLE.sums.argmax(1)).mean()
    assert right < 3 / DIGITS, "about 1/7 of the places agree by chance"


def test_the_loss_is_the_cross_entropy_of_the_training_examples():
    kept = TABLE.trained
    logits = jax.vmap(MODEL)(TABLE.pairs[kept])
    each = optax.softmax_cross_entropy_with_integer_labels(logits, TABLE.sums[kept].argmax(1))
    assert TABLE.loss(MODEL) == pytest.approx(float(each.mean()), rel=1e-5)
    trained, test = TABLE.accuracies(MODEL)
    right = np.asarray(MODEL(TABLE.pairs).argmax(1) == TABLE.sums.argmax(1))
    assert trained == pytest.approx(right[kept].mean())
    assert test == pytest.approx(right[~np.asarray(kept)].mean())


def test_a_wave_has_all_its_power_at_one_frequency_and_two_waves_share_it():
    angles = 2 * np.pi * np.arange(DIGITS) / DIGITS
    wave, two = np.cos(2 * angles + 0.3), np.cos(angles) + np.cos(3 * angles)
    for rows, expected in (([wave], 1.0), ([two], 0.5), ([wave, two], 0.5 + 0.5 / 3)):
        first = jnp.asarray(np.concatenate([rows, np.ones_like(rows)], 1), jnp.float32)
        assert purity(with_weights(first, jnp.zeros((DIGITS, len(rows))))) == pytest.approx(expected, rel=1e-5)


def test_waves_add():
    """Neurons of each frequency in four phases have logits Σ cos(k (a + b - s)), which are largest at s = a + b."""
    angles = 2 * np.pi * np.arange(DIGITS) / DIGITS
    phases = np.arange(4) * np.pi / 4
    rows, columns = [], []
    for frequency in (1, 2, 3):
        for phase in phases:
            rows.append(np.tile(np.cos(frequency * angles + phase), 2))
            columns.append(np.cos(frequency * angles + 2 * phase))
    model = with_weights(jnp.asarray(np.array(rows), jnp.float32), jnp.asarray(np.array(columns).T, jnp.float32))
    assert [float(share) for share in TABLE.accuracies(model)] == [1.0, 1.0]
    assert purity(model) == pytest.approx(1.0, rel=1e-5)
