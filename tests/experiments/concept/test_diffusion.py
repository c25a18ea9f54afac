"""The readers of painted paths, on paths whose order, rise and prediction are known; and the settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept import painted_paths as paths
from dynascope.experiments.concept.diffusion import PaintedConcepts

STEPS = np.arange(1, 41) * 10


def painted(color: np.ndarray, size: np.ndarray, seeds: int = 4, noise: float = 0.0) -> xr.Dataset:
    """Paths of the new class with these coordinates over steps; the training classes are learned from the 6th on."""
    rng = np.random.default_rng(0)
    values = np.zeros((1, seeds, len(STEPS), 4, 2)) + np.array([[0, 0], [0, 1], [1, 0], [0, 0]])
    values[:, :, :5, :3] = 0.5
    values[..., 3, 0], values[..., 3, 1] = color, size
    values += noise * rng.normal(size=values.shape) * (np.arange(4) == 3)[:, None]
    formed = np.ones(values.shape[:-1])
    formed[:, :, :3] = 0
    dims = ("separation", "seed", "step", "prompt", "concept")
    coords = {
        "separation": [0.2],
        "seed": np.arange(seeds),
        "step": STEPS,
        "prompt": ["00", "01", "10", "11"],
        "concept": ["color", "size"],
    }
    return xr.Dataset({"concepts": (dims, values), "concepts_formed": (dims[:-1], formed)}, coords)


def built(**fields: Any) -> Any:
    return PaintedConcepts(**fields)


def saturating(rate: float) -> np.ndarray:
    return 1 - np.exp(-rate * STEPS)


def test_the_lead_has_the_sign_of_the_faster_concept_and_counts_formed_pictures_only():
    slow, fast = saturating(0.01), saturating(0.05)
    path = paths.new_path(painted(slow, fast))
    assert path.isnull().sum("step").values.max() == 3
    assert float(paths.lead(path).min()) == pytest.approx(np.mean((fast - slow)[3:]))
    assert float(paths.lead(paths.new_path(painted(fast, slow))).max()) < 0


def test_a_network_that_favors_blue_whatever_it_is_asked_for_has_gained_nothing():
    biased = painted(np.full(len(STEPS), 0.9), saturating(0.05))
    biased["concepts"][..., 1, 0] = 0.9  # at the prompt for red and small
    gains = paths.gains(biased).isel(separation=0, seed=0)
    assert np.allclose(gains.sel(concept="color")[5:], 0)
    assert np.allclose(gains.sel(concept="size")[5:], saturating(0.05)[5:])
    assert float(paths.lead(paths.gains(biased)).min()) > 0


def test_learning_steps_are_those_of_the_smoothed_path():
    step = np.where(STEPS >= 200, 1.0, 0.0)
    found = paths.learning_steps(paths.new_path(painted(step, saturating(0.05))))
    assert abs(float(found.sel(concept="color").isel(seed=0, separation=0)) - 200) <= 20
    never = paths.learning_steps(paths.new_path(painted(0.5 + 0 * step, step)))
    assert float(never.sel(concept="color").isel(seed=0, separation=0)) == 400


def test_a_rise_counts_once_the_training_classes_are_learned():
    up = np.interp(STEPS, [10, 100, 200, 400], [0.0, 0.9, 0.3, 1.0])
    found, error = paths.rise(painted(up, np.ones_like(up), noise=0.01))
    assert float(found[0]) == pytest.approx((0.7**2 - 0.1**2) / 2, abs=0.02)
    assert float(error[0]) < 0.02
    before = np.where(STEPS < 60, 1.0, saturating(0.03))
    assert float(paths.rise(painted(before, np.ones_like(up)))[0][0]) < 1e-9


def test_the_speed_of_an_exponential_path_falls_exponentially():
    moved = paths.speed(painted(saturating(0.02), np.ones(len(STEPS)))).isel(separation=0)
    slope = np.polyfit(moved.step[3:], np.log(moved.values[3:]), 1)[0]
    assert slope == pytest.approx(-0.02, rel=1e-3)


def test_the_predicted_lead_is_the_area_of_the_predicted_path():
    signal = xr.DataArray([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], dims=("separation", "concept"))
    found = paths.predicted_lead(signal, 0.1 * xr.ones_like(signal))
    x, y = found.path.transpose("concept", "separation", "point").values
    area = np.trapezoid(y, x, axis=-1) - 0.5
    assert np.allclose(found.lead, area, atol=4e-3)
    assert np.allclose(found.strength[0], [0.01 + 1 / 3, 0.01 + 4 / 3])
    t = 0.7
    z = 1 - np.exp(-found.strength[0].values * t)
    assert np.interp(z[0], x[0], y[0]) == pytest.approx(z[1], abs=1e-2)


def test_the_flip_is_interpolated():
    assert paths.flip(np.array([0.2, 0.4]), np.array([0.1, -0.3])) == pytest.approx(0.25)
    assert np.isnan(paths.flip(np.array([0.2, 0.4]), np.array([0.1, 0.3])))


def test_the_rank_correlation_is_over_all_trainings():
    falling = xr.DataArray([[3.0, 4.0], [1.0, 2.0]], {"separation": [0.2, 0.7]}, ("separation", "seed"))
    assert paths.rank_correlation(falling) == pytest.approx(-np.sqrt(0.8))
    assert paths.rank_correlation(xr.zeros_like(falling)) == 0


def test_recordings_are_even_in_the_square_root_of_the_step():
    steps = built(steps=3000, checkpoints=40).recorded_steps()
    assert (len(steps), steps[-1]) == (40, 3000)
    assert np.allclose(np.diff(np.sqrt(steps)), np.sqrt(3000) / 40, atol=0.2)


def test_seeds_that_are_run_apart_are_those_of_the_whole():
    whole = built(seeds=3).members(0)["seed"]
    apart = [built(seeds=1, first_seed=first).members(0)["seed"][0] for first in range(3)]
    assert whole.tolist() == apart


def test_the_full_setting_on_a_cpu_is_a_warning_with_its_cost():
    with pytest.warns(UserWarning, match="concept.diffusion takes about 1,000 hours on two CPU cores"):
        built()._warn_without_an_accelerator()


def test_a_separation_outside_its_range_is_named():
    with pytest.raises(ValueError, match="separations must be from 0 to 1"):
        built(separations=(0.2, 1.5))


def test_coordinates_are_those_of_the_pixels_or_of_the_classifier():
    seen, read = (painted(saturating(one), saturating(other)) for one, other in ((0.01, 0.05), (0.05, 0.01)))
    measured = seen.assign(concepts_classified=read.concepts, classifier_accuracy=("concept", np.ones(2)))
    predicted = xr.Dataset({"lead": (("space", "separation"), np.zeros((2, 1)))}, {"space": ["pixels", "told"]})
    by_pixels, by_classifier = (
        built(coordinates=name).reduce(measured, predicted) for name in ("pixels", "classifier")
    )
    assert float(by_pixels.lead.min()) > 0 > float(by_classifier.lead.max())
    assert float(by_pixels.classifier_apart.item()) == pytest.approx(float(by_classifier.classifier_apart.item()))
    assert float(by_pixels.classifier_apart.item()) > 0.01


def test_coordinates_of_a_classifier_need_one():
    with pytest.raises(ValueError, match="coordinates=classifier needs classifier_steps of at least 1; got 0"):
        built(coordinates="classifier", classifier_steps=0)


def test_an_exponential_slow_down_is_told_from_a_power_of_time_above_the_resolution():
    step = np.arange(10.0, 500.0, 10.0)
    exponential, power = np.exp(-step / 60), 1 / step
    floor = 1e-3 * (1 + 0.5 * np.sin(step))
    better, worse = paths.slow_down(step, np.maximum(exponential, floor), 2e-3)
    assert better > 0.999 > worse
    worse, better = paths.slow_down(step, power, 2e-3)
    assert better > 0.999 > worse
    assert np.isnan(paths.slow_down(step, floor, 2e-3)).all()  # nothing but chance


def test_the_resolution_of_a_speed_falls_with_the_pictures():
    assert paths.resolution(np.array([0, 10, 20]), 100) == pytest.approx(0.01)
