"""Every erratum is refuted by its own counter-example."""

import pytest

from dynascope.theory import catapult_errata

REFUTED = {erratum.id: erratum for erratum in catapult_errata.ERRATA}


@pytest.mark.parametrize("id", REFUTED)
def test_the_counter_example_refutes_what_is_printed(id):
    evidence = REFUTED[id].evidence()
    assert evidence.refutes, evidence.numbers


def test_ids_are_distinct():
    assert len(REFUTED) == len(catapult_errata.ERRATA)


def test_the_corrected_threshold_is_where_the_kernel_turns():
    numbers = catapult_errata.falling_kernel().numbers
    assert numbers["corrected"] == pytest.approx(4.23e-4, rel=2e-3)
    assert numbers["printed"] == pytest.approx(8.1e-5, rel=5e-3)


def test_a_statement_that_holds_is_not_refuted():
    """With nu = 1 the printed bound on Gaussian series and the right one agree."""
    assert not catapult_errata.gaussian_series(scale=1.0, shift=5.0, t=2.0).refutes
