"""Every erratum is refuted by its own counter-example."""

import numpy as np
import pytest

from dynascope.theory.edge import errata
from dynascope.theory.edge.proof_errata import angle_ratio

REFUTED = {erratum.id: erratum for erratum in errata.ERRATA}


@pytest.mark.parametrize("id", REFUTED)
def test_the_counter_example_refutes_what_is_printed(id):
    evidence = REFUTED[id].evidence()
    assert evidence.refutes, evidence.numbers


def test_the_margins_of_the_strict_counter_example():
    numbers = errata.composition().numbers
    assert numbers["margin of p"] == pytest.approx(0.1)
    assert numbers["margin of q"] == pytest.approx(0.1)
    assert numbers["margin of q(p)"] == pytest.approx(-8.8)


def test_ids_are_distinct():
    assert len(REFUTED) == len(errata.ERRATA)


def test_the_cube_bounds_the_ratio_above_one_only():
    x = np.geomspace(0.1, 10, 20)
    assert np.all(angle_ratio(3.0, x) <= 27)
    assert np.all(angle_ratio(0.1, x) > 1e-3)
