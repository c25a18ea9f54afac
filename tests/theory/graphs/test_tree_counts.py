"""Counts of trees, bounds and constructions against tables and brute force."""

from __future__ import annotations

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import graphs as g
from dynascope.theory.graphs import class_bounds, degree_codes, errata, exact_gin, level_vectors, tree_counts, walk_gap

COUNTS = {
    2: ([6, 42, 1806, 3263442], [6, 30, 270, 4590], [6, 20, 72, 272], [6, 18, 54]),
    3: ([8, 240, 4665760], [8, 80, 2240, 183680], [8, 112, 26488, 1966767712], [8, 56, 728]),
    4: ([10, 1430, 349931979540], [10, 170, 11050, 2839850], [10, 660, 283444920], [10, 130, 4810]),
}


@pytest.mark.parametrize("m", COUNTS)
def test_the_table_of_tree_counts(m):
    functions = (
        tree_counts.full_trees,
        tree_counts.operator_classes_of_trees,
        tree_counts.aggregation_trees,
        tree_counts.operator_classes_of_balls,
    )
    for count, wanted in zip(functions, COUNTS[m], strict=True):
        assert [count(m, depth) for depth in range(1, len(wanted) + 1)] == wanted
    assert tree_counts.full_trees(3, 4) == pytest.approx(3.39e19, rel=2e-3)
    assert tree_counts.full_trees(4, 4) == pytest.approx(1.25e45, rel=2e-3)
    assert tree_counts.aggregation_trees(4, 4) == pytest.approx(3.95e25, rel=2e-3)


def test_trees_that_repeat_features_are_more_from_depth_three_on():
    assert [tree_counts.trees_repeating_features(3, k) for k in (1, 2, 3)] == [8, 112, 268088]
    assert tree_counts.trees_repeating_features(3, 4) == pytest.approx(4.24e15, rel=2e-3)
    assert tree_counts.trees_repeating_features(4, 3) == 10200809720


def test_the_bounds_and_where_they_cross():
    found = [class_bounds.log10_operators(3, k) for k in range(1, 9)]
    assert [round(value, 1) for value in found] == [3.5, 13.8, 40.9, 104.6, 241.0, 505.9, 975.0, 1741.3]
    assert class_bounds.log10_message_passing(3, 18) == pytest.approx(78913, abs=1)
    assert class_bounds.log10_operators(3, 18) == pytest.approx(57420, abs=1)
    assert class_bounds.overtaking_depth(3) == 18
    assert class_bounds.overtaking_depth(3, 2, True) == 16


@pytest.mark.parametrize(
    ("m", "depth", "trees", "vectors", "admissible", "fewest", "proper"),
    [(3, 2, 240, 80, 16, 3, 6), (3, 3, 4665760, 2240, 128, 701, 2044), (4, 2, 1430, 170, 60, 3, 7)],
)
def test_level_vectors(m, depth, trees, vectors, admissible, fewest, proper):
    counts = level_vectors.trees_by_levels(m, depth)
    assert (int(counts.sum()), int((counts > 0).sum())) == (trees, vectors)
    found = level_vectors.admissible_vectors(m, depth)
    assert (len(found), min(int(counts[one]) for one in found)) == (admissible, fewest)
    assert min(int(counts[one]) for one in level_vectors.admissible_vectors(m, depth, proper=True)) == proper
    assert fewest >= level_vectors.fewest_trees(depth)


def test_level_vectors_are_those_of_all_labelings():
    tree, found = g.full_tree(2, 2), {}
    trees = [tree.with_features(np.array(bits)) for bits in product((0, 1), repeat=7)]
    joined = g.batch(trees)
    roots = g.color_refinement(joined.joined, 2)[-1][joined.offsets[:-1]]
    for bits, root in zip(product((0, 1), repeat=7), roots.tolist(), strict=True):
        vector = (1 - bits[0], 2 - sum(bits[1:3]), 4 - sum(bits[3:]))
        found.setdefault(vector, set()).add(root)
    counts = level_vectors.trees_by_levels(2, 2)
    assert {vector: len(those) for vector, those in found.items()} == {
        tuple(map(int, vector)): int(counts[vector]) for vector in zip(*np.nonzero(counts), strict=True)
    }


@pytest.mark.parametrize(("m", "k"), [(3, 2), (3, 3), (4, 2), (2, 2)])
@pytest.mark.parametrize("bit", [0, 1])
def test_confused_trees_differ_in_walks_alone(m, k, bit):
    sequence, totals = (bit,) * k, walk_gap.level_totals(m, k)
    assert len(totals) == (m - 2) * m ** (k - 1) + 1
    for zeros in totals:
        trees = walk_gap.confused_trees(m, sequence, zeros)
        values = [walk_gap.walks_from_root(tree, sequence) for tree in trees]
        assert values == list(range(values[0], values[0] + m ** (k - 1) + 1))
        joined = g.batch(trees)
        roots = joined.offsets[:-1]
        assert g.number_of_classes(g.operator_classes(joined.joined, k)[-1][roots]) == 1
        assert g.number_of_classes(g.color_refinement(joined.joined, k)[-1][roots]) == len(values)


def test_degree_codes_and_switches():
    assert [round(degree_codes.injective_above(n), 3) for n in (3, 4, 5, 6)] == [2.71, 4.819, 7.213, 9.827]
    for n, exponent, count in ((3, 3, 20), (4, 5, 70), (5, 8, 252)):
        sums = degree_codes.power_sums(n, exponent)
        assert len(sums) == len(set(sums)) == count
    graph = g.erdos_renyi(20, 0.5, seed=1)
    switch = next(iter(degree_codes.switches(graph)))
    other = degree_codes.switch_edges(graph, switch)
    pair = g.batch([graph, other])
    first, second = g.graph_codes(pair, degree_codes.degree_codes(pair.joined))
    assert first == second
    assert len(graph.edges) == len(other.edges)
    assert not g.isomorphic(graph, other)
    assert degree_codes.top_degree_code(graph) == degree_codes.top_degree_code(other)


@pytest.mark.parametrize("edges", [2, 3])
def test_weights_set_by_hand_count_walks_in_the_library_s_network_too(edges):
    import equinox as eqx
    import jax

    from dynascope.models import GIN, FeaturedGraph

    graph = g.random_regular(6, 60, seed=0)
    blue = np.arange(60) % 2
    wanted = g.walk_counts(graph, blue, (0,) * (edges + 1))
    exact = exact_gin.exact_gin(6, edges)
    x = (blue == 0)[:, None].astype(np.float32)
    np.testing.assert_array_equal(exact_gin.apply_gin(exact, graph, x), wanted)

    model = GIN(1, edges, 1, key=jax.random.key(0), width=4)
    parts = [*exact.layers, exact.head]
    blocks = _padded(parts, 4)
    perceptrons = [*model.layers, model.head]
    for number, (mlp, block) in enumerate(zip(perceptrons, blocks, strict=True)):
        perceptrons[number] = _with_weights(mlp, block)
    model = eqx.tree_at(
        lambda m: (m.layers, m.head, m.epsilons),
        model,
        (perceptrons[:-1], perceptrons[-1], jnp.asarray(exact.epsilons, float)),
    )
    seen = FeaturedGraph(graph.with_features(x))
    np.testing.assert_array_equal(np.asarray(model(seen))[:, 0], wanted)


def _padded(parts, width):
    """The weights, with as many channels as the network has; the head reads the channels where they now stand."""
    made = []
    for number, part in enumerate(parts[:-1]):
        inputs = 1 if number == 0 else width
        w1, w2 = np.zeros((width, inputs)), np.zeros((width, width))
        w1[: part.w1.shape[0], : part.w1.shape[1]] = part.w1
        w2[: part.w2.shape[0], : part.w2.shape[1]] = part.w2
        b1, b2 = np.zeros(width), np.zeros(width)
        b1[: len(part.b1)], b2[: len(part.b2)] = part.b1, part.b2
        made.append((w1, b1, w2, b2))
    head = parts[-1]
    w1, b1, w2 = np.zeros((width, 1 + width * len(made))), np.zeros(width), np.zeros((1, width))
    columns, at = [0], 1
    for number, part in enumerate(parts[:-1]):
        columns += [at + width * number + channel for channel in range(part.w2.shape[0])]
    w1[0, columns], b1[0], w2[0, 0] = head.w1[0], head.b1[0], head.w2[0, 0]
    return [*made, (w1, b1, w2, np.zeros(1))]


def _with_weights(mlp, block):
    import equinox as eqx

    w1, b1, w2, b2 = (jnp.asarray(each, float) for each in block)
    return eqx.tree_at(lambda m: (m.weights, m.biases), mlp, (type(mlp.weights)([w1, w2]), type(mlp.biases)([b1, b2])))


def test_the_errata_have_their_numbers():
    assert errata.power_graph_example() == {"remainder": 0, "printed": 0, "triangles": 1, "two_steps": 1}
    assert errata.equivariant_operators() == {"changed": 8, "root_one": 1, "root_other": 0}
    assert errata.aggregation_construction() == {"constructed": 256, "aggregation": 64, "claimed": 128}
    assert errata.printed_class_bound() == {"classes": 13, "printed": 5}
    formula = errata.printed_walk_formula()
    assert formula["right"] < 1e-14 < 1 < formula["printed"]
    assert errata.printed_neighbor() == {
        "printed_sum": 2,
        "printed_walks": 4,
        "right_sum": np.inf,
        "right_walks": np.inf,
    }
    assert errata.level_vector_lemma() == {"base_case": 0, "binary_vectors": 0, "inner_degree": 4}
