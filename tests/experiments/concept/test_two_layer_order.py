"""concept.two-layer-order: how irregular a path is, and how slow its end."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.two_layer_order import TwoLayerOrder, excess_travel


def path(values: np.ndarray) -> xr.Dataset:
    """Both concepts of one run follow `values`, with targets 1 and 2."""
    output = np.stack([values, 2 * values], axis=-1)[None, None]
    return xr.Dataset(
        {"output": (("signal", "seed", "step", "concept"), output), "mu": (("signal", "concept"), [[1.0, 2.0]])},
        {"step": np.arange(len(values))},
    )


def test_a_monotone_path_travels_no_further_than_it_must() -> None:
    assert excess_travel(path(np.linspace(0, 1, 20))).item() == pytest.approx(0)


def test_an_overshoot_is_traveled_twice_by_each_concept() -> None:
    assert excess_travel(path(np.array([0.0, 1.2, 1.0]))).item() == pytest.approx(2 * 0.4)


def test_a_path_that_relaxes_is_slow_at_its_end() -> None:
    relaxing = path(1 - np.exp(-0.05 * np.arange(201)))
    trace = relaxing.assign(test_loss=((relaxing.output - relaxing.mu) ** 2).sum("concept") / 2)
    runs = xr.concat(
        [trace] * 3, xr.Variable("network", ["one layer", "linear", "relu"]), data_vars=["output", "test_loss"]
    )
    reduced = TwoLayerOrder(first_signals=(1.0,), first_spreads=(0.05,)).reduce(runs.isel(signal=[0, 0]), None)
    np.testing.assert_allclose(reduced.late_speed, np.mean(np.exp(-0.05 * np.arange(180, 200))))
    np.testing.assert_allclose(reduced.r_squared, 1)


def test_one_family_of_settings_varies_the_signal_the_other_the_diversity() -> None:
    some = TwoLayerOrder(first_signals=(0.5, 3.0), first_spreads=(2.0,))
    assert some.signals() == [((0.5, 2.0), (0.05, 0.05)), ((3.0, 2.0), (0.05, 0.05)), ((1.0, 2.0), (2.0, 0.05))]
