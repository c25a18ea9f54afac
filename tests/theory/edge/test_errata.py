"""The numbers of the counter-examples."""

import jax
import numpy as np
import pytest

from dynascope.theory.edge import errata


def test_the_margins_of_the_strict_counter_example():
    with jax.enable_x64(True):
        found, other = errata.composition(), errata.composition(bend=-0.5)
    assert found["inner_margin"] == found["outer_margin"] == pytest.approx(0.1)
    assert found["composite_margin"] == pytest.approx(-8.8)
    assert other["composite_margin"] > 0


def test_the_cube_bounds_the_ratio_above_one_only():
    x = np.geomspace(0.1, 10, 20)
    assert np.all(errata.angle_ratio(3.0, x) <= 27)
    assert np.all(errata.angle_ratio(0.1, x) > 1e-3)


def test_a_second_eigenvalue_above_one_leaves_some_starts_bounded():
    with jax.enable_x64(True):
        assert errata.bounded_share(1.1, 1.02, starts=100) > 0.1
        assert errata.bounded_share(1.5, 1.4, starts=100) == 0
        assert errata.bounded_share(0.8, 0.7, starts=100) == 1
