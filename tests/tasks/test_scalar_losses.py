"""Scalar losses: derivatives against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks import scalar_losses
from dynascope.tasks.scalar_losses import BASE_MODELS, compose, derivatives, monomial, squared_loss, squared_loss_to


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("mu", [1.0, 2.5])
def test_the_quartic_has_its_derivatives(mu):
    loss = scalar_losses.quartic(mu)
    np.testing.assert_allclose(loss.derivatives(order=5), [0, 0, 2 * mu, 6 * np.sqrt(mu), 6, 0], atol=1e-14)
    np.testing.assert_allclose(loss.threshold, 1 / mu, rtol=1e-15)


def test_the_sine_has_its_derivatives_at_its_minimum():
    loss = scalar_losses.sine(2.0)
    np.testing.assert_allclose(loss.derivatives(order=8), [-2, 0, 2, 0, -2, 0, 2, 0, -2], atol=1e-14)


def test_a_polynomial_s_derivatives_are_its_coefficients():
    loss = scalar_losses.polynomial((0, 0, 1, 0, 0, 0.2, -0.1), minimum=0.5)
    np.testing.assert_allclose(loss.derivatives(order=6), [0, 0, 2, 0, 0, 24, -72], atol=1e-13)


@pytest.mark.parametrize("name", [*BASE_MODELS, "x^3", "sin(tanh)"])
def test_squared_losses_have_the_derivatives_of_the_general_formula(name):
    known = {**BASE_MODELS, "x^3": monomial(3)}
    g = known[name].function if name in known else compose(jnp.sin, jnp.tanh)
    loss = squared_loss_to(known[name], 0.6) if name in known else squared_loss(g, 0.7)
    _, g1, g2, g3 = derivatives(g, loss.minimum, 3)
    expected = [0, 0, 2 * g1**2, 6 * g1 * g2, 6 * g2**2 + 8 * g1 * g3]
    np.testing.assert_allclose(loss.derivatives(), expected, rtol=1e-12, atol=1e-14)
    if name in known:
        np.testing.assert_allclose(g(loss.minimum), 0.6, rtol=1e-14)


def test_derivatives_act_entry_by_entry_and_map_over_parameters():
    x = jnp.linspace(-1, 1, 6).reshape(2, 3)
    np.testing.assert_allclose(derivatives(jnp.exp, x, 3), np.broadcast_to(np.exp(x), (4, 2, 3)), rtol=1e-15)
    mus = jnp.asarray([1.0, 2.0, 3.0])
    steps = jax.vmap(lambda mu: scalar_losses.quartic(mu).step(0.5, 0.1))(mus)
    np.testing.assert_allclose(steps, 0.5 - 0.1 * (0.25 - mus) * 0.5, rtol=1e-15)


def test_single_precision_stays_single():
    with jax.enable_x64(False):
        assert scalar_losses.quartic(1.0).step(0.5, 0.1).dtype == jnp.float32
    assert scalar_losses.quartic(jnp.float32(1.0)).step(jnp.float32(0.5), 0.1).dtype == jnp.float32
