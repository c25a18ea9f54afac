"""Orbit tools against maps whose orbits are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import geometry
from dynascope.curves import orbits
from dynascope.dynamics import bifurcation, escape_times
from dynascope.geometry.orbits import has_diverged
from dynascope.tasks.products import two_factors
from dynascope.tasks.scalar_losses import quartic


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def logistic(x, rate):
    return rate * x * (1 - x)


def test_periods_of_the_logistic_map():
    found = bifurcation(logistic, jnp.asarray([2.8, 3.2, 3.5, 3.55, 3.566, 3.9, 5.0]), 0.3, burn_in=20_000)
    assert found.periods().tolist() == [1, 2, 4, 8, 16, 0, 0]
    assert found.iterates.shape == (7, 64)


def test_burn_in_and_the_kept_steps_follow_one_another():
    rates = jnp.asarray([3.7, 3.9])
    long = bifurcation(logistic, rates, 0.3, burn_in=0, keep=60).iterates
    short = bifurcation(logistic, rates, 0.3, burn_in=37, keep=23).iterates
    np.testing.assert_allclose(long[:, 37:], short, rtol=1e-6)  # chaos doubles rounding every step
    np.testing.assert_allclose(long[:, 0], logistic(0.3, rates), rtol=1e-14)


def test_the_quartic_has_periods_two_two_and_four_around_the_stability_limit():
    found = bifurcation(quartic(1.0).step, jnp.asarray([1.05, 1.235, 1.237]), 0.5, burn_in=40_000)
    assert found.periods().tolist() == [2, 2, 4]
    cycles = [orbits.last_cycle(found.iterates[i], length) for i, length in enumerate((2, 2, 4))]
    np.testing.assert_allclose(cycles[0], [0.872872, 1.091089], atol=1e-6)
    np.testing.assert_allclose(cycles[1], [0.707791, 1.144006], atol=1e-6)
    np.testing.assert_allclose(cycles[2], [0.694204, 1.139096, 0.719845, 1.148883], atol=1e-6)


def test_states_of_several_numbers_are_observed():
    found = bifurcation(
        two_factors().step,
        jnp.asarray([1.05, 1.25]),
        jnp.asarray([1.5, 0.8]),
        burn_in=3000,
        keep=8,
        observe=lambda x: {"product": x[0] * x[1], "gap": geometry.imbalance(x[0], x[1])},
    )
    products = found.iterates["product"]
    np.testing.assert_allclose(orbits.last_cycle(products[0], 2), [0.761905, 1.190476], atol=1e-6)
    np.testing.assert_allclose(orbits.last_cycle(products[1], 4), [0.43116, 1.2623, 0.57025, 1.34747], atol=1e-5)
    assert found.iterates["gap"].max() < 1e-12


def test_the_period_asks_for_a_record_long_enough():
    with pytest.raises(ValueError, match="must have 64 steps"):
        orbits.period(np.zeros(63))
    assert orbits.period(np.zeros(80), burn_in=10) == 1
    assert orbits.period(np.tile([0.0, 1e-6], 40), tolerance=1e-7) == 2
    assert orbits.period(np.tile([0.0, 1e-6], 40), tolerance=1e-5) == 1
    assert orbits.period(np.full(64, np.nan)) == orbits.APERIODIC


def test_residual_and_multipliers_on_a_known_orbit():
    K, task = 1.1, quartic(1.0)
    low = (np.sqrt(1 + 3 / K) - np.sqrt(1 - 1 / K)) / 2

    def rule(x):
        return task.step(x, K)

    point = jnp.asarray(low)
    assert geometry.residual(rule, point) < 1e-14
    assert geometry.residual(rule, point, period=1) > 0.1
    np.testing.assert_allclose(geometry.multiplier(rule, point), 9 - 2 * (1 + K) ** 2, atol=1e-13)
    both = geometry.multipliers(lambda x: two_factors().step(x, K), jnp.stack([point, point]))
    np.testing.assert_allclose(both.real, [3 - 2 * K, 9 - 2 * (1 + K) ** 2], atol=1e-12)


def test_escape_times_count_steps_and_keep_others_going():
    task = quartic(1.0)
    found = escape_times(task.step, jnp.asarray([1.0, 1.2, 3.0]), jnp.asarray([0.5, 0.5, 0.5]), steps=200)
    x, steps = 0.5, 0
    while abs(x) <= 1e3:
        x, steps = x - 3.0 * (x**2 - 1) * x, steps + 1
    assert found.tolist() == [-1, -1, steps]


def test_divergence_is_size_or_a_non_number():
    assert not has_diverged({"a": jnp.ones(2), "b": jnp.asarray(999.0)})
    assert has_diverged({"a": jnp.ones(2), "b": jnp.asarray(-1001.0)})
    assert has_diverged(jnp.asarray([1.0, jnp.nan]))
    assert has_diverged(jnp.asarray([jnp.inf]))


def test_the_transverse_exponent_is_the_mean_logarithm():
    np.testing.assert_allclose(orbits.transverse_exponent([[0.5, -2.0], [0.25, 1.0]]), [0, np.log(0.25) / 2])


def test_leading_components_and_imbalances():
    top = jnp.asarray([1.0, 0.0])
    Y, Z, C = jnp.diag(jnp.asarray([0.9, 0.5])), jnp.diag(jnp.asarray([0.9, 1.0])), jnp.diag(jnp.asarray([1.0, 0.5]))
    found = geometry.leading_components(Y, Z, C, top)
    np.testing.assert_allclose([found["Y"], found["Z"], found["Y_norm"], found["Z_norm"]], [0.9, 0.9, 0.9, 1.0])
    assert found["off_top"] < 1e-15
    np.testing.assert_allclose(geometry.gram_imbalance(Y, Z), 0.75)
    np.testing.assert_allclose(geometry.norm_ratio(jnp.asarray([[3.0, 4.0]]), jnp.asarray([2.0])), [2.5])
