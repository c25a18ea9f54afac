"""Learnability: which columns a family sees, which nodes are trained on, and a run in small."""

from __future__ import annotations

import numpy as np
import pytest

import dynascope as ds
from dynascope import graphs
from dynascope.experiments.graphs.learnability import MESSAGES, Learnability, OperatorLearner, alternating
from dynascope.lab.machine import precision

SMALL = Learnability(nodes=40, degree=3, counts=(4, 8), orders=(0, 2), steps=20, batch=4, seeds=2, fits=2)


def test_a_family_sees_its_powers_alone():
    graph = graphs.parity_colors(graphs.random_regular(3, 40, seed=0))
    columns = SMALL.features(graph, 2, True)
    assert (np.abs(SMALL.features(graph, 0, True)).max(0) > 0).tolist() == [True] * 2 + [False] * 4
    assert (np.abs(SMALL.features(graph, 2, False)).max(0) > 0).tolist() == [False] * 2 + [True] * 4
    np.testing.assert_array_equal(SMALL.features(graph, 2, False)[:, 2:], columns[:, 2:])


def test_every_prefix_of_the_order_has_as_many_blue_nodes_as_red_ones():
    order = alternating(40, 3)
    assert sorted(order.tolist()) == list(range(40))
    assert np.all(order % 2 == np.arange(40) % 2)


def test_held_out_labels_do_not_reach_the_training():
    """A member trained on four nodes learns the same weights whatever the labels of the others are."""
    x = np.random.default_rng(0).normal(size=(1, 40, 3)).astype(np.float32)
    over = {
        "model": {"features": x},
        "count": np.array([4], np.int32),
        "seed": {"seed": np.array([1], np.int32), "order": np.arange(40, dtype=np.int32)[None]},
    }
    member = OperatorLearner(8, 4, 5, 10, 0.01)
    models = []
    for outside in (0.0, 9.0):
        y = np.where(np.arange(40) < 4, np.arange(40), outside).astype(np.float32)
        trained = ds.ensemble(member, over, fixed={"y": y}, steps=10, record=[10])
        models.append(trained.member(model=0, count=4, seed=0).model.network.weights[0])
    np.testing.assert_array_equal(models[0], models[1])


def test_floors_are_predicted_for_every_family():
    with precision(False, "highest"):
        measured = SMALL.measure(0)
    floor = SMALL.predict(measured).floor
    assert measured.error.dims == ("model", "count", "seed")
    assert floor.model.values.tolist() == ["K = 0", "K = 2", "K = 2, without X", MESSAGES]
    assert float(floor[-1]) == 0
    assert np.all(np.isfinite(measured.error))


def test_sizes_that_leave_no_node_held_out_are_refused():
    with pytest.raises(ValueError, match="counts must be below nodes"):
        Learnability(nodes=40, counts=(64,))
    with pytest.raises(ValueError, match="batch must be at most"):
        Learnability(nodes=400, counts=(16,))
    with pytest.raises(ValueError, match="orders must contain edges"):
        Learnability(orders=(0, 1))
