"""concept.diversity-order: where the order flips, by the theory and on a piecewise linear curve."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.diversity_order import DiversityOrder, zero_of


def test_the_strengths_are_equal_at_the_predicted_flip() -> None:
    flip = DiversityOrder().flip()
    assert flip == pytest.approx(np.sqrt(1.5025))
    at_flip = DiversityOrder(first_spreads=(flip,))
    first, second = at_flip.strengths(at_flip.signals())[0]
    assert first == pytest.approx(second)


def test_a_cluster_at_the_origin_moves_the_flip() -> None:
    code = DiversityOrder(**DiversityOrder.presets["code"])
    assert code.flip() ** 2 == pytest.approx(1.05, abs=1e-3)


def areas(spreads: list[float], values: list[float]) -> xr.DataArray:
    """A signed area for each spread, of one seed."""
    return xr.DataArray([values], {"seed": [0], "signal": spreads}, dims=("seed", "signal"))


def test_the_zero_of_a_piecewise_linear_curve_is_interpolated() -> None:
    assert zero_of(areas([2.0, 0.0, 1.0], [-3.0, 2.0, 1.0])) == pytest.approx(1.25)


def test_a_curve_without_a_change_of_sign_has_no_zero() -> None:
    assert np.isnan(zero_of(areas([0.0, 1.0], [2.0, 1.0])))
