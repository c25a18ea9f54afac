"""The best truncation of a table, and the factor by which it raises a ratio."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.lm import best_truncation, rank_of_token, ratio_gain


def table(targets, associations):
    """One layer, two matrices, two ranks, two prompts that are alike."""
    words = np.stack([np.asarray(targets, float), np.asarray(associations, float)], -1)
    values = np.repeat(words.reshape(1, 2, 2, 1, 2), 2, axis=3)
    full = np.tile([0.2, 0.4], (2, 1))
    dims = ("layer", "matrix", "rank", "prompt", "word")
    coords = {"layer": [7], "matrix": ["up", "out"], "rank": [2, 5]}
    return xr.Dataset({"probability": (dims, values), "full": (dims[-2:], full)}, coords)


def test_the_best_has_the_largest_ratio_among_those_that_keep_the_target():
    found = best_truncation(table([0.01, 0.3, 0.25, 0.2], [0.0001, 0.2, 0.1, 0.4]))
    assert found == {"layer": 7, "matrix": "out", "rank": 2}


def test_where_all_lower_the_target_the_largest_ratio_is_taken():
    found = best_truncation(table([0.01, 0.1, 0.1, 0.1], [0.0001, 0.2, 0.1, 0.4]))
    assert found == {"layer": 7, "matrix": "up", "rank": 2}


def test_the_gain_is_a_ratio_of_ratios_of_means():
    full, cut = np.array([[0.1, 0.5], [0.3, 0.3]]), np.array([[0.2, 0.1], [0.4, 0.3]])
    value, low, high = ratio_gain(full, cut)
    assert value == pytest.approx((0.3 / 0.2) / (0.2 / 0.4))
    assert (low, high) == pytest.approx((4 / 3, 10), rel=1e-6), "of two prompts, either alone is drawn often enough"


def test_the_interval_holds_the_truth_as_often_as_it_says():
    draw, inside = np.random.default_rng(0), []
    for _ in range(200):
        full, cut = draw.uniform(0.1, 1, (2, 80, 2))
        cut[:, 0] *= 2
        _, low, high = ratio_gain(full, cut, draws=300)
        inside.append(low < 2 < high)
    assert 0.9 < np.mean(inside) < 0.99


def test_probabilities_must_be_alike(as_a_user):
    with pytest.raises(ValueError, match="full and cut must be"):
        ratio_gain(np.ones((3, 2)), np.ones((2, 2)))


def test_the_place_of_a_token_counts_from_one():
    found = rank_of_token(np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], np.float32), 1)
    np.testing.assert_array_equal(found, [2, 2])
    np.testing.assert_array_equal(rank_of_token(np.array([[0.5, 0.3, 0.2]]), np.array([0])), [1])
