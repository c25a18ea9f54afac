"""Parts of the recall experiments that need no training."""

import jax
import jax.numpy as jnp
import numpy as np

from dynascope.experiments.recall.linear_memory import LinearMemory
from dynascope.experiments.recall.one_step import _kinds, _margins
from dynascope.experiments.recall.phases import Shuffled
from dynascope.tasks import NoisyRecall
from dynascope.theory.recall.first_step import ENTRIES


def test_every_entry_of_the_value_gradient_is_of_one_kind():
    kinds = _kinds(5)
    names = np.array(ENTRIES)[kinds]
    assert names[5, 5] == "τ,τ"
    assert names[5, 0] == "τ,q"
    assert (names[0, 0], names[0, 5], names[0, 3]) == ("q,q", "q,τ", "q,k")
    assert (names[2, 2], names[2, 0], names[2, 5], names[2, 3]) == ("j,j", "j,q", "j,τ", "j,k")
    counts = {name: int((names == name).sum()) for name in ENTRIES}
    assert counts["j,k"] == 4 * 3
    assert sum(counts.values()) == 36


def test_margins_are_of_the_last_token_over_the_best_other():
    test = jnp.array([[[1.0, 0, 0, 0], [0, 1.0, 1.0, 0]]])  # one context of two positions, vocabulary 2
    feed = jnp.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]])
    value = jnp.array([[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 4.0, 0.0]])
    np.testing.assert_allclose(_margins(feed, value, test), [2.0, 2.5, 0.5])


def test_shuffled_labels_are_those_of_other_contexts():
    task = NoisyRecall.uniform(6, length=8, alpha=0.2)
    plain, shuffled = (jax.jit(lambda key, t=t: t.sample(key, 9))(jax.random.key(0)) for t in (task, Shuffled(task)))
    np.testing.assert_array_equal(shuffled.tokens, plain.tokens)
    np.testing.assert_array_equal(shuffled.labels, np.roll(plain.labels, 1, axis=0))


def test_the_memory_is_cut_to_one_direction_more_than_it_learns():
    experiment = LinearMemory(steps=1000)
    assert experiment.ranks() == (1, 2, 3, 4)
    records = experiment.records()
    assert (records[0], records[-1], len(set(records))) == (0, 1000, len(records))
