"""Which plateaus are resolved at a finite scale, and Assumption 4.4 as printed and as meant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks.diagonal import QuadraticLoss
from dynascope.theory.rank.assumptions import grows_quadratically
from dynascope.theory.rank.greedy_ranks import Stage, greedy_stages, resolved_plateaus


def plateau(time, wait, gap, rate=1.0):
    waits = np.array([wait, wait + gap])
    return Stage(time, 0, 1, np.ones(2), np.zeros(2), np.ones(2), 0.0, (), (0,), waits, gap, 0.0, True, rate)


def test_only_plateaus_between_clear_races_are_judged():
    long, short, tie = plateau(0.0, 1.0, 1.0), plateau(1.0, 0.01, 1.0), plateau(1.01, 1.0, 1e-3)
    after = plateau(2.01, 1.0, 1.0)
    assert resolved_plateaus([long, short, tie, after], scale=1e-32, until=9.0) == [0]
    assert resolved_plateaus([long, after._replace(time=1.0)], scale=1e-32, until=9.0) == [0, 1]
    assert resolved_plateaus([long], scale=0.3, until=9.0) == []


def test_where_rates_are_slow_plateaus_must_be_longer_and_the_record_too():
    slow = plateau(0.0, 1.0, 1.0, rate=0.1)
    assert resolved_plateaus([slow], scale=1e-32, until=9.0) == []
    assert resolved_plateaus([slow], scale=1e-64, until=9.0) == [0]
    assert resolved_plateaus([slow], scale=1e-64, until=0.5) == []


def test_the_rate_of_a_plateau_is_the_slowest_of_growth_and_relaxation():
    loss = QuadraticLoss(jnp.array([[1.0, 0.0], [0.0, 0.1]]), jnp.array([0.5, 0.3]))
    with jax.enable_x64(True):
        first, second, last = greedy_stages(loss, 2)
    np.testing.assert_allclose([first.rate, second.rate, last.rate], [0.5, 0.3, 0.3], rtol=1e-5)
    loss = QuadraticLoss(jnp.array([[1.0, 0.0], [0.0, 0.1]]), jnp.array([0.5, 0.06]))
    with jax.enable_x64(True):  # the second relaxes at 2 beta S = 0.12, the first at 1
        assert greedy_stages(loss, 2)[2].rate == pytest.approx(0.06, rel=1e-5)


def test_the_middle_of_a_plateau_is_that_of_the_record_of_it():
    assert plateau(1.0, 2.0, 1.0).middle(until=9.0) == 2.0
    assert plateau(1.0, 8.0, 1.0).middle(until=5.0) == 3.0


def test_assumption_4_4_as_printed_is_asked_of_the_loss_and_not_of_constants():
    beta = np.array([0.25, 0.0])
    with jax.enable_x64(True):
        at_minimum = grows_quadratically(lambda product: float((jnp.sqrt(product[0]) - 0.5) ** 2), beta, c=0.9)
        below_zero = grows_quadratically(lambda product: float((jnp.sqrt(product[0]) - 0.5) ** 2) - 1, beta, c=0.9)
        on_a_slope = grows_quadratically(lambda product: float(product[0]), beta, c=0.9)
    assert at_minimum == {"printed": True, "meant": True}
    assert below_zero == {"printed": False, "meant": True}
    assert on_a_slope == {"printed": True, "meant": False}
