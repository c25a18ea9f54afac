"""Plateaus, jumps and switches of curves made by hand."""

from itertools import pairwise

import numpy as np
import pytest

from dynascope.curves.plateaus import jumps, plateaus, slopes, support_size, switches

TIMES = np.linspace(0, 10, 2001)
AT, LEVELS = (2.0, 3.5, 7.0), (1.0, 0.6, 0.5, 0.05)


def stairs(times=TIMES, width=0.02):
    rises = (1 + np.tanh((times[:, None] - np.array(AT)) / (2 * width))) / 2
    return LEVELS[0] + rises @ np.diff(LEVELS)


def test_the_jumps_of_a_staircase_are_where_they_were_put():
    found = jumps(stairs(), TIMES)
    np.testing.assert_allclose([jump.half for jump in found], AT, atol=0.005)
    np.testing.assert_allclose([(jump.before, jump.after) for jump in found], list(pairwise(LEVELS)), atol=1e-3)
    for jump, at in zip(found, AT, strict=True):
        assert abs(jump.time - at) <= jump.uncertainty
        assert jump.half_uncertainty == pytest.approx(0.005)


@pytest.mark.parametrize("spacing", [0.01, 0.05, 0.25])
def test_the_uncertainty_covers_the_truth_and_grows_with_the_recording_interval(spacing):
    times = np.arange(0, 10, spacing) + 0.3 * spacing
    found = jumps(stairs(times, width=1e-3), times)
    assert len(found) == 3
    for jump, at in zip(found, AT, strict=True):
        assert abs(jump.time - at) <= jump.uncertainty
        assert spacing <= jump.uncertainty < 4 * spacing
        assert abs(jump.half - at) <= jump.half_uncertainty


def test_noise_is_averaged_by_a_window():
    noisy = stairs() + 0.002 * np.random.default_rng(0).normal(size=len(TIMES))
    assert len(jumps(noisy, TIMES)) != 3
    found = jumps(noisy, TIMES, window=0.5, shortest=0.2, smallest=0.02)
    assert len(found) == 3
    for jump, at in zip(found, AT, strict=True):
        assert abs(jump.time - at) <= jump.uncertainty
        assert abs(jump.half - at) < 0.05


def test_a_smooth_decay_has_no_plateau_before_its_end():
    found = plateaus(np.exp(-TIMES / 2), TIMES)
    assert len(found) == 1
    np.testing.assert_allclose(found[0].start, 2 * np.log(0.5 / 0.02), atol=0.02)
    assert jumps(np.exp(-TIMES / 2), TIMES) == []


def test_the_slope_of_a_line_is_its_slope_on_any_grid():
    times = np.sort(np.random.default_rng(0).uniform(size=40))
    for window in (0.0, 0.3):
        np.testing.assert_allclose(slopes(3 * times - 1, times, window), 3.0, rtol=1e-6)


@pytest.mark.parametrize("level", [0.0, -3.0, 1e6])
def test_jumps_do_not_depend_on_where_a_curve_starts(level):
    rising = level + np.floor(TIMES / 2.6)
    assert [jump.after - jump.before for jump in jumps(rising, TIMES)] == [1, 1, 1]


def test_a_late_clock_finds_the_same_jumps():
    here, late = jumps(stairs(), TIMES), jumps(stairs(), TIMES + 1e6)
    np.testing.assert_allclose([jump.half for jump in late], [jump.half + 1e6 for jump in here], atol=1e-6, rtol=0)


def test_values_that_are_not_finite_are_left_out():
    gaps = stairs()
    gaps[[0, 500]] = np.nan, np.inf
    np.testing.assert_allclose([jump.half for jump in jumps(gaps, TIMES)], AT, atol=0.005)
    with pytest.raises(ValueError, match="at least 3 finite values; got 2 of 4"):
        jumps([1.0, np.nan, np.nan, 1.0], np.arange(4.0))


def test_flatness_is_a_share_of_the_size_given():
    drift = 1 - 0.01 * TIMES
    assert plateaus(drift, TIMES) == []
    assert len(plateaus(drift, TIMES, size=1.0)) == 1
    assert len(plateaus(np.full(5, 0.1), np.arange(5.0))) == 1
    with pytest.raises(ValueError, match="size must be a finite number, above 0; got 0"):
        jumps(drift, TIMES, size=0.0)


def test_switches_are_interpolated_in_the_logarithm():
    times = np.linspace(0, 10, 41)
    entries = np.stack([1e-6 * np.exp(2 * times), -1e-6 * np.exp(2 * np.minimum(times, 10 - times)), 0 * times], axis=1)
    on = np.log(1e3) / 2
    stays, leaves, never = switches(entries, times, threshold=1e-3)
    assert stays == [pytest.approx((on, 0.25, np.nan, np.nan, 1), nan_ok=True)]
    assert leaves == [pytest.approx((on, 0.25, 10 - on, 0.25, -1))]
    assert never == []
    assert support_size(entries[[0, 20, 40]]).tolist() == [0, 2, 1]


def test_an_entry_that_comes_back_has_two_stretches_each_with_its_sign():
    entry = np.array([1.0, 1.0, 0.0, 0.0, -1.0, 1.0])
    (found,) = switches(entry[:, None], np.arange(6.0))
    assert [stretch.sign for stretch in found] == [1, -1, 1]
    assert found[0][:2] == (0, 0)
    assert 1 <= found[0].off <= 2 < 3 <= found[1].on <= 4 <= found[1].off <= found[2].on <= 5
    assert np.isnan(found[2].off)


def test_curves_that_do_not_fit_get_one_line():
    with pytest.raises(ValueError, match="times must increase, one for each of 3 steps"):
        jumps([1.0, 2.0, 3.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="times must increase"):
        jumps([1.0, 2.0, 3.0], [0.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="times must increase, one for each of 3 steps"):
        switches(np.zeros((3, 2)), [0.0, 1.0])
