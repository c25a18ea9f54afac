"""The best smooth predictor, against polynomials that it must find."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope import graphs
from dynascope.theory.graphs.smooth_fit import quadratic_fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
GROUPS = np.arange(60) % 2


def test_a_polynomial_of_degree_2_is_found_in_every_group():
    y = np.where(GROUPS == 0, 1 + X[:, 0] - 3 * X[:, 0] * X[:, 1], X[:, 1] ** 2)
    train, test = quadratic_fit(np.concatenate([X, X[:, :1] + X[:, 1:]], axis=1), y, np.arange(40), GROUPS)
    assert train < 1e-20
    assert test < 1e-20


def test_what_is_no_such_polynomial_leaves_the_error_of_least_squares():
    y = X[:, 0] ** 3 + RNG.normal(size=60)
    train, _ = quadratic_fit(X[:, :1], y, np.arange(40), np.zeros(60, int))
    residual = y[:40] - np.polyval(np.polyfit(X[:40, 0], y[:40], 2), X[:40, 0])
    assert train == pytest.approx(np.mean(residual**2) / y.var(), rel=1e-9)


def test_the_rows_of_table_2_2_on_the_regular_graph_are_a_smooth_fit():
    graph = graphs.parity_colors(graphs.random_regular(6, 1000, seed=0))
    colors = np.arange(1000) % 2
    y = graphs.walk_counts(graph, colors, [0, 0, 0, 0])
    columns = graphs.powers(graphs.adjacency(graph), graph.features, 3).transpose(1, 0, 2).reshape(1000, -1)
    train, test = quadratic_fit(columns, y, np.arange(300), colors)
    assert train == pytest.approx(1.75e-2, rel=0.03)
    assert test == pytest.approx(2.16e-2, rel=0.03)
    blue = columns[:, [2, 4, 6]]  # the other columns follow from these and the color
    np.testing.assert_allclose(quadratic_fit(blue, y, np.arange(300), colors), (train, test), rtol=1e-6)


def test_malformed_calls_are_refused():
    for change, words in (
        ({"train": [60]}, "train must hold"),
        ({"groups": [0]}, "equally long"),
        ({"train": np.arange(60)}, "train must leave"),
        ({"train": [0]}, "of every group"),
    ):
        with pytest.raises(ValueError, match=words):
            quadratic_fit(**{"features": X, "values": X[:, 0], "train": np.arange(9), "groups": GROUPS} | change)
