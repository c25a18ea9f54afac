"""The threshold of the block model, and what guessing gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dynascope.theory.graphs.block_model import chance_overlap, negative_eigenvalues, signal_to_noise


def test_the_signal_of_the_five_ranks():
    rates = (4.5, 4.73, 5.0, 5.5, 6.0)
    found = [signal_to_noise(rate, 6 - rate) for rate in rates]
    np.testing.assert_allclose(found, [0.750, 0.998, 1.333, 2.083, 3.000], atol=5e-4)
    assert [negative_eigenvalues(rate, 6 - rate) for rate in rates] == [1, 1, 2, 2, 2]


def test_the_signal_is_that_of_the_eigenvalues_of_the_mean_matrix():
    a, b = 7.0, 2.0
    mean, split = (a + b) / 2, (a - b) / 2  # of the expected adjacency matrix
    assert signal_to_noise(a, b) == pytest.approx(split**2 / mean)


@pytest.mark.parametrize("nodes", [2, 6, 10])
def test_chance_is_the_expectation_over_all_guesses(nodes: int):
    exact = sum(math.comb(nodes, hits) / 2**nodes * abs(2 * hits / nodes - 1) for hits in range(nodes + 1))
    assert chance_overlap(nodes) == pytest.approx(exact, rel=1e-12)
    assert chance_overlap(250) == pytest.approx(math.sqrt(2 / (math.pi * 250)), rel=2e-3)
