"""Theorem 3.4, Proposition 3 and Lemma B.2 against gradient descent on two factors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import geometry
from dynascope.curves import orbits
from dynascope.tasks.products import two_factors
from dynascope.theory.edge import product_orbit, quartic_orbit

KS = (1.01, 1.05, 1.1, 1.2, 1.3, 1.4, 1.49)


def starts(count, mu=1.0):
    """Products of 0.05 to 1.6 mu, ratios up to e."""
    product, ratio = np.random.default_rng(0).uniform([0.05, -1], [1.6, 1], (count, 2)).T
    size = np.sqrt(product * mu)
    return jnp.asarray(np.stack([size * np.exp(ratio / 2), size * np.exp(-ratio / 2)], axis=-1))


def test_the_identities_are_exact():
    mu, rate = 2.5, 0.5
    factors = starts(200, mu)
    x, y = factors.T
    after = eqx.filter_jit(two_factors(mu).step)(factors, rate)
    said = jax.jit(product_orbit.successor)(x, y, mu, rate)
    after = np.asarray(after)
    np.testing.assert_allclose(said.gap, after[:, 1] - after[:, 0], atol=1e-12)
    np.testing.assert_allclose(said.product, after[:, 0] * after[:, 1], atol=1e-12)
    np.testing.assert_allclose(said.difference_of_squares, after[:, 0] ** 2 - after[:, 1] ** 2, atol=1e-12)


def test_the_imbalance_shrinks_within_the_bounds_of_the_proof():
    mu = 2.5
    K = jnp.asarray(KS)[:, None]
    task, factors = two_factors(mu), jnp.broadcast_to(starts(400, mu), (len(KS), 400, 2))

    @jax.jit
    def run(factors):
        def advance(factors, _):
            there = task.step(factors, K / mu)
            return there, (factors, product_orbit.contraction(factors, mu, K / mu))

        return jax.lax.scan(advance, factors, None, length=300)[1]

    path, found = run(factors)
    positive = jnp.all(path > 0, axis=(0, -1))
    assert np.mean(positive) > 0.3
    apart = jnp.abs(path[..., 0] - path[..., 1]) > 1e-6 * np.sqrt(mu)
    high = (jnp.prod(path, axis=-1) > mu * (1 + 1e-9)) & positive & apart
    assert int(jnp.sum(high)) > 10_000
    excess = jnp.where(high, found.ratio - found.upper, -1)
    assert float(jnp.max(excess)) < 1e-9
    assert float(jnp.min(jnp.where(high, found.ratio - found.lower, 1))) > 0
    assert set(np.unique(np.where(high, found.case, 1))) == {1, 2, 3}


@pytest.mark.parametrize("K", [1.05, 1.1, 1.2])
def test_on_the_orbit_the_imbalance_shrinks_by_three_minus_two_k(K):
    point = quartic_orbit.normalized_orbit(K).high
    pair = jnp.stack([point, point])
    np.testing.assert_allclose(product_orbit.contraction(pair, 1.0, K).ratio, 3 - 2 * K, atol=1e-13)
    task, start = two_factors(), pair + jnp.asarray([1e-3, -1e-3])
    path = jax.lax.scan(lambda x, _: (task.step(x, K), x), start, None, length=200)[1]
    products = np.prod(path[-100:], axis=-1)
    measured = orbits.transverse_exponent(1 + K * (products - 1))
    np.testing.assert_allclose(measured, product_orbit.transverse_exponent(K), atol=2e-4)
    np.testing.assert_allclose(measured, {1.05: -0.0527, 1.1: -0.1116, 1.2: -0.2554}[K], atol=2e-4)


def test_the_document_s_runs():
    """From (1.5, 0.8): the imbalance at eta = 1.05 and 1.25, and the flattest minimum by lowering the rate late."""
    task, start = two_factors(), jnp.asarray([1.5, 0.8])

    def after(x, rate, steps):
        return jax.lax.fori_loop(0, steps, lambda _, x: task.step(x, rate), x)

    gaps = [float(geometry.imbalance(*after(start, 1.05, t))) for t in (50, 100, 200, 400)]
    np.testing.assert_allclose(gaps, [9.9e-3, 7.1e-4, 3.7e-6, 9.7e-11], rtol=0.02)
    np.testing.assert_allclose(geometry.imbalance(*after(start, 1.25, 50)), 3.6e-9, rtol=0.03)
    late = after(after(start, 1.05, 400), 0.1, 2000)
    np.testing.assert_allclose(late, [1, 1], atol=1e-9)
    np.testing.assert_allclose(task.sharpness_at_minimum(late), 2, atol=1e-9)
    small = after(start, 0.1, 2000)
    np.testing.assert_allclose(small, [1.4449, 0.6921], atol=5e-5)
    np.testing.assert_allclose(task.sharpness_at_minimum(small), 2.567, atol=1e-3)
    np.testing.assert_allclose(after(start, 1e-3, 100_000), product_orbit.flow_limit(start, 1.0), atol=1e-5)


def test_the_largest_gap_of_the_lemma():
    found = product_orbit.largest_gap(jnp.asarray([1, 1.05, 1.1, 1.2, 1.3, 1.4, 1.49]))
    np.testing.assert_allclose(found, [0.55, 0.51, 0.47, 0.39, 0.31, 0.23, 0.14], atol=0.006)


def test_where_the_lemma_is_sure_factors_stay_positive():
    rng, mu = np.random.default_rng(1), 1.7
    K = jnp.asarray(rng.uniform(1, 1.49, 4000))
    gap, product = rng.uniform(0, 0.6, 4000) * np.sqrt(mu), mu * (1 + rng.uniform(0, 0.5, 4000))
    y = (-gap + np.sqrt(gap**2 + 4 * product)) / 2
    factors = jnp.asarray(np.stack([y + gap, y], axis=-1))
    sure = product_orbit.positivity(factors, mu, K / mu).sure
    assert int(jnp.sum(sure)) > 500

    def advance(_, carry):
        factors, positive = carry
        there = two_factors(mu).step(factors, K / mu)
        return there, positive & jnp.all(there > 0, axis=-1)

    _, positive = jax.lax.fori_loop(0, 500, advance, (factors, jnp.ones(4000, bool)))
    assert bool(jnp.all(positive | ~sure))
    assert not bool(jnp.all(positive))


@pytest.mark.parametrize("K", [1.2, 1.5, 1.9])
def test_two_steps_exchange_the_factors_of_the_swapping_point(K):
    task, point = two_factors(), product_orbit.swapping_point(K)
    there = task.step(task.step(point, K), K)
    np.testing.assert_allclose(there, point[::-1], rtol=1e-12)
    assert point[0] > point[1]
