"""Theorem 4.1 against gradient descent on the population loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.concept import one_layer

MU, SIGMA, DIM = (1.0, 2.0), (0.05, 0.05), 5


@pytest.fixture
def start():
    return jnp.asarray(0.05 * np.random.default_rng(0).standard_normal((DIM, DIM)))


@pytest.fixture
def a():
    return one_layer.second_moment(MU, SIGMA, DIM)


def gradient_descent(W, a, eta, steps):
    identity = jnp.eye(DIM)
    return jax.lax.fori_loop(0, steps, lambda _, W: W - eta * (W - identity) * a, W)


def test_the_second_moment_is_that_of_the_mixture(a):
    rng, n = np.random.default_rng(1), 200_000
    clusters = [
        np.pad(mu * np.eye(2)[p], (0, 3)) + np.pad(np.array(SIGMA), (0, 3)) * rng.standard_normal((n, DIM))
        for p, mu in enumerate(MU)
    ]
    x = np.concatenate(clusters)
    np.testing.assert_allclose((x**2).mean(axis=0), a, rtol=5e-3, atol=1e-12)
    with_origin = np.concatenate([x, np.pad(np.array(SIGMA), (0, 3)) * rng.standard_normal((n, DIM))])
    expected = one_layer.second_moment(MU, SIGMA, DIM, origin=True)
    np.testing.assert_allclose((with_origin**2).mean(axis=0), expected, rtol=5e-3, atol=1e-12)


def test_reference_values_of_the_second_moment():
    np.testing.assert_allclose(one_layer.second_moment((1, 2), (0.05, 0.05), 2), [0.5025, 2.0025])
    np.testing.assert_allclose(one_layer.second_moment((1, 2), (2, 0.05), 3), [4.5, 2.0025, 0])


def test_integers_and_float32_keep_their_place():
    assert one_layer.second_moment((1, 2), (0, 0), 2).dtype == jnp.float64
    short = one_layer.second_moment(jnp.ones(2, jnp.float32), jnp.ones(2, jnp.float32), 3)
    assert short.dtype == jnp.float32


def test_the_printed_coefficient_contradicts_training(start, a):
    z, steps, eta = jnp.asarray([1.0, 2, 0, 0, 0]), 300, 0.01
    trained = gradient_descent(start, a, eta, steps) @ z
    wrong = one_layer.printed_second_moment(MU, SIGMA, DIM)
    at = jnp.asarray([steps])
    assert jnp.max(jnp.abs(one_layer.discrete_output_terms(at, eta, z, start, a).output[0] - trained)) < 1e-14
    off = jnp.max(jnp.abs(one_layer.discrete_output_terms(at, eta, z, start, wrong).output[0] - trained))
    assert off > 5e-4  # 1.25e-3 per unit of time in the exponent, at t = 3


@pytest.mark.parametrize("eta", [0.1, 0.01, 0.9])
def test_the_discrete_form_is_gradient_descent_exactly(start, a, eta):
    z = jnp.asarray([1.0, 2, 0.3, -0.7, 0.5])
    steps = jnp.asarray([0, 1, 7, 300])
    terms = one_layer.discrete_output_terms(steps, eta, z, start, a)
    for k, n in enumerate(steps):
        trained = gradient_descent(start, a, eta, n) @ z
        np.testing.assert_allclose(terms.output[k], trained, rtol=1e-10, atol=1e-14)


def test_the_flow_form_is_first_order_in_the_step(start, a):
    z, time = jnp.asarray([1.0, 2, 0, 0, 0]), 3.0
    predicted = one_layer.output_terms(jnp.asarray([time]), z, start, a).output[0]
    errors = [
        float(jnp.max(jnp.abs(gradient_descent(start, a, eta, round(time / eta)) @ z - predicted)))
        for eta in (0.1, 0.01, 0.001)
    ]
    np.testing.assert_allclose(errors, [8.4e-3, 8.3e-4, 8.3e-5], rtol=0.1)
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 10, rtol=0.05)


def test_a_generic_input_needs_the_noise_of_every_axis(start, a):
    z = jnp.asarray([1.0, 2, 0.3, -0.7, 0.5])
    trained = gradient_descent(start, a, 1e-3, 3000) @ z
    times = jnp.asarray([3.0])
    full = one_layer.output_terms(times, z, start, a).output[0]
    printed = one_layer.output_terms(times, z, start, a, noise_inputs=2).output[0]
    assert jnp.max(jnp.abs(full - trained)) < 1e-3
    missing = start[:, 2:] @ z[2:]
    np.testing.assert_allclose(trained - printed, missing, atol=1e-3)
    assert jnp.max(jnp.abs(missing)) > 0.05


def test_growth_and_noise_part_at_the_start_and_the_end(start, a):
    z = jnp.asarray([1.0, 2, 0, 0, 0])
    terms = one_layer.output_terms(jnp.asarray([0.0, 100.0]), z, start, a)
    np.testing.assert_allclose(terms.growth, [np.zeros(DIM), z], atol=1e-15)
    np.testing.assert_allclose(terms.noise, [start @ z, np.zeros(DIM)], atol=1e-15)


def test_the_jacobian_maps_inputs_to_the_outputs_of_the_theorem(start, a):
    z, times = jnp.asarray([1.0, 2, 0.3, -0.7, 0.5]), jnp.linspace(0, 4, 7)
    np.testing.assert_allclose(
        one_layer.jacobian(times, start, a) @ z, one_layer.output_terms(times, z, start, a).output, atol=1e-14
    )


def test_a_rotated_model_follows_the_theorem_in_concept_coordinates(start, a):
    Q = jnp.linalg.qr(jnp.asarray(np.random.default_rng(2).standard_normal((DIM, DIM))))[0]
    A = Q @ jnp.diag(a) @ Q.T
    z, eta, steps = jnp.asarray([1.0, 2, 0, 0, 0]), 0.02, 100
    W = start
    for _ in range(steps):
        W = W - eta * (W - jnp.eye(DIM)) @ A
    seen = Q.T @ (W @ (Q @ z))
    W0 = one_layer.to_concept_coordinates(start, Q)
    predicted = one_layer.discrete_output_terms(jnp.asarray([steps]), eta, z, W0, a).output[0]
    np.testing.assert_allclose(seen, predicted, atol=1e-13)


def test_the_terminal_rate_is_that_of_the_weakest_learned_concept(a):
    assert one_layer.terminal_rate(a) == -0.5025


def test_the_theorem_can_be_mapped_over_starts(start, a):
    z, times = jnp.asarray([1.0, 2, 0, 0, 0]), jnp.linspace(0, 4, 7)
    starts = jnp.stack([start, 2 * start])
    both = jax.jit(jax.vmap(lambda W0: one_layer.output_terms(times, z, W0, a).output))(starts)
    np.testing.assert_allclose(both[1], one_layer.output_terms(times, z, 2 * start, a).output, atol=1e-14)
