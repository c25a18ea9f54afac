import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.concept.jacobian_paths import factor_path, jacobian_euler_path, recorded_steps
from dynascope.theory.concept.jacobian_recursion import factor_gd, jacobian_euler, jacobian_of
from dynascope.theory.concept.linear_loss import population_loss
from dynascope.theory.concept.starts import aligned_factor, gaussian_factor

A = (0.5025, 2.0025)


def by_hand(step, start, steps):
    states = [start]
    for _ in range(steps):
        states.append(step(states[-1]))
    return states


@pytest.mark.parametrize("chosen", [12, [0, 3, 4, 12], [5, 7], [12]])
def test_paths_record_what_single_steps_give(chosen):
    U0, a, eta = jnp.asarray(gaussian_factor(3, 0.3, 2)), jnp.asarray(A), 0.02
    factors = by_hand(lambda U: factor_gd(U, a, eta), U0, 12)
    matrices = by_hand(lambda W: jacobian_euler(W, a, eta), jacobian_of(U0), 12)
    steps = recorded_steps(chosen)
    np.testing.assert_allclose(factor_path(U0, a, eta, chosen), [jacobian_of(factors[n]) for n in steps], rtol=1e-13)
    np.testing.assert_allclose(
        jacobian_euler_path(jacobian_of(U0), a, eta, chosen), [matrices[n] for n in steps], rtol=1e-13
    )


def test_every_thins_the_record():
    np.testing.assert_array_equal(recorded_steps(10, 4), [0, 4, 8])
    U0, a = jnp.asarray(gaussian_factor(3, 0.3, 2)), jnp.asarray(A)
    np.testing.assert_allclose(factor_path(U0, a, 0.02, 10, every=4), factor_path(U0, a, 0.02, 10)[::4], rtol=1e-13)


@pytest.mark.parametrize("chosen", [[3, 3], [4, 2], [-1, 2], []])
def test_steps_that_do_not_increase_are_refused(chosen):
    with pytest.raises(ValueError, match=r"increasing|not be empty"):
        recorded_steps(chosen)


def test_batches_are_leading_axes_and_can_be_mapped():
    U0, a = jnp.asarray(gaussian_factor(range(6), 0.1, 3)), jnp.asarray([0.3, 0.7, 1.6])
    batch = factor_path(U0, a, 0.02, 50, every=10)
    mapped = jax.vmap(lambda U: factor_path(U, a, 0.02, 50, every=10), out_axes=1)(U0)
    alone = factor_path(U0[4], a, 0.02, 50, every=10)
    np.testing.assert_allclose(batch, mapped, rtol=1e-12)
    np.testing.assert_allclose(batch[:, 4], alone, rtol=1e-12)


def test_an_observation_is_recorded_in_the_place_of_the_jacobian():
    U0, a = jnp.asarray(gaussian_factor(range(6), 0.1, 3)), jnp.asarray([0.3, 0.7, 1.6])
    losses = factor_path(U0, a, 0.02, 50, observe=lambda W: population_loss(W, a))
    np.testing.assert_allclose(losses, population_loss(factor_path(U0, a, 0.02, 50), a), rtol=1e-12)


def test_the_training_loss_never_rises():
    U0, a = jnp.asarray(gaussian_factor(range(200), 0.3, 3)), jnp.asarray([0.336, 0.753, 1.616])
    losses = factor_path(U0, a, 0.02, 2000, every=5, observe=lambda W: population_loss(W, a))
    assert jnp.all(jnp.diff(losses, axis=0) <= 1e-15)


def test_single_precision_stays_single():
    U0 = jnp.asarray(gaussian_factor(0, 0.1, 2), dtype=jnp.float32)
    assert factor_path(U0, jnp.asarray(A, jnp.float32), 0.02, 5).dtype == jnp.float32


def test_starts_are_numpys_own_generator():
    np.testing.assert_array_equal(gaussian_factor(7, 0.1, 2, 3), 0.1 * np.random.default_rng(7).standard_normal((2, 3)))
    G = np.random.default_rng(5).standard_normal((3, 3))
    expected = 0.5 * (0.03 * G)
    expected[:, 0] += 0.5
    np.testing.assert_allclose(aligned_factor(5, 0.5, 0.03, 3), expected, rtol=1e-15)
    batch = aligned_factor([4, 5], 0.5, 0.03, 3)
    np.testing.assert_array_equal(batch[1], aligned_factor(5, 0.5, 0.03, 3))
    assert np.all(jacobian_of(jnp.asarray(batch)) > 0)
