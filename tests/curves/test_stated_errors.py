"""What readers of noisy curves state is true over many draws: intervals cover, and noise is not counted."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope import curves

RNG = np.random.default_rng
TIMES = np.linspace(0, 10, 1000)


@pytest.mark.parametrize("noise", [1e-8, 1e-6, 1e-5, 1e-4])
def test_a_terminal_rate_is_within_three_standard_errors_of_the_truth(noise):
    decay = np.exp(-TIMES)[:, None] * np.array([1.0, 2.0])
    outputs = 1 - decay + noise * RNG(0).standard_normal((1000, 1000, 2))
    rate = curves.terminal_rate(outputs, TIMES, np.sum((1 - outputs) ** 2, axis=-1))
    within = np.abs(rate.slope + 1) <= 3 * rate.standard_error
    assert within.mean() >= 0.99
    assert np.median(rate.standard_error) < 0.03


def test_a_rate_that_drowns_in_noise_is_not_stated():
    outputs = np.exp(-TIMES)[:, None] + 0.01 * RNG(0).standard_normal((1000, 1))
    rate = curves.terminal_rate(outputs, TIMES, outputs[:, 0] ** 2 + 1e-9)
    assert np.isnan(rate.slope)


def test_the_standard_error_of_a_line_that_does_not_fit_is_large():
    outputs = np.stack([1 - np.exp(-TIMES), 2 - 2 * np.exp(-1.5 * TIMES)], axis=-1)
    loss = np.sum((np.array([1.0, 2.0]) - outputs) ** 2, axis=-1)
    rate = curves.terminal_rate(outputs, TIMES, loss)
    assert abs(rate.slope + 1) <= 3 * rate.standard_error


@pytest.mark.parametrize("noise", [0.001, 0.005, 0.02])
def test_a_falling_curve_with_noise_descends_once(noise):
    loss = np.exp(-TIMES) + noise * RNG(0).standard_normal((1000, 1000))
    assert (curves.descents(loss) == 1).mean() >= 0.99


def test_a_bump_is_found_in_noise():
    loss = np.exp(-TIMES) + 0.3 * np.exp(-((TIMES - 5) ** 2)) + 0.005 * RNG(0).standard_normal((200, 1000))
    assert (curves.descents(loss) == 2).mean() >= 0.99


def test_noise_can_be_told_to_the_reader():
    loss = np.exp(-TIMES[::50]) + 0.02 * RNG(0).standard_normal((200, 20))  # too short for an estimate
    assert (curves.descents(loss) > 1).mean() > 0.5
    assert (curves.descents(loss, noise=0.02) == 1).all()
    with pytest.raises(ValueError, match="noise must be"):
        curves.descents(loss, noise=-1.0)


def test_a_smooth_curve_has_no_noise():
    waves = 2 + np.sin(2 * np.pi * np.arange(200) / 20)
    assert curves.descents(waves) == 10


@pytest.mark.parametrize(("truth", "points"), [(0.0, 10), (0.5, 8), (-0.9, 30)])
def test_the_interval_of_a_correlation_covers(truth, points):
    draws = RNG(0).standard_normal((1000, 2, points))
    inside = 0
    for one, other in draws:
        low, high = curves.correlation(one, truth * one + np.sqrt(1 - truth**2) * other)["interval"]
        inside += low <= truth <= high
    assert inside >= 930  # 95 % of 1,000, less three standard deviations


def test_the_correlation_on_a_line_is_inside_its_interval_and_of_three_points_unknown():
    found = curves.correlation(np.arange(9.0), 2 * np.arange(9.0))
    assert found["interval"][0] <= found["pearson"] <= found["interval"][1]
    few = curves.correlation([1, 2, 3], [1, 2, 4])
    assert np.isnan(few["pearson"])
    assert np.isnan(few["spearman"])
    assert few["interval"] == [-1, 1]


@pytest.mark.parametrize("seeds", [3, 10])
def test_the_interval_of_a_paired_difference_covers(seeds):
    before, change = RNG(0).standard_normal((2, 1000, seeds))
    inside = 0
    for one, other in zip(before, change + 0.3, strict=True):
        low, high = curves.paired_difference(one + other, one)["interval"]
        inside += low <= 0.3 <= high
    assert inside >= 930


@pytest.mark.parametrize("reader", ["largest_rise", "first_spike", "spikes"])
def test_ratios_of_a_negative_curve_are_refused(reader):
    more = {"largest_rise": {}, "first_spike": {"factor": 2.0, "within": 3}, "spikes": {"factor": 2.0}}[reader]
    with pytest.raises(ValueError, match="curve must not be negative"):
        getattr(curves, reader)(np.array([-1.0, -3.0, -2.0]), **more)


@pytest.mark.parametrize("rank", ["stable_rank", "effective_rank", "count_above", "energy_rank"])
def test_the_order_of_singular_values_does_not_matter(rank):
    values = np.array([3.0, 2.0, 0.5, 0.1])
    reader = getattr(curves, rank)
    np.testing.assert_allclose(reader(values[::-1]), reader(values))
    with pytest.raises(ValueError, match="values must be singular values"):
        reader(-values)
