"""How near Gaussian clusters come to the test point."""

import numpy as np
import pytest
from scipy.stats import ncx2

from dynascope.theory.concept.nearest_point import nearest_point


def test_the_chance_of_a_disc_is_the_noncentral_chi_square() -> None:
    law = nearest_point((1.0, 2.0), (0.3, 0.3), radius=0.5, samples=5000)
    chances = [ncx2.cdf((0.5 / 0.3) ** 2, 2, (offset / 0.3) ** 2) for offset in (1.0, 2.0)]
    assert float(law.inside) == pytest.approx(5000 * sum(chances), rel=1e-6)


def test_the_smallest_distance_of_simulated_data_lies_in_its_range() -> None:
    random = np.random.default_rng(0)
    low, high = nearest_point((1.0, 2.0), (0.05, 0.05), radius=0.5, samples=500).nearest.values
    points = 0.05 * random.standard_normal((200, 500, 2)) + [1.0, 0.0]
    other = 0.05 * random.standard_normal((200, 500, 2)) + [0.0, 2.0]
    distance = np.linalg.norm(np.concatenate([points, other], axis=1) - [1.0, 2.0], axis=-1).min(axis=1)
    assert np.mean((distance < low) | (distance > high)) < 0.04


def test_an_independent_program_found_points_where_the_theory_has_them() -> None:
    law = nearest_point((1.0, 2.0), (0.05, 0.05), radius=0.5, samples=5000)
    low, high = law.nearest.values
    assert all(low < found < high for found in (0.844, 0.799))  # at d=2 and at d=64
    rejected = nearest_point((1.0, 2.0), (0.3, 0.3), radius=0.5, samples=5000).inside
    assert abs(float(rejected) - 160) < 2.6 * 160**0.5
