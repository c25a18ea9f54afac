"""Experiments on classes: Table 2.1 and A.1 where the data are at hand, and own graphs from files."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dynascope.experiments.graphs import pairs
from dynascope.experiments.graphs.graph_classes import GraphClasses
from dynascope.experiments.graphs.rooted_classes import RootedClasses
from dynascope.experiments.graphs.your_own import YourOwn
from dynascope.graphs import walk_twins
from dynascope.tasks.data import catalog
from dynascope.tasks.data.files import DataNotFoundError
from dynascope.theory.graphs.level_vectors import incomplete_choices


def here(name: str) -> bool:
    try:
        return bool(catalog.find(name))
    except DataNotFoundError:
        return False


def verdicts(experiment):
    measured = experiment.measure(0)
    reduced = experiment.reduce(measured, experiment.predict(measured))
    return {claim.id: claim.verdict for claim in experiment.judge(reduced)}


@pytest.mark.skipif(not here("pubmed") or not here("citeseer"), reason="needs citeseer and pubmed in $DYNASCOPE_DATA")
def test_all_thirty_numbers_of_table_2_1():
    found = verdicts(RootedClasses(repeats=1, nodes=50))
    assert found["table"] == "holds"
    assert found["largest-at-two"] == "holds"


@pytest.mark.skipif(not here("citeseer"), reason="needs citeseer in $DYNASCOPE_DATA")
def test_without_self_loops_citeseer_differs():
    assert verdicts(RootedClasses(citations=("citeseer",), repeats=1, nodes=50, self_loops=False))["table"] == "fails"


@pytest.mark.skipif(not here("tu_IMDBBINARY"), reason="needs tu_IMDBBINARY in $DYNASCOPE_DATA")
def test_the_rows_of_table_a_1():
    found = verdicts(GraphClasses(sets=("tu_IMDBBINARY",), graphs=12))
    assert (found["rows"], found["ground-truth"], found["sizes"]) == ("holds",) * 3


def test_an_own_graph_with_labels(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i} {j}" for i, j in rng.integers(0, 60, (120, 2)).tolist()]
    (tmp_path / "edges.txt").write_text("\n".join(lines))
    (tmp_path / "labels.txt").write_text("\n".join(map(str, rng.integers(0, 3, 60).tolist())))
    own = YourOwn(graph=str(tmp_path / "edges.txt"), labels=str(tmp_path / "labels.txt"), depth=3)
    assert own.data_sets() == (str(tmp_path / "edges.txt"), str(tmp_path / "labels.txt"))
    measured = own.measure(0)
    reduced = own.reduce(measured, None)
    assert set(verdicts(own).values()) == {"holds"}
    assert own.draw(measured, None, reduced)
    assert "mistakes" in reduced


def test_compositions_of_entrywise_maps_and_products_are_equivariant_and_others_are_not(monkeypatch):
    def moved():
        return max(pairs._moved(walk_twins().one, np.random.default_rng(number)) for number in range(20))

    assert moved() < 1e-12
    monkeypatch.setattr(pairs, "MAPS", (np.triu,))
    assert moved() > 0.01


def test_choices_of_lemma_a_8_can_be_completed():
    assert [incomplete_choices(3, 2), incomplete_choices(3, 3), incomplete_choices(4, 2)] == [0, 0, 0]
    for zeros, q in product((1, 2), (3, 4)):  # m = 3, K = 2: one node under the rarer path, two under the other
        assert any(zeros + more == q for more in range(1, 3 * 2))
