"""The maps of concept learning: which concept is first, which weight says so, and what counts as a detour."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.experiments.concept.detour_map import DetourMap, memorizes
from dynascope.experiments.concept.order_map import OrderMap, best_weight, cell_seeds, first_of, half_times


def test_a_concept_is_learned_at_half_of_its_target():
    output = np.array([[0.0, 0.0], [0.4, 0.2], [0.6, 2.0]])
    trace = xr.Dataset({"output": (("step", "concept"), output), "mu": ("concept", [1.0, 2.0])}, {"step": [0, 10, 20]})
    times = half_times(trace)
    np.testing.assert_allclose(times, [15, 10 + 10 * 0.8 / 1.8])
    assert float(first_of(times)) == 1


def test_the_first_concept_is_the_only_one_that_is_learned_and_none_if_neither_is():
    times = xr.DataArray([[3.0, np.nan], [np.nan, 3.0], [np.nan, np.nan], [2.0, 2.0]], dims=("run", "concept"))
    np.testing.assert_array_equal(first_of(times), [0, 1, np.nan, np.nan])


def test_the_best_weight_is_that_of_the_rule_by_which_runs_are_ordered():
    rng = np.random.default_rng(0)
    mu, sigma = rng.uniform(0.5, 3, (600, 2)), rng.choice([0.05, 1.0], (600, 2))
    for weight in (0.25, 0.5, 1.0):
        strength = sigma**2 + weight * mu**2
        second = rng.random((600, 2)) < 1 / (1 + (strength[:, :1] / strength[:, 1:]) ** 12)
        assert abs(np.log(best_weight(second.astype(float), mu, sigma) / weight)) < 0.15


def test_a_cell_has_the_same_starts_in_every_map():
    cell = ((1.0, 2.0), (0.05, 1.0))
    np.testing.assert_array_equal(cell_seeds(3, cell, 4)[:2], cell_seeds(3, cell, 4)[:2])
    assert not np.intersect1d(cell_seeds(3, cell, 4), cell_seeds(4, cell, 4)).size


def test_a_point_of_the_order_map_runs_alone_as_in_the_map():
    small = {"spreads": ((1.0, 0.05),), "depths": (1,), "seeds": 2, "steps": 60, "samples": 64}
    one, two = (
        OrderMap(**small, first_signals=signals, second_signals=(2.0,)).measure(0) for signals in ((1.0,), (0.6, 1.0))
    )
    np.testing.assert_allclose(one.output.isel(signal=0), two.output.isel(signal=1), rtol=1e-5, atol=1e-6)


def test_a_loss_that_falls_rises_and_falls_is_a_detour_if_it_ends_low():
    t = np.linspace(0, 1, 60)
    detour = np.interp(t, [0, 0.2, 0.5, 1], [1, 0.2, 0.5, 0])
    runs = np.stack([detour, np.maximum(detour, 0.2), np.exp(-5 * t)])
    trace = xr.Dataset({"test_loss": (("ratio", "size", "seed", "step"), runs[None, None])})
    np.testing.assert_array_equal(memorizes(trace).values[0, 0], [1, np.nan, 0])


def test_a_point_of_the_detour_map_runs_alone_as_in_the_map():
    small = {"depths": (2,), "dims": (2,), "seeds": 2, "steps": 60, "sizes": (0.01,)}
    one, two = (DetourMap(**small, ratios=ratios).measure(0)["2/2"] for ratios in ((4.0,), (2.0, 4.0)))
    np.testing.assert_allclose(one.test_loss.isel(ratio=0), two.test_loss.isel(ratio=1), rtol=1e-5)
