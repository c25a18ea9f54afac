"""The noise logit stays below its fixed point up to the largest rate, for noise up to one half."""

import numpy as np
import pytest

from dynascope.theory.recall.noise_logit import largest_rate, noise_fixed_point, noise_logits, noise_probability


def highest(alpha, factor):
    return noise_logits(1000, alpha, factor * float(largest_rate(alpha)), 400).max() - noise_fixed_point(1000, alpha)


@pytest.mark.parametrize("alpha", [0.2, 0.3, 0.5])
def test_up_to_the_largest_rate_it_never_crosses(alpha):
    assert highest(alpha, 0.99) <= 1e-12
    assert highest(alpha, 1.05) > 1e-6


@pytest.mark.parametrize("alpha", [0.6, 0.8])
def test_above_one_half_the_bound_fails(alpha):
    assert highest(alpha, 0.99) > 1e-3


def test_it_converges_to_the_noise_level():
    logits = noise_logits(1000, 0.3, 2.0, 200)
    assert logits[1] == pytest.approx(2.0 * (0.3 - 1 / 1001))
    assert logits[-1] == pytest.approx(noise_fixed_point(1000, 0.3))
    assert noise_probability(logits[-1], 1000) == pytest.approx(0.3)
    wild = noise_logits(1000, 0.3, 2.1 * float(largest_rate(0.3)), 400)
    assert np.abs(np.diff(wild[-3:])).min() > 0.1
