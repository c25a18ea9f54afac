"""concept.one-layer-theory: training on the population beside the closed forms."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.one_layer_theory import run_population
from dynascope.lab.machine import precision
from dynascope.theory.concept.one_layer import closed_forms


@pytest.fixture(scope="module")
def both() -> tuple[xr.Dataset, xr.Dataset]:
    mu, sigma = np.array([[1.0, 2.0]]), np.array([[1.0, 0.5]])
    z, seeds = np.array([0.3, -1.0, 0.7]), np.arange(2, dtype=np.int32)
    with precision(True, "highest"):
        measured = run_population(3, 1, mu, sigma, z, (0.1, 0.05), seeds)
        return measured, closed_forms(measured)


def test_the_discrete_form_is_exact(both: tuple[xr.Dataset, xr.Dataset]) -> None:
    measured, closed = both
    assert np.abs(measured.output - closed.output).max() < 1e-13


def test_the_flow_follows_the_flow_form(both: tuple[xr.Dataset, xr.Dataset]) -> None:
    measured, closed = both
    assert np.abs(measured.flow_output - closed.flow_output).max() < 1e-7


def test_the_misprints_differ_only_where_they_should(both: tuple[xr.Dataset, xr.Dataset]) -> None:
    _, closed = both
    short = np.abs(closed.printed_sum - closed.flow_output).max(("time", "coordinate", "seed", "signal"))
    assert short.values[0] < 1e-15  # at the test point
    assert short.values[1] > 0.05  # at a generic input
    assert np.abs(closed.printed_rate - closed.flow_output).max() > 0.05
