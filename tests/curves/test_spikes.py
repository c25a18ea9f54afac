"""Spikes of curves made by hand."""

import numpy as np
import pytest

from dynascope.curves import Rise, first_spike, largest_rise, spikes, troughs

INF, NAN = np.inf, np.nan


def at(mask):
    return np.flatnonzero(mask).tolist()


def test_by_default_a_spike_is_a_step_that_multiplies_the_curve():
    curve = np.array([1.0, 2.0, 1.5, 1.6, 4.0])
    assert at(spikes(curve, 1.3)) == [1, 4]
    assert at(spikes(curve, 2.0)) == [4]  # more than the factor, not just as much


def test_with_windows_a_spike_is_the_highest_of_its_neighbors():
    curve = np.array([1.0, 0.5, 0.9, 1.4, 2.0, 1.2, 0.4, 0.4])
    assert at(spikes(curve, 2.0, before=3, after=2)) == [4]
    assert at(spikes(curve, 1.3)) == [2, 3, 4]
    assert troughs(curve, 3)[4] == 1
    assert not spikes(curve, 4.0, before=3, after=2).any()  # 2.0 is exactly four times 0.5


@pytest.mark.parametrize(
    ("curve", "found"),
    [
        ([3.0, 2.0, 1.0], []),
        ([1.0, 1.0, 1.0], []),
        ([2.0], []),
        ([9.0, 1.0, 1.0], []),  # a first value rises from nothing
        ([1.0, 1.0, 9.0], [2]),  # a last one is a peak, as far as is known
        ([1.0, NAN, 9.0, 1.0], [2]),
        ([NAN, NAN, NAN], []),
        ([1.0, 2.0, INF, NAN], [2]),
    ],
)
def test_ends_and_values_that_are_no_numbers(curve, found):
    assert at(spikes(np.array(curve), 1.5, before=2, after=2)) == found


def test_curves_are_read_side_by_side():
    curves = np.array([[1.0, 3.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0]])
    assert spikes(curves, 2.0).tolist() == [[False, True, False, False], [False, False, False, True]]
    rise = first_spike(curves, 2.0, within=1)
    assert (rise.trough.tolist(), rise.peak.tolist()) == ([0, 0], [1, 3])
    assert rise.recovery(curves).tolist() == [2, 3]


def test_the_first_spike_rises_from_the_lowest_value_so_far():
    curve = np.array([1.0, 0.5, 1.0, 4.0, 0.4, 9.0, 0.2])
    rise = first_spike(curve, 1.5, within=5)
    assert (rise.trough, rise.peak) == (1, 5)  # of the two in the window, the higher one
    assert rise.height(curve) == 18
    rise = first_spike(curve, 1.5, within=2)
    assert (rise.trough, rise.peak, rise.recovery(curve)) == (1, 3, 4)
    assert rise.share(np.array([0.4, 0.1, 0.4, 3.25, 0.1, 8.0, 0.1]), curve) == pytest.approx(0.9)


def test_a_curve_that_only_falls_has_none():
    curve = np.array([1.0, 0.5, 0.6])
    rise = first_spike(curve, 1.5, within=5)
    assert (rise.trough, rise.peak) == (0, 0)
    assert (rise.height(curve), rise.share(curve, curve), rise.recovery(curve)) == (1, 0, 2)


def test_a_curve_that_diverges_has_one_that_never_ends():
    curve = np.array([1.0, 9.0, INF, NAN])
    rise = first_spike(curve, 1.5, within=5)
    assert (rise.peak, rise.recovery(curve)) == (2, 3)
    assert np.isinf(rise.height(curve))


def test_the_largest_rise_is_the_largest_multiple_of_what_came_before():
    curve = np.array([1.0, 0.5, 0.9, 0.4, 0.6, NAN, 0.1])
    rise = largest_rise(curve)
    assert (rise.trough, rise.peak) == (1, 2)
    assert rise.height(curve) == 1.8
    assert largest_rise(curve[:2]).height(curve[:2]) == 1


def test_several_rises_of_one_curve_are_measured_at_once():
    curve, part = np.array([1.0, 3.0, 1.0, 5.0]), np.array([0.0, 1.0, 0.0, 4.0])
    rise = Rise(np.array([0, 2]), np.array([1, 3]))
    assert rise.height(curve).tolist() == [3, 5]
    assert rise.share(part, curve).tolist() == [0.5, 1]
