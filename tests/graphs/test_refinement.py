"""Classes against plain Python: dictionaries of tuples, without hashing numbers."""

from __future__ import annotations

import functools
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dynascope import graphs as g
from dynascope.graphs.partitions import multiset_classes


def slow_refinement(graph, rounds, start=None):
    colors = [0] * graph.nodes if start is None else list(start)
    for _ in range(rounds):
        keys = [(colors[i], tuple(sorted(colors[j] for j in graph.neighbors(i)))) for i in range(graph.nodes)]
        number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        colors = [number[key] for key in keys]
    return np.array(colors)


def same(one, other):
    return g.refines(one, other) and g.refines(other, one)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make", [lambda s: g.barabasi_albert(120, 2, seed=s), lambda s: g.erdos_renyi(120, 0.03, seed=s)]
)
def test_refinement_is_that_of_a_dictionary(make, seed):
    graph = make(seed)
    found = g.color_refinement(graph, 4)
    for rounds in range(5):
        assert same(found[rounds], slow_refinement(graph, rounds))
    colored = g.parity_colors(graph)
    assert same(g.color_refinement(colored, 3)[-1], slow_refinement(graph, 3, np.arange(120) % 2))


def test_stable_colors_are_those_of_many_rounds():
    graph = g.full_tree(2, 5)
    assert same(g.stable_colors(graph), g.color_refinement(graph, 63)[-1])
    assert g.number_of_classes(g.stable_colors(graph)) == 6


def test_multisets_of_many_columns_are_packed_without_collisions():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 40, 300)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.integers(0, 3, indptr[-1]) * 10**5  # large numbers leave room for few columns
    start = rng.integers(0, 2, 300)
    found = multiset_classes(start, indptr, values)
    keys = [(start[i], tuple(sorted(values[indptr[i] : indptr[i + 1]]))) for i in range(300)]
    number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    assert same(found, np.array([number[key] for key in keys]))


@pytest.mark.parametrize(
    ("make", "colors", "powers"),
    [
        (lambda: g.barabasi_albert(2000, 2, seed=0), [38, 1168, 1996, 1997, 1997], [38, 590, 1914, 1997, 1997]),
        (lambda: g.erdos_renyi(2000, 4 / 2000, seed=0), [12, 935, 1946, 1964, 1964], [12, 177, 1273, 1938, 1963]),
    ],
)
def test_known_counts_on_random_graphs(make, colors, powers):
    graph = make()
    assert [g.number_of_classes(row) for row in g.color_refinement(graph, 5)[1:]] == colors
    assert [g.number_of_classes(row) for row in g.operator_classes(graph, 5)[1:]] == powers


def test_float_classes_forgive_rounding_and_nothing_else():
    values = np.array([1.0, 1.0 + 1e-15, 1.0 + 1e-6, 2.0])
    assert g.classes_of(values).tolist() == [0, 0, 1, 2]
    assert g.classes_of(values, tolerance=1e-5).tolist() == [0, 0, 0, 1]
    huge = np.array([10**30, 10**30 + 1, 10**30], object)
    assert g.classes_of(huge).tolist() == [0, 1, 0]


def exact_means(graph, order):
    """The mean over neighbors, applied again and again to the features, in fractions; a tuple for each node."""
    columns = [[Fraction(int(feature)) for feature in column] for column in graph.features.T]
    yield list(zip(*columns, strict=True))
    for _ in range(order):
        columns = [
            [
                sum((column[j] for j in graph.indices[start:end]), Fraction(0)) / max(end - start, 1)
                for start, end in pairwise(graph.indptr.tolist())
            ]
            for column in columns
        ]
        yield list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    "make", [lambda: g.barabasi_albert(1500, 2, seed=1), lambda: g.erdos_renyi(1500, 3 / 1500, seed=1)]
)
def test_classes_of_an_operator_that_divides_are_those_of_fractions(make):
    graph = g.parity_colors(make())
    found = g.operator_classes(graph, 5, operator=functools.partial(g.normalized_adjacency, alpha=1, beta=0))
    seen = [()] * graph.nodes
    for classes, values in zip(found, exact_means(graph, 5), strict=True):
        seen = [(*before, value) for before, value in zip(seen, values, strict=True)]
        number = {key: k for k, key in enumerate(dict.fromkeys(seen))}
        assert same(classes, np.array([number[key] for key in seen]))


def test_values_that_are_close_are_told_apart_if_rounding_is_smaller():
    """The centers of two stars, with 40,000 and 40,001 leaves, one of feature 1: their means differ by 6e-10."""
    leaves = np.arange(80_001) + 2
    edges = np.stack([np.where(leaves < 40_002, 0, 1), leaves], axis=1)
    features = np.isin(np.arange(80_003), [2, 40_002]).astype(np.int64)
    graph = g.from_edges(edges, features=features[:, None])
    mean = functools.partial(g.normalized_adjacency, alpha=1, beta=0)
    assert len(set(g.operator_classes(graph, 1, operator=mean)[-1][:2])) == 2
    assert len(set(g.operator_classes(graph, 1, operator=mean, tolerance=1e-9)[-1][:2])) == 1


@pytest.mark.parametrize("operator", [g.normalized_adjacency, g.with_self_loops, g.bethe_hessian])
def test_nodes_that_a_symmetry_exchanges_are_in_one_class_whatever_their_order(operator):
    """Copies of one graph with their nodes in other orders: sums are taken in other orders, and rounded differently."""
    rng = np.random.default_rng(0)
    graph = g.barabasi_albert(80, 3, seed=0)
    orders = [rng.permutation(80) for _ in range(6)]
    edges = np.concatenate([80 * copy + order[graph.edges] for copy, order in enumerate(orders)])
    whole = g.from_edges(rng.permutation(edges), nodes=480)
    found = g.operator_classes(whole, 6, operator=operator)[-1].reshape(6, 80)
    alike = np.stack([row[order] for row, order in zip(found, orders, strict=True)])
    assert (alike == alike[0]).all()
    assert g.number_of_classes(found.ravel()) > 40


def test_on_regular_graphs_self_loops_change_no_class():
    graph = g.parity_colors(g.random_regular(6, 200, seed=1))
    for own in (True, False):
        plain = g.operator_classes(graph, 3, own=own)
        looped = g.operator_classes(graph, 3, operator=g.with_self_loops)
        assert same(plain[-1], looped[-1]) == own


def test_family_classes_are_the_joint_classes_of_its_operators():
    graph = g.barabasi_albert(60, 2, seed=0)
    joint = g.family_classes(graph, [g.degree, g.triangles])
    values = np.stack([graph.degrees, g.triangles(graph).sum(axis=1)], axis=1)
    assert same(joint, g.classes_of(values))


def test_graph_codes_are_multisets_of_node_classes():
    graphs = g.batch([g.cycle(6), g.disjoint_cycles([3, 3]), g.complete_bipartite(3, 3), g.cycle(5)])
    codes = g.graph_codes(graphs, g.color_refinement(graphs.joined, 3)[-1])
    assert len({*codes.tolist()}) == 3
    assert codes[0] == codes[1]


def test_isomorphic_graphs_are_found_and_others_told_apart():
    rng = np.random.default_rng(0)
    made = [
        g.cycle(6),
        g.disjoint_cycles([3, 3]),
        *(g.random_regular(3, 12, seed=s) for s in range(6)),
        g.caveman(3, 4),
    ]
    copies = [graph.reorder(rng.permutation(graph.nodes)) for graph in made]
    found = g.isomorphism_classes(g.batch(made + copies))
    np.testing.assert_array_equal(found[: len(made)], found[len(made) :])
    import networkx as nx

    known = [g.to_networkx(graph) for graph in made]
    for i, one in enumerate(known):
        for j, other in enumerate(known):
            assert (found[i] == found[j]) == nx.is_isomorphic(one, other)
    assert not g.isomorphic(g.cycle(4), g.cycle(4).with_features([0, 0, 0, 0]))
    assert not g.isomorphic(*g.walk_twins())


def test_walks_are_counted_as_they_are_enumerated():
    graph = g.erdos_renyi(9, 0.4, seed=2)
    colors = np.arange(9) % 3
    for sequence in ((0, 1, 2), (1, 1, 0, 2)):
        found = g.walk_counts(graph, colors, sequence)
        free = g.walk_counts(graph, colors, sequence, root=False)
        for node in range(9):
            ways = [tuple(colors[list(walk)]) for walk in g.walks(graph, node, len(sequence) - 1)]
            assert found[node] == sum(way == sequence for way in ways)
            longer = [tuple(colors[list(walk)]) for walk in g.walks(graph, node, len(sequence))]
            assert free[node] == sum(way[1:] == sequence for way in longer)
