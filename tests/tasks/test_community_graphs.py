"""Graphs of the block model, their features, and the scores of unnamed communities."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds
from dynascope.tasks.block_model_features import CHUNK, propagated_features
from dynascope.tasks.community_graphs import adjacency_of, block_model_graphs, overlap, unnamed_cross_entropy


def dense(graphs, number: int) -> np.ndarray:
    return np.asarray(
        adjacency_of(jnp.asarray(graphs.senders[number]), jnp.asarray(graphs.receivers[number]), graphs.nodes)
    )


def test_edges_have_the_rates_of_the_block_model():
    graphs = block_model_graphs(400, 40, 8.0, 2.0, seed=1)
    mean = np.mean([dense(graphs, number) for number in range(400)], axis=0)
    same = graphs.labels[:, None] == graphs.labels
    upper = np.triu(np.ones((40, 40), bool), 1)
    for kind, rate in ((same, 8 / 40), (~same, 2 / 40)):
        pairs = mean[kind & upper]
        assert abs(pairs.mean() - rate) < 4 * np.sqrt(rate / (400 * pairs.size))
        spread = np.sqrt(rate * (1 - rate) / 400)  # of one pair over the graphs
        assert abs(pairs.std() / spread - 1) < 0.2
    assert np.trace(mean) == 0
    np.testing.assert_array_equal(mean, mean.T)


def test_a_draw_is_repeated_by_its_seed_and_rates_of_zero_give_no_edge():
    one, other, third = (block_model_graphs(3, 10, 4.0, 0.0, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.senders, other.senders)
    assert not np.array_equal(one.senders, third.senders)
    assert all(np.all(dense(one, number)[:5, 5:] == 0) for number in range(3))
    assert dense(block_model_graphs(1, 10, 0, 0, seed=0), 0).sum() == 0


@pytest.mark.parametrize("rates", [(5.0, 1.0), (6.0, 0.0), (18.0, 14.0)])
def test_features_are_normalized_powers_of_each_operator(rates: tuple[float, float]):
    graphs = block_model_graphs(CHUNK + 2, 60, *rates, seed=0)
    found = np.asarray(propagated_features(graphs, 12, kappa=9.0), float)
    assert found.shape == (3, CHUNK + 2, 60, 13)
    for number in (0, CHUNK + 1):
        adjacency = dense(graphs, number).astype(float)
        degree = adjacency.sum(1)
        mean = degree.mean()
        root = (degree + 1) ** -0.5
        bethe = (mean - 1) * np.eye(60) - np.sqrt(mean) * adjacency + np.diag(degree)
        looped = root[:, None] * (adjacency + np.eye(60)) * root
        for place, matrix in enumerate((adjacency, 9.0 * np.eye(60) - bethe, looped)):
            x = np.ones(60)
            for power in range(13):
                np.testing.assert_allclose(found[place, number, :, power], x, atol=2e-3)
                x = matrix @ x
                x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def test_features_are_those_of_each_graph_alone():
    graphs = block_model_graphs(4, 50, 5.0, 1.0, seed=2)
    found = propagated_features(graphs, 5, operators=("A1",))
    for number in range(4):
        graph = ds.graphs.from_edges(np.argwhere(dense(graphs, number)), 50)
        expected = ds.graphs.normalized_powers(ds.graphs.with_self_loops(graph), np.ones(50), 5)
        np.testing.assert_allclose(found[0, number], expected.T, atol=2e-4)


def test_a_loss_of_unnamed_communities_is_the_best_over_all_names():
    logits = jax.random.normal(jax.random.key(0), (2, 6, 3))
    labels = jnp.array([[0, 1, 2, 0, 1, 2], [2, 2, 1, 1, 0, 0]])
    logp = np.asarray(jax.nn.log_softmax(logits), float)
    expected = np.mean(
        [
            min(
                -np.mean([logp[g, i, order[labels[g, i]]] for i in range(6)])
                for order in itertools.permutations(range(3))
            )
            for g in range(2)
        ]
    )
    assert unnamed_cross_entropy(logits, labels) == pytest.approx(expected, rel=1e-5)
    assert unnamed_cross_entropy(logits, (labels + 1) % 3) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="labels must be integers from 0 to 2"):
        unnamed_cross_entropy(logits, labels + 1)


def test_the_overlap_ignores_names_and_is_0_for_one_community():
    labels = jnp.array([0, 0, 0, 1, 1, 1])
    assert overlap(labels, labels) == 1
    assert overlap(1 - labels, labels) == 1
    assert overlap(jnp.zeros(6, int), labels) == 0
    assert overlap(jnp.array([0, 0, 1, 1, 1, 1]), labels) == pytest.approx(2 / 3)
    three = jnp.array([0, 0, 1, 1, 2, 2])
    assert overlap((three + 1) % 3, three, communities=3) == pytest.approx(1)
    assert overlap(jnp.zeros(6, int), three, communities=3) == pytest.approx(0, abs=1e-6)


def test_malformed_calls_are_refused():
    with pytest.raises(ValueError, match="nodes must be even"):
        block_model_graphs(1, 5, 1.0, 1.0, seed=0)
    with pytest.raises(ValueError, match="communities must be an integer"):
        overlap(jnp.zeros(2, int), jnp.zeros(2, int), communities=1)
    with pytest.raises(ValueError, match="found must be integers from 0 to 1"):
        overlap(jnp.array([0, 2]), jnp.zeros(2, int))
