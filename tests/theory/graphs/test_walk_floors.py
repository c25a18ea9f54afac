"""Floors of walk counts against trees drawn at random, against classes on a large graph, and the least-squares curve
against fits."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope import graphs
from dynascope.theory.graphs.walk_floors import least_squares_error, walk_floor

GRAPH = graphs.parity_colors(graphs.random_regular(3, 40_000, seed=2))
COLORS = np.arange(GRAPH.nodes) % 2


@pytest.mark.parametrize("edges", [1, 2, 3])
def test_floors_are_those_of_the_classes_on_a_large_graph(edges: int):
    y = graphs.walk_counts(GRAPH, COLORS, [0] * (edges + 1))
    for own in (True, False):
        classes = graphs.operator_classes(GRAPH, edges, own=own)
        for order in range(edges + 1):
            found = graphs.irreducible_error(classes[order], y)
            assert walk_floor(3, edges, order, own=own) == pytest.approx(found, abs=0.006, rel=0.02), (own, order)


def test_a_floor_is_the_variance_within_classes_of_trees_drawn_at_random():
    rng = np.random.default_rng(0)
    degree, trees = 4, 200_000
    first = rng.binomial(degree, 0.5, trees)
    behind = rng.binomial((degree - 1) * first, 0.5)
    second = behind + rng.binomial((degree - 1) * (degree - first), 0.5)
    blue = rng.integers(0, 2, trees)
    y = blue * (first + behind)
    classes = (blue * 5 + first) * 13 + second
    assert walk_floor(degree, 2, 2) == pytest.approx(graphs.irreducible_error(classes, y), rel=0.02)
    assert walk_floor(degree, 2, 1) == pytest.approx(graphs.irreducible_error(blue * 5 + first, y), rel=0.02)
    hidden = graphs.irreducible_error(first * 20 + degree * blue + second, y)
    assert walk_floor(degree, 2, 2, own=False) == pytest.approx(hidden, rel=0.02)


def test_powers_beyond_the_walk_change_nothing_and_a_walk_of_one_edge_has_no_floor():
    assert walk_floor(6, 2, 7) == walk_floor(6, 2, 2)
    assert walk_floor(6, 1, 1) == 0
    assert walk_floor(6, 2, 0) > walk_floor(6, 2, 1) > walk_floor(6, 2, 2) > 0.02


def test_least_squares_has_the_predicted_error_on_new_examples():
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(3000):
        x = np.column_stack([np.ones(20), rng.normal(size=(20, 4))])
        weights, *_ = np.linalg.lstsq(x, rng.normal(size=20), rcond=None)
        errors.append(1 + weights @ weights)  # a new input has mean square 1 in every column
    assert least_squares_error(1.0, 4, 20) == pytest.approx(np.mean(errors), rel=0.02)


def test_malformed_calls_are_refused():
    with pytest.raises(ValueError, match="order must be at most edges"):
        walk_floor(6, 2, 3, own=False)
    with pytest.raises(ValueError, match="examples must exceed"):
        least_squares_error(1.0, 4, 6)
