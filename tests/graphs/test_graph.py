"""Graphs as arrays: edges in, neighbors out, and nothing changes afterwards."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from dynascope import graphs as g


def test_neighbors_are_sorted_and_an_edge_stands_in_both_rows():
    graph = g.from_edges([[2, 0], [0, 1], [1, 2], [3, 2]])
    assert [graph.neighbors(node).tolist() for node in range(4)] == [[1, 2], [0, 2], [0, 1, 3], [2]]
    assert graph.degrees.tolist() == [2, 2, 3, 1]
    assert graph.edges.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]


def test_a_self_loop_is_one_neighbor_and_repetitions_are_counted():
    graph = g.from_edges([[0, 1], [1, 0], [0, 1], [1, 1]])
    assert graph.neighbors(1).tolist() == [0, 1]
    assert (graph.loops, graph.collapsed) == (1, 1)
    assert g.from_edges([[0, 1], [1, 0]]).collapsed == 0, "both directions of one edge are no repetition"


def test_the_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        g.cycle(3).indices[0] = 2


@pytest.mark.parametrize(
    ("edges", "nodes", "told"),
    [
        ([[0, -1]], None, "edges must hold node numbers from 0 on; got -1"),
        ([[0, 5]], 3, "below nodes = 3; got 5"),
        ([[0.5, 1]], None, "integers"),
        ([0, 1], None, "shape"),
        ([[0, 2**40]], None, "nodes must be given"),
    ],
)
def test_what_is_no_graph_is_refused(edges, nodes, told):
    with pytest.raises((ValueError, TypeError), match=told):
        g.from_edges(np.array(edges), nodes)


def test_features_and_labels_belong_to_nodes():
    graph = g.cycle(4).with_features(np.arange(4)).with_labels([0, 1, 0, 1])
    assert graph.features is not None
    assert graph.features.shape == (4, 1)
    with pytest.raises(ValueError, match=r"labels must have shape \(nodes,\) with nodes = 4"):
        graph.with_labels([0, 1])


def test_reordering_keeps_the_graph():
    graph = g.barabasi_albert(30, 2, seed=0).with_features(np.arange(30))
    order = np.random.default_rng(0).permutation(30)
    moved = graph.reorder(order)
    assert moved.features is not None
    for node in range(30):
        assert sorted(order[moved.neighbors(node)]) == graph.neighbors(int(order[node])).tolist()
    np.testing.assert_array_equal(moved.features[:, 0], order)
    with pytest.raises(ValueError, match="order must hold every node"):
        graph.reorder([0, 0, 1])


def test_a_batch_gives_back_its_graphs():
    parts = [
        g.cycle(4).with_labels([1, 2, 3, 4]),
        g.full_tree(2, 2).with_labels(np.zeros(7)),
        g.caveman(2, 4).with_labels(np.ones(8)),
    ]
    both = g.batch([part.with_labels(np.asarray(part.labels, float)) for part in parts])
    assert both.sizes.tolist() == [4, 7, 8]
    assert np.bincount(both.graph_of_node).tolist() == [4, 7, 8]
    for one, other in zip(both, parts, strict=True):
        np.testing.assert_array_equal(one.edges, other.edges)
        np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(both[-1].indices, both[2].indices)


def test_networkx_and_scipy_and_back():
    known = nx.karate_club_graph()
    graph = g.from_networkx(known)
    np.testing.assert_array_equal(g.to_scipy(graph).toarray(), nx.to_numpy_array(known, weight=None))
    assert sorted(map(sorted, g.to_networkx(graph).edges)) == sorted(map(sorted, known.edges))
    np.testing.assert_array_equal(g.from_scipy(sp.triu(g.to_scipy(graph))).indices, graph.indices)
    named = nx.Graph([("a", "b")])
    nx.set_node_attributes(named, {"a": 3, "b": 5}, "y")
    labels = g.from_networkx(named, labels="y").labels
    assert labels is not None
    assert labels.tolist() == [3, 5]
    with pytest.raises(ValueError, match="must be an attribute of every node"):
        g.from_networkx(named, labels="z")


def test_generators_are_networkx_with_its_seeds():
    assert g.to_networkx(g.barabasi_albert(50, 2, seed=3)).edges == nx.barabasi_albert_graph(50, 2, seed=3).edges
    regular = g.random_regular(6, 100, seed=0)
    assert set(map(frozenset, regular.edges.tolist())) == set(
        map(frozenset, nx.random_regular_graph(6, 100, seed=0).edges)
    )


@pytest.mark.parametrize("edges", ["bernoulli", "fixed-count"])
def test_the_block_model_has_its_average_degrees(edges):
    graphs = g.block_model_batch(40, 100, 6, 2, seed=1, edges=edges)
    label = graphs.joined.labels
    assert label is not None
    same = label[graphs.joined.rows] == label[graphs.joined.indices]
    assert len(graphs.joined.indices) / 4000 == pytest.approx(4, abs=0.25)
    assert same.mean() == pytest.approx(0.75, abs=0.02)


def test_trees_and_balls_have_their_degrees():
    tree, around = g.full_tree(3, 2), g.ball(3, 2)
    assert sorted(tree.degrees.tolist()) == [1] * 9 + [3] + [4] * 3
    assert sorted(around.degrees.tolist()) == [1] * 6 + [3] * 4
    assert g.random_graph(1000, 3000, seed=0).loops == 0
