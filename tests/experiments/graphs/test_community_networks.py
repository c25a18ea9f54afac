"""What finds communities in the experiments, at a tiny size."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynascope.experiments.graphs.community_detection import CommunityDetection
from dynascope.experiments.graphs.community_networks import spectrum, stacked
from dynascope.lab.fields import build
from dynascope.tasks.community_graphs import block_model_graphs

SIZES = {"nodes": 20, "graphs": 30, "test_graphs": 8, "order": 4, "layers": 3, "width": 4, "spectral_width": 4}
TINY: Any = build(CommunityDetection, SIZES)


def test_networks_learn_from_one_graph_at_a_time_and_are_scored_on_others():
    heads, networks = TINY.heads(5, 0), TINY.networks([(5, 0), (1, 3)])
    assert heads.shape == (3, 8)
    assert networks.shape == (2, 8)
    for found in (heads, networks):
        assert np.all((found >= 0) & (found <= 1))


def test_training_and_test_graphs_are_different_draws():
    one, other = TINY.sampled(3, 0, 8, 0), TINY.sampled(3, 0, 8, 1)
    assert not np.array_equal(one.senders, other.senders)
    np.testing.assert_array_equal(one.senders, TINY.sampled(3, 0, 8, 0).senders)


def test_eigenvectors_of_two_separate_cliques_are_the_communities():
    draw = block_model_graphs(2, 12, 12.0, 0.0, seed=0)
    found = spectrum(draw, 40.0)
    assert found["negative"] == [2.0, 2.0]  # H(√5) = 4 - √5 A + 5 on each clique: 9 - 5√5 < 0 twice
    np.testing.assert_allclose(found["smallest"], 9 - 5 * np.sqrt(5))
    assert found["centered_overlap"] == [1.0, 1.0]


def test_stacked_draws_are_as_long_as_the_longest():
    draws = [block_model_graphs(2, 10, rate, 0.0, seed=0) for rate in (2.0, 8.0)]
    senders, receivers = stacked(draws)
    assert senders.shape == receivers.shape == (2, 2, draws[1].senders.shape[1])
    assert np.all(senders[0, :, draws[0].senders.shape[1] :] == 10)
