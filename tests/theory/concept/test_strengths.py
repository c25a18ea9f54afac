"""Strengths of concepts, and where two of them are equal."""

import numpy as np
import pytest

from dynascope.theory.concept.one_layer import second_moment, spread_of_equal_strengths, strengths


def test_strengths_are_the_second_moment_without_its_padding() -> None:
    mu, sigma = (1.0, 2.0), (0.5, 0.05)
    for origin in (False, True):
        np.testing.assert_allclose(strengths(mu, sigma, origin), second_moment(mu, sigma, 5, origin)[:2], rtol=1e-6)


def test_settings_are_leading_axes() -> None:
    many = strengths([(1.0, 2.0), (2.0, 4.0)], [(0.1, 0.1), (0.2, 0.2)])
    np.testing.assert_allclose(many, [[0.51, 2.01], [2.04, 8.04]])


@pytest.mark.parametrize("origin", [False, True])
def test_two_concepts_are_equally_strong_at_that_spread(origin: bool) -> None:
    spread = spread_of_equal_strengths((1.0, 2.0), 0.05, origin)
    first, second = strengths((1.0, 2.0), (spread, 0.05), origin)
    assert first == pytest.approx(second)
