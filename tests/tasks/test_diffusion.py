"""The diffusion loss against closed forms, and the sampler against Gaussian data, where everything is known."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dynascope.dynamics import clipped_network
from dynascope.models import Diffusion, generate
from dynascope.tasks.diffusion import Examples, VariationalDiffusion, add_noise

MEAN, COVARIANCE = np.array([0.5, -1.0]), np.array([[0.6, 0.3], [0.3, 0.4]])


class Ideal(eqx.Module):
    """The best denoiser of Gaussian data whose mean is the condition: E[e | z]."""

    def __call__(self, z, gamma, condition):
        a, v = jnp.sqrt(jax.nn.sigmoid(-gamma)), jax.nn.sigmoid(gamma)
        spread = a**2 * jnp.asarray(COVARIANCE, z.dtype) + v * jnp.eye(2, dtype=z.dtype)
        return jnp.sqrt(v) * jnp.linalg.solve(spread, z - a * condition)


class Silent(eqx.Module):
    """Sees no noise."""

    def __call__(self, z, gamma, condition):
        return jnp.zeros_like(z)


def examples(n=64):
    x = jax.random.uniform(jax.random.key(1), (n, 4, 4, 3))
    return Examples(x, jnp.zeros((n, 2)))


def test_the_reconstruction_term_is_4860_bits_per_dimension_at_gamma_minus_5():
    terms = VariationalDiffusion().terms(Diffusion(Silent()), examples())
    constant = 0.5 * np.log2(2 * np.pi * 1e-6)
    assert float(terms.reconstruction) - constant == pytest.approx(4860.5, rel=1e-4)
    sampled = np.random.default_rng(0).normal(size=200_000) * np.exp(-2.5)  # z_0 / alpha_0 - x
    in_bits = np.mean(0.5 * (sampled / 1e-3) ** 2 + 0.5 * np.log(2 * np.pi * 1e-6)) / np.log(2)
    assert float(terms.reconstruction) == pytest.approx(in_bits, rel=0.02)


@pytest.mark.parametrize("gamma_max", [-1.0, 2.0, 10.0])
def test_the_latent_term_is_the_divergence_from_the_standard_normal_by_quadrature(gamma_max):
    batch = examples(3)
    v = 1 / (1 + np.exp(-gamma_max))
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()
    z = np.sqrt(1 - v) * np.asarray(batch.x, float)[..., None] + np.sqrt(v) * nodes
    log_ratio = -0.5 * nodes**2 - 0.5 * np.log(v) + 0.5 * z**2
    found = VariationalDiffusion().terms(Diffusion(Silent(), gamma_max=gamma_max), batch).latent
    wanted = np.mean(log_ratio @ weights) / np.log(2)
    assert float(found) == pytest.approx(wanted, rel=1e-4, abs=1e-7)


def test_the_diffusion_term_of_a_denoiser_that_sees_nothing_is_half_the_slope():
    batch = VariationalDiffusion().augment(jax.random.key(0), examples(512))
    found = VariationalDiffusion().terms(Diffusion(Silent()), batch).diffusion
    assert float(found) == pytest.approx(0.5 * 15 / np.log(2), rel=0.02)


def test_the_bound_of_the_ideal_denoiser_is_the_entropy_of_gaussian_data():
    n = 60_000
    x = MEAN + np.random.default_rng(0).normal(size=(n, 2)) @ np.linalg.cholesky(COVARIANCE).T
    batch = Examples(jnp.asarray(x, jnp.float32), jnp.broadcast_to(jnp.asarray(MEAN, jnp.float32), (n, 2)))
    task, model = VariationalDiffusion(data_noise=1e-2), Diffusion(Ideal(), gamma_min=np.log(1e-4), gamma_max=12.0)
    bound = task.loss(model, task.augment(jax.random.key(2), batch))
    entropy = 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * COVARIANCE)) / (2 * np.log(2))
    assert float(bound) == pytest.approx(entropy, abs=0.03)


def test_times_cover_the_unit_interval_evenly():
    batch = VariationalDiffusion().augment(jax.random.key(3), examples(8))
    assert np.allclose(np.diff(batch.time), 1 / 8)
    assert 0 <= float(batch.time[0]) < 1 / 8


def test_the_mixture_keeps_unit_variance():
    key = jax.random.key(0)
    x, noise = jax.random.normal(key, (2, 4000, 3))
    for gamma in (-3.0, 0.0, 3.0):
        z = add_noise(x, noise, jnp.full(4000, gamma))
        assert float(jnp.var(z)) == pytest.approx(1, abs=0.04)


def chain(steps: int, gamma_min: float, gamma_max: float) -> tuple[np.ndarray, np.ndarray]:
    """The exact mean and covariance of the sampler's output with the ideal denoiser: it is linear at every step."""
    gammas = np.linspace(gamma_max, gamma_min, steps + 1)
    mean, covariance = np.zeros(2), np.eye(2)
    for now, then in itertools.pairwise(gammas):
        a, v = np.sqrt(1 / (1 + np.exp(now))), 1 / (1 + np.exp(-now))
        a_then, v_then, c = np.sqrt(1 / (1 + np.exp(then))), 1 / (1 + np.exp(-then)), -np.expm1(then - now)
        inverse = np.linalg.inv(a**2 * COVARIANCE + v * np.eye(2))
        linear = a_then / a * (np.eye(2) - c * v * inverse)
        mean = linear @ mean + a_then / a * c * v * a * inverse @ MEAN
        covariance = linear @ covariance @ linear.T + v_then * c * np.eye(2)
    return mean, covariance


def test_the_sampler_draws_gaussian_data_with_the_ideal_denoiser():
    n, steps = 20_000, 100
    conditions = jnp.broadcast_to(jnp.asarray(MEAN, jnp.float32), (n, 2))
    samples = np.asarray(generate(Diffusion(Ideal()), conditions, (2,), key=jax.random.key(0), steps=steps), float)
    mean, covariance = chain(steps, -5.0, 10.0)
    error = np.sqrt(np.diag(covariance) / n)
    assert np.all(np.abs(samples.mean(0) - mean) < 4 * error)
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / n)
    assert np.all(np.abs(np.cov(samples.T) - covariance) < 4 * spread)


def test_its_error_falls_with_the_number_of_steps():
    data = COVARIANCE / (1 + np.exp(-5.0)) + np.eye(2) / (1 + np.exp(5.0))  # z_0, not x
    errors = [np.abs(chain(steps, -5.0, 10.0)[1] - data).max() for steps in (100, 200, 400)]
    assert errors[0] < 0.1
    assert np.allclose(np.divide(errors[:-1], errors[1:]), 2, rtol=0.1)
    assert np.allclose(chain(400, -5.0, 10.0)[0], MEAN * np.sqrt(1 / (1 + np.exp(-5.0))), atol=0.01)


class Gain(eqx.Module):
    """A denoiser with one weight."""

    weight: jax.Array

    def __call__(self, z, gamma, condition):
        return self.weight * z


def first_gradient_steps(rule) -> tuple[Any, Any]:
    model = Diffusion(Gain(jnp.asarray(0.1)))
    gradient = eqx.filter_grad(lambda m: VariationalDiffusion().loss(m, examples()))(model)
    updates, _ = rule.update(gradient, rule.init(model), model)
    return gradient, updates


def test_one_norm_for_all_starves_the_denoiser_and_one_of_its_own_does_not():
    gradient, clipped = first_gradient_steps(optax.chain(optax.clip_by_global_norm(0.01), optax.sgd(1.0)))
    assert abs(float(gradient.offset)) > 100 * abs(float(gradient.denoiser.weight))
    assert abs(float(clipped.denoiser.weight)) < 1e-4
    _, own = first_gradient_steps(clipped_network(optax.sgd(1.0), 0.01, schedule=optax.sgd(1.0)))
    assert float(own.denoiser.weight) == pytest.approx(-0.01 * np.sign(gradient.denoiser.weight), rel=1e-5)
    assert float(own.offset) == pytest.approx(-float(gradient.offset), rel=1e-6)


def test_malformed_calls_are_named():
    with pytest.raises(ValueError, match="gamma_max must be above gamma_min"):
        Diffusion(Silent(), gamma_min=1.0, gamma_max=0.0)
    with pytest.raises(ValueError, match="steps must be an integer, at least 1"):
        generate(Diffusion(Silent()), jnp.zeros((1, 2)), (2,), key=jax.random.key(0), steps=0)
