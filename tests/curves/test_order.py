import numpy as np
import pytest

from dynascope.curves import order


@pytest.mark.parametrize("concepts", [1, 2, 3, 4])
def test_the_number_of_pairs(concepts):
    nodes = order.hierarchy(concepts)
    assert nodes.shape == (2**concepts, concepts)
    assert len(np.unique(nodes, axis=0)) == 2**concepts
    assert len(order.comparable_pairs(nodes)) == 3**concepts - 2**concepts
    assert len(order.cover_pairs(nodes)) == concepts * 2 ** (concepts - 1)


def test_four_concepts_have_65_pairs_and_32_edges():
    nodes = order.hierarchy(4)
    assert len(order.comparable_pairs(nodes)) == 65
    assert len(order.cover_pairs(nodes)) == 32


def test_pairs_point_upward_for_any_order_of_the_nodes():
    nodes = np.random.default_rng(0).permutation(order.hierarchy(3))
    for u, v in order.comparable_pairs(nodes):
        assert np.all(nodes[u] <= nodes[v])
        assert np.any(nodes[u] < nodes[v])


def test_losses_that_add_up_over_concepts_never_violate_the_order():
    nodes = order.hierarchy(4)
    losses = nodes @ np.array([0.1, 0.4, 0.9, 1.6])
    pairs = order.comparable_pairs(nodes)
    assert order.violation_share(losses, pairs) == 0
    assert order.violation_share(-losses, pairs) == 1
    np.testing.assert_allclose(order.level_means(losses, nodes), np.arange(5) * 3.0 / 4)


def test_the_tolerance_forgives_small_violations():
    nodes = order.hierarchy(1)
    pairs = order.comparable_pairs(nodes)
    assert order.violation_share(np.array([0.2, 0.1]), pairs) == 1
    assert order.violation_share(np.array([0.2, 0.1]), pairs, tolerance=0.2) == 0


def test_shares_over_steps_and_seeds():
    nodes = order.hierarchy(2)
    losses = np.random.default_rng(0).random((5, 7, 4))
    pairs = order.cover_pairs(nodes)
    shares, levels = order.violation_share(losses, pairs), order.level_means(losses, nodes)
    assert shares.shape == (5, 7)
    assert levels.shape == (5, 7, 3)
    expected = np.mean([losses[2, 3, u] > losses[2, 3, v] for u, v in pairs])
    assert shares[2, 3] == expected
    np.testing.assert_allclose(levels[2, 3, 1], losses[2, 3, 1:3].mean())


def test_the_share_learned_in_order():
    nodes = order.hierarchy(2)
    pairs = order.cover_pairs(nodes)  # 00 < 01, 00 < 10, 01 < 11, 10 < 11
    assert order.share_in_order([0.0, 3, 5, 8], pairs) == 1
    assert order.share_in_order([0.0, 3, 9, 8], pairs) == 0.75
    assert order.share_in_order([0.0, 3, 3, 3], pairs) == 1
    assert order.share_in_order([0.0, 3, np.nan, 8], pairs) == 0.75
    assert order.share_in_order([0.0, 3, 5, np.nan], pairs) == 1
    assert order.share_in_order([0.0, np.nan, np.nan, np.nan], pairs) == 1
    assert np.isnan(order.share_in_order([np.nan] * 4, pairs))
