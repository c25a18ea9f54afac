"""The report on a graph before training: classes, least errors, confused nodes."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope import graphs as g
from dynascope.tasks.data import citation_graphs

RRG = g.parity_colors(g.random_regular(6, 1000, seed=0))
BLUE = np.arange(1000) % 2


@pytest.mark.parametrize(
    ("edges", "order", "own", "classes", "floor"),
    [
        (2, 2, True, 143, 0.01597),
        (2, 4, True, 993, 2.8e-4),
        (3, 3, True, 769, 0.0040),
        (3, 6, True, 1000, 0.0),
        (2, 2, False, 106, 0.238),
        (3, 3, False, 716, 0.070),
    ],
)
def test_the_floors_of_walk_counts_on_the_regular_graph(edges, order, own, classes, floor):
    y = g.walk_counts(RRG, BLUE, (0,) * (edges + 1))
    found = g.operator_classes(RRG, order, own=own)[-1]
    assert g.number_of_classes(found) == classes
    assert g.irreducible_error(found, y) == pytest.approx(floor, rel=0.02, abs=1e-12)
    assert g.irreducible_error(g.color_refinement(RRG, edges)[-1], y) == 0


def test_the_floors_of_walk_counts_on_cora():
    cora = g.parity_colors(citation_graphs.structure("cora"))
    y = g.walk_counts(cora, np.arange(2708) % 2, (0, 0, 0))
    assert (y.mean(), y.var(), y.max()) == pytest.approx((7.209, 362.07, 247), rel=1e-4)
    for order, own, classes, floor in ((2, True, 2041, 3.3e-4), (2, False, 1906, 0.033), (4, True, 2488, 0.0)):
        found = g.operator_classes(cora, order, own=own)[-1]
        assert g.number_of_classes(found) == classes
        assert g.irreducible_error(found, y) == pytest.approx(floor, rel=0.02, abs=1e-12)


def test_least_errors_are_those_of_the_best_function():
    classes, labels = np.array([0, 0, 0, 1, 1]), np.array([7, 7, 9, 9, 9])
    assert g.irreducible_mistakes(classes, labels) == pytest.approx(1 / 5)
    assert g.irreducible_error(classes, labels.astype(float)) == pytest.approx((8 / 3) / (24 / 5))
    assert g.irreducible_error(np.zeros(5, int), labels) == 1
    assert g.irreducible_error(np.arange(5), np.ones(5)) == 0


def test_the_report_counts_and_names_confused_nodes():
    one, other = g.walk_twins()
    graph = g.batch([one, other]).joined
    labels = np.repeat([0, 1], 14)
    found = g.expressivity(graph, labels, {"A": g.adjacency}, depth=3)
    assert found.table.mistakes.sel(family="A").values.tolist() == [0.5] * 4, "no power of A tells the twins apart"
    assert float(found.table.mistakes.sel(family="message passing", depth=3)) < 0.5
    mixed = found.confused_classes("A", 3)
    assert sum(map(len, mixed)) == 28
    assert [len(group) for group in mixed] == sorted(map(len, mixed), reverse=True)
    assert "message passing" in str(found)
    with pytest.raises(ValueError, match="family must be one of"):
        found.confused_classes("B", 1)


def test_what_is_odd_about_a_graph_is_told_in_one_line():
    graph = g.from_edges([[0, 1], [0, 1], [1, 1], [1, 2]])
    first = str(g.expressivity(graph, np.array([0, -1, 1]))).splitlines()[0]
    told = ["1 self-loops kept", "1 repeated edges collapsed", "1 nodes without a label left out of the errors"]
    assert first.split("; ") == ["3 nodes, 3 edges", *told]
    assert "error" in g.expressivity(graph, np.array([0.5, np.nan, 1.0])).table
    assert "mistakes" not in g.expressivity(graph).table


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([0, 1], "labels must hold one label for each of the 3 nodes; got 2"),
        ([-1, -1, -1], "labels must hold a label for at least one node"),
        ([0.0, np.inf, 1.0], "labels must be finite"),
        (["a", "b", "c"], "labels must be an array of real numbers"),
    ],
)
def test_bad_labels_are_one_line(labels, told):
    with pytest.raises((ValueError, TypeError), match=told) as caught:
        g.expressivity(g.cycle(3), np.array(labels))
    assert "\n" not in str(caught.value)
