"""The orbit of the quartic in closed form (Theorem 3.3)."""

import jax
import jax.numpy as jnp
import numpy as np

from dynascope import geometry
from dynascope.tasks.scalar_losses import quartic
from dynascope.theory.edge import quartic_orbit

KS = np.asarray([1.001, 1.01, 1.05, 1.1, 1.2, 1.235, 1.5])


def test_the_closed_form_is_an_orbit_with_its_multiplier():
    mu = 2.5
    rates, loss = jnp.asarray(KS / mu), quartic(mu)
    orbit = quartic_orbit.orbit(mu, rates)
    for point in orbit:
        assert jax.jit(lambda x: geometry.residual(lambda x: loss.step(x, rates), x))(point) < 5e-15
        multiplier = jax.jit(lambda x: geometry.multiplier(lambda x: loss.step(x, rates), x))(point)
        np.testing.assert_allclose(multiplier, quartic_orbit.multiplier(KS), atol=5e-14)
        np.testing.assert_allclose(quartic_orbit.implicit_rate(mu, point)[:-1], rates[:-1], rtol=1e-12)
    np.testing.assert_allclose(orbit.low * orbit.high, 1 / rates, rtol=1e-14)
    np.testing.assert_allclose(orbit.low**2 + orbit.high**2, mu + 1 / rates, rtol=1e-14)


def test_the_numbers_of_the_figures():
    np.testing.assert_allclose(quartic_orbit.orbit(1.0, 1.01), [0.946528, 1.046032], atol=1e-6)
    np.testing.assert_allclose(quartic_orbit.orbit(1.0, 1.02), [0.92261, 1.06263], atol=1e-5)
    np.testing.assert_allclose(quartic_orbit.orbit(1.0, 1.08), [0.8357, 1.1079], atol=1e-4)


def test_the_special_rates():
    np.testing.assert_allclose(quartic_orbit.multiplier(1.0), 1)
    np.testing.assert_allclose(quartic_orbit.multiplier(quartic_orbit.SUPERSTABLE), 0, atol=1e-14)
    np.testing.assert_allclose(quartic_orbit.multiplier(quartic_orbit.STABILITY_LIMIT), -1, atol=1e-14)
    np.testing.assert_allclose(quartic_orbit.implicit_rate(1.0, quartic_orbit.orbit(1.0, 1.55).high), 1.454, atol=1e-3)
    np.testing.assert_allclose(quartic_orbit.invariance(jnp.asarray([0.5, quartic_orbit.SUPERSTABLE])), 1, atol=1e-14)
    assert bool(jnp.all(quartic_orbit.invariance(jnp.linspace(1, 1.121, 50)) > 1))


def test_every_start_converges_up_to_the_stability_limit():
    K = jnp.asarray([1.01, 1.05, 1.12, 1.2, 1.23])[:, None]
    x = jnp.broadcast_to(jnp.linspace(0.001, 1.3, 200), (5, 200))
    positive = jnp.ones(x.shape, bool)

    def advance(_, carry):
        x, positive = carry
        return quartic_orbit.step(x, K), positive & (x > 0)

    x, positive = jax.lax.fori_loop(0, 4000, advance, (x, positive))
    low, high = quartic_orbit.normalized_orbit(K)
    # a start may map exactly to the fixed point; none of these does
    np.testing.assert_allclose(jnp.minimum(jnp.abs(x - low), jnp.abs(x - high)), 0, atol=1e-12)
    assert bool(jnp.all(positive))


def test_the_steps_needed():
    K, tolerance = 1.05, 1e-6
    x, steps = jnp.asarray(0.87), 0
    low = quartic_orbit.normalized_orbit(K).low
    start = abs(float(x - low))
    twice = jax.jit(lambda x: quartic_orbit.step(quartic_orbit.step(x, K), K))
    while abs(x - low) > tolerance * start:
        x, steps = twice(x), steps + 2
    np.testing.assert_allclose(quartic_orbit.steps_needed(K, tolerance), steps, rtol=0.05)
    np.testing.assert_allclose(quartic_orbit.steps_needed(1.001, 1e-6), np.log(1e6) / (4 * 1e-3), rtol=0.01)


def test_objects_of_the_proof():
    K = jnp.linspace(1.001, quartic_orbit.SUPERSTABLE, 40)
    low, _ = quartic_orbit.normalized_orbit(K)
    critical = quartic_orbit.critical_point(1.0, K)
    slope = jax.vmap(jax.grad(quartic_orbit.step))(critical, K)
    np.testing.assert_allclose(slope, 0, atol=1e-12)
    assert bool(jnp.all(low >= critical - 1e-12))
    assert bool(jnp.all(low >= quartic_orbit.lower_bound(1.0) - 1e-12))
    for share in (0.1, 0.5, 0.9):
        below, above = critical + share * (low - critical), low + share * (1 - low)
        twice = [quartic_orbit.step(quartic_orbit.step(x, K), K) for x in (below, above)]
        assert bool(jnp.all(twice[0][:-1] > below[:-1]))
        assert bool(jnp.all(twice[1] < above))


def test_the_edge_of_the_basin_and_of_positivity():
    outer = quartic_orbit.outer_orbit(1.0, 1.1)
    np.testing.assert_allclose(quartic_orbit.step(outer, 1.1), -outer, rtol=1e-12)
    inside, beyond = outer * 0.999, outer * 1.001
    for _ in range(60):
        inside, beyond = quartic_orbit.step(inside, 1.1), quartic_orbit.step(beyond, 1.1)
    assert abs(inside) < 2
    assert not abs(beyond) < 2
    for K, stays in ((1.597, True), (1.600, False)):
        x = jnp.linspace(0.001, np.sqrt(1 + 1 / K) - 0.001, 400)
        for _ in range(3):
            x = quartic_orbit.step(x, K)
        assert bool(jnp.all(x > 0)) is stays


def test_the_cascade_of_period_doublings():
    found = quartic_orbit.cascade(6)
    np.testing.assert_allclose(found[:4], [1, np.sqrt(5) - 1, 1.28803, 1.29923], atol=1e-5)
    np.testing.assert_allclose((found[4] - found[3]) / (found[5] - found[4]), 4.669, rtol=2e-3)  # Feigenbaum
    limit = found[5] + (found[5] - found[4]) / 3.669
    np.testing.assert_allclose(limit, quartic_orbit.ONSET_OF_CHAOS, atol=1e-5)
