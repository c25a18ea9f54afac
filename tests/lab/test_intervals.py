"""Intervals of shares and means cover what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.stats import binom

from dynascope.lab.claims import wilson_interval
from dynascope.lab.sweeps.summary import numbers
from dynascope.lm.search import ratio_gain

RNG = np.random.default_rng
DRAWS = 1000
ENOUGH = 930
"""95 % of 1,000, less three standard deviations."""


@pytest.mark.parametrize("trials", [3, 10, 30, 100])
def test_the_interval_of_a_share_covers_as_its_docstring_says(trials):
    """Exactly, by the binomial distribution: 95 % on average over all shares, 82 % for the worst share near 0 or 1."""
    shares = np.linspace(0.0005, 0.9995, 1000)
    ends = np.array([wilson_interval(count, trials) for count in range(trials + 1)])
    holds = (ends[:, 0] <= shares[:, None]) & (shares[:, None] <= ends[:, 1])
    covered = np.sum(holds * binom.pmf(np.arange(trials + 1), trials, shares[:, None]), axis=1)
    assert covered.mean() >= 0.95 - 0.005
    assert covered.min() >= 0.82
    inside = (shares > 0.2) & (shares < 0.8)
    assert trials < 10 or covered[inside].min() >= 0.91


def sweep(values: np.ndarray) -> xr.Dataset:
    """The data of a sweep, each draw a point of its grid, with one number for each seed."""
    points = {"rate": np.arange(len(values)), "claim": ["a"]}
    holds = (("rate", "claim"), np.ones((len(values), 1)))
    return xr.Dataset({"share": holds, "found": (("rate", "seed"), values)}, points)


@pytest.mark.parametrize("seeds", [3, 10])
def test_the_interval_of_a_mean_over_seeds_covers(seeds):
    (found,) = (
        number for number in numbers(sweep(2 + RNG(0).standard_normal((DRAWS, seeds)))) if number.name == "found"
    )
    assert np.sum((found.low <= 2) & (found.high >= 2)) >= ENOUGH


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_interval_of_a_share_over_seeds_covers(share):
    outcomes = (RNG(0).random((DRAWS, 20)) < share).astype(float)
    (found,) = (number for number in numbers(sweep(outcomes)) if number.name == "found")
    assert np.sum((found.low <= share) & (found.high >= share)) >= ENOUGH


def test_the_interval_of_a_ratio_of_probabilities_covers():
    """Means 0.2 and 0.1 of one model, 0.3 and 0.1 of the other: a gain of 1.5."""
    inside = 0
    for seed in range(DRAWS):
        drawn = RNG(seed).gamma(4.0, 0.25, (2, 100, 2)) * 0.1
        full, cut = drawn * np.array([[2.0, 1.0], [3.0, 1.0]])[:, None]
        _, low, high = ratio_gain(full, cut, seed=seed)
        inside += low <= 1.5 <= high
    assert inside >= ENOUGH
