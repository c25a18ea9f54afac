"""Parts of the recall experiments that need no training."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.experiments.recall.association_first import AssociationFirst
from dynascope.experiments.recall.lemmas import _gradient_error, _series
from dynascope.experiments.recall.linear_memory import LinearMemory
from dynascope.experiments.recall.one_step import _kinds, _margins
from dynascope.experiments.recall.phases import Shuffled
from dynascope.experiments.recall.value_rank import ValueRank
from dynascope.lab.fields import build
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


def test_the_loss_of_the_text_is_at_the_last_position_alone():
    tokens = jnp.array([[0, 1, 0, 2, 0]], jnp.int32)
    for preset, places in (("text", [False] * 4 + [True]), (None, [False, False, True, False, True])):
        training = build(AssociationFirst, {"tokens": 3, "length": 8}, preset=preset).training()
        task = training.task(0.5)
        assert task.loss_at == training.loss_at
        found = NoisyRecall(np.full(3, 1 / 3), length=5, triggers=(0,), loss_at=task.loss_at).positions(tokens)
        assert found[0].tolist() == places


def ranked(losses):
    """The reduced numbers of a value matrix of 256 dimensions with these losses at ranks 2, 12 and 32."""
    names = ("noise", "correct", "accuracy")
    cut = {name: (("seed", "rank"), np.zeros((1, 3))) for name in names} | {"clean_loss": (("seed", "rank"), [losses])}
    full = {f"full_{name}": ("seed", [0.0]) for name in names} | {"full_clean_loss": ("seed", [1.0])}
    return xr.Dataset(cut | full, {"rank": [2, 12, 32]})


def test_the_printed_rank_is_judged_and_not_the_one_that_was_chosen():
    experiment = ValueRank(ranks=(2, 12, 32))
    found = {
        name: {claim.id: claim.verdict for claim in experiment.judge(ranked(losses))}
        for name, losses in {"printed": [2.0, 0.5, 0.9], "chosen": [0.9, 1.5, 0.5]}.items()
    }
    ids = ("printed-rank", "best-rank", "smaller-destroys")
    assert [found["printed"][id] for id in ids] == ["holds"] * 3
    assert [found["chosen"][id] for id in ids] == ["fails"] * 3
    assert found["chosen"]["cut-recalls"] == "holds"


def test_the_gradient_and_the_series_of_the_lemmas_are_computed_in_two_ways():
    left, right = _series(0.5, 3)
    assert left == 0.5 + 2 * 0.25 + 3 * 0.125
    np.testing.assert_allclose(right, left)
    assert 0 < _gradient_error(0) < 1e-5
