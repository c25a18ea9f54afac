import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.curves.stages import first_crossing
from dynascope.theory.concept import stage_times as stages
from dynascope.theory.concept.jacobian_paths import factor_path, jacobian_euler_path, recorded_steps
from dynascope.theory.concept.jacobian_recursion import jacobian_of
from dynascope.theory.concept.one_layer import second_moment
from dynascope.theory.concept.starts import aligned_factor, gaussian_factor

SETTINGS = {
    2: ((1.0, 2.0), (0.05, 0.05), 12_000),
    3: ((1.0, 1.5, 2.2), (0.05,) * 3, 16_000),
    4: ((1.0, 1.5, 2.2, 2.7), (0.05, 0.05, 0.05, 0.5), 24_000),
}


def diagonal(W):
    return jnp.diagonal(W, axis1=-2, axis2=-1)


def measured_half_steps(U, a, eta, steps, every=5):
    majors = factor_path(U, a, eta, steps, every, observe=diagonal)
    return first_crossing(np.moveaxis(np.asarray(majors), 0, -1), 0.5, recorded_steps(steps, every)).time


@pytest.mark.parametrize("concepts", [2, 3, 4])
def test_pivots_predict_every_stage_within_two_per_cent(concepts):
    mu, sigma, steps = SETTINGS[concepts]
    a = second_moment(mu, sigma, concepts)
    U, eta = jnp.asarray(gaussian_factor(range(60), 0.01, concepts)), 0.004  # learning rate 0.002
    measured = measured_half_steps(U, a, eta, steps)
    prediction = stages.stage_times(stages.log_pivots_of_factor(U, a), a)
    error = np.abs(stages.steps_at(prediction.half, a, eta) / measured - 1)
    assert error.max() < 0.02
    assert np.median(error[:, 0]) < 0.005
    naive = stages.half_time(stages.naive_log_pivots(jacobian_of(U)), a)
    assert np.median(np.abs(stages.steps_at(naive, a, eta) / measured - 1)[:, 0]) > 0.05
    by_strength = np.argsort(-np.asarray(a))
    assert np.all(prediction.order == by_strength)
    assert np.all(np.argsort(measured, axis=-1) == by_strength)


def test_aligned_starts_need_the_pivots():
    mu, sigma, _ = SETTINGS[3]
    a, eta = second_moment(mu, sigma, 3), 0.02
    U = jnp.asarray(aligned_factor(range(100), 0.1, 0.1, 3))
    measured = measured_half_steps(U, a, eta, 3000, 1)[:, 0]
    pivot = stages.steps_at(stages.half_time(stages.log_pivots_of_factor(U, a), a), a, eta)[:, 0]
    naive = stages.steps_at(stages.half_time(stages.naive_log_pivots(jacobian_of(U)), a), a, eta)[:, 0]
    assert np.median(np.abs(pivot / measured - 1)) < 0.008
    assert np.median(np.abs(naive / measured - 1)) == pytest.approx(0.52, abs=0.03)


def test_pivots_of_the_jacobian_and_of_its_factor_agree():
    a = jnp.asarray([0.7, 2.0, 0.3, 1.1])
    U = jnp.asarray(gaussian_factor(range(20), 0.1, 4, 6))
    W = jacobian_of(U)
    np.testing.assert_allclose(stages.log_pivots(W, a), stages.log_pivots_of_factor(U, a), rtol=1e-9)
    order = np.argsort(-np.asarray(a))
    cholesky = np.linalg.cholesky(np.asarray(W)[:, order][:, :, order])
    expected = 2 * np.log(np.diagonal(cholesky, axis1=1, axis2=2))[:, np.argsort(order)]
    np.testing.assert_allclose(stages.log_pivots(W, a), expected, rtol=1e-9)


def test_the_product_of_the_pivots_is_the_determinant():
    a, U = jnp.asarray([0.7, 2.0, 0.3]), jnp.asarray(gaussian_factor(4, 0.1, 3))
    determinant = np.linalg.slogdet(np.asarray(U))[1] * 2
    np.testing.assert_allclose(stages.log_pivots_of_factor(U, a).sum(), determinant, rtol=1e-10)


def test_tiny_starts_keep_their_pivots():
    a = jnp.asarray([1.0, 10.0])
    W0 = 1e-66 * jnp.asarray([[1.5, 1.0], [1.0, 1.5]])
    expected = np.log(1e-66) + np.log([1.5 - 1 / 1.5, 1.5])
    np.testing.assert_allclose(stages.log_pivots(W0, a), expected, rtol=1e-12)


def test_a_factor_sees_pivots_that_its_product_has_lost():
    a = jnp.asarray([0.166, 0.966, 3.0025])
    U = jnp.asarray(aligned_factor(3, 0.5, 1e-9, 3))
    assert stages.log_pivots(jacobian_of(U), a)[0] == -jnp.inf
    assert -50 < stages.log_pivots_of_factor(U, a)[0] < -35


def test_a_start_of_low_rank_never_learns_the_weakest():
    a = jnp.asarray([0.166, 0.966, 3.0025])
    U = jnp.asarray(gaussian_factor(0, 0.3, 3, 2))
    for pivots in (stages.log_pivots_of_factor(U, a), stages.log_pivots(jacobian_of(U), a)):
        half = stages.half_time(pivots, a)
        np.testing.assert_array_equal(jnp.isinf(half), [True, False, False])
        assert stages.plateau_length(pivots, a)[0] == jnp.inf


def test_one_direction_alone_follows_the_logistic_curve():
    """Without other concepts the pivot form is exact: w(t) = 1 / (1 + (1/p - 1) e^{-2 a t})."""
    a, p = jnp.asarray([1.3]), 1e-4
    time = float(stages.half_time(jnp.log(jnp.asarray([p])), a)[0])
    assert 1 / (1 + (1 / p - 1) * np.exp(-2 * 1.3 * time)) == pytest.approx(0.5, rel=1e-12)
    early = float(stages.exit_time(jnp.log(jnp.asarray([p])), a, 1e-3)[0])
    assert p * np.exp(2 * 1.3 * early) == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize(("integrator", "path"), [("factor_gd", factor_path), ("jacobian_euler", jacobian_euler_path)])
def test_the_finite_step_is_accounted_for(integrator, path):
    a, eta, p = jnp.asarray([1.0]), 0.05, 1e-12
    start = jnp.asarray([[np.sqrt(p) if integrator == "factor_gd" else p]])
    w = np.asarray(path(start, a, eta, 400))[:, 0, 0]
    exits = first_crossing(np.log(w), np.log(1e-4)).time
    time = stages.exit_time(jnp.log(jnp.asarray([p])), a, 1e-4)
    assert stages.steps_at(time, a, eta, integrator)[0] == pytest.approx(exits, rel=1e-4)
    assert abs(time[0] / eta / exits - 1) > 0.02


def test_a_concept_already_known_needs_no_time():
    assert stages.half_time(jnp.log(jnp.asarray([0.7, 1.5])), jnp.asarray([1.0, 2.0])).tolist() == [0, 0]
