"""How learning slows at its end."""

import numpy as np
import pytest

from dynascope.theory.concept.terminal_rates import settled_step, terminal_slopes


def test_gradient_descent_slows_a_little_faster_than_the_flow() -> None:
    slopes = terminal_slopes(np.array([[0.5025, 2.0025]]), {"one layer": 0.1 * 2 / 64, "symmetric model": 0.04})
    assert slopes.flow.sel(model="one layer").item() == pytest.approx(-1.5703e-3, rel=1e-4)
    assert slopes.flow.sel(model="symmetric model").item() == pytest.approx(-0.0201)
    assert slopes.descent.sel(model="symmetric model").item() == pytest.approx(-0.0203, rel=1e-3)


def test_at_the_settled_step_the_faster_concept_has_that_share_of_the_speed() -> None:
    a, mu, step_size = np.array([0.5, 2.0]), np.array([1.0, 2.0]), 0.003
    slow, fast = a * mu * np.exp(-a * step_size * settled_step(a, mu, step_size, share=0.05))
    assert fast / slow == pytest.approx(0.05)
