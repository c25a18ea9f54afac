"""Differences and correlations, against SciPy's own."""

import numpy as np
from scipy import stats

from dynascope.curves import correlation, paired_difference

ONE, OTHER = np.array([1.0, 2.0, 4.0, 4.5, 7.0]), np.array([0.5, 1.5, 2.0, 4.0, 5.0])


def test_the_interval_of_a_difference_is_students():
    found = paired_difference(ONE, OTHER)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(ONE - OTHER), scale=stats.sem(ONE - OTHER))
    np.testing.assert_allclose([found["mean"], *found["interval"]], [np.mean(ONE - OTHER), low, high])


def test_seeds_without_a_number_are_left_out():
    found = paired_difference([*ONE, np.nan], [*OTHER, 0.0])
    assert (found["of"], found["mean"]) == (5, np.mean(ONE - OTHER))
    assert paired_difference([np.nan], [1.0])["interval"] == [-np.inf, np.inf]


def test_the_interval_of_a_correlation_is_fishers():
    found, exact = correlation(ONE, -OTHER), stats.pearsonr(ONE, -OTHER)
    np.testing.assert_allclose(found["pearson"], exact.statistic)
    interval = exact.confidence_interval(0.95)
    np.testing.assert_allclose(found["interval"], [interval.low, interval.high], rtol=1e-4)
    np.testing.assert_allclose(found["spearman"], stats.spearmanr(ONE, -OTHER).statistic)


def test_of_a_constant_nothing_is_known():
    assert correlation([1, 1, 1, 1], [1, 2, 3, 4])["interval"] == [-1.0, 1.0]
