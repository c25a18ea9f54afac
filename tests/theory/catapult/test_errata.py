"""Every erratum is refuted by its own counter-example."""

import pytest

from dynascope.theory.catapult import errata

REFUTED = {erratum.id: erratum for erratum in errata.ERRATA}


@pytest.mark.parametrize("id", REFUTED)
def test_the_counter_example_refutes_what_is_printed(id):
    evidence = REFUTED[id].evidence()
    assert evidence.refutes, evidence.numbers


def test_ids_are_distinct():
    assert len(REFUTED) == len(errata.ERRATA)


def test_the_corrected_threshold_is_where_the_kernel_turns():
    numbers = errata.falling_kernel().numbers
    assert numbers["corrected"] == pytest.approx(4.23e-4, rel=2e-3)
    assert numbers["printed"] == pytest.approx(8.1e-5, rel=5e-3)


def test_where_printed_and_right_agree_nothing_is_refuted():
    assert not errata.falling_kernel(label_size=0.25).refutes
    assert not errata.kernel_recursion(curvature=0.0).refutes
    assert not errata.turning_point(width=20.0).refutes, "u m/C^2 tends to 4 in wide networks only"


def test_w_of_networks_that_shrink_faster_falls_faster(monkeypatch):
    """With outputs divided by m^(3/4) in the place of m^(1/2) the curvature is of order m^(-3/2)."""

    class Smaller(errata.GatedNetwork):
        def __init__(self, x, y, width, seed=0):
            super().__init__(x, y, width, seed)
            self.scale = self.scale / width**0.25

    assert errata.start_of_w().numbers["slope in m"] == pytest.approx(-1, abs=0.05)
    monkeypatch.setattr(errata, "GatedNetwork", Smaller)
    assert not errata.start_of_w().refutes
