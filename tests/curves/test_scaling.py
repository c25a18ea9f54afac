"""Exponents of power laws that are known."""

import numpy as np
import pytest

from dynascope.curves import scaling_exponent

WIDTH = np.array([8, 32, 100])


def test_an_exponent_is_that_of_a_power_law():
    assert scaling_exponent(WIDTH, 3.0 * WIDTH**-0.7) == pytest.approx(-0.7)
    assert scaling_exponent((1, 2, 4), [1.0, 4.0, 16.0]) == pytest.approx(2)


def test_several_are_fitted_at_once():
    laws = np.stack([WIDTH**0.5, 2.0 * WIDTH**-1.0], axis=1)
    np.testing.assert_allclose(scaling_exponent(WIDTH, laws), [0.5, -1])
