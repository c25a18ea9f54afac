"""Theorem 3.1, Lemma 3.2 and Proposition 1 against gradient descent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import geometry
from dynascope.tasks import scalar_losses
from dynascope.tasks.scalar_losses import BASE_MODELS, compose, monomial, power_series, squared_loss, squared_loss_to
from dynascope.theory.edge import period_two, squared_margins

TARGETS = {"sin": 0.6, "tanh": 0.5, "exp": 1.5, "log": 0.4, "sigmoid": 0.7, "softplus": 0.9, "gaussian": 0.6}
OSCILLATING = {
    "quartic": lambda: scalar_losses.quartic(1.0),
    "sine": lambda: scalar_losses.sine(2.0),
    **{name: lambda name=name, y=y: squared_loss_to(BASE_MODELS[name], y) for name, y in TARGETS.items()},
    **{f"x^{alpha}": lambda alpha=alpha: squared_loss_to(monomial(alpha), 1.3) for alpha in (2, 3, 5)},
    "sin(tanh)": lambda: squared_loss(compose(jnp.sin, jnp.tanh), 0.7),
}
LEAVING = {
    "x^2": lambda: scalar_losses.polynomial((0, 0, 1)),
    "(x+x^3)^2": lambda: squared_loss(power_series((0, 1, 0, 1)), 0.0),
    "(x+x^2/10+x^3)^2": lambda: squared_loss(power_series((0, 1, 0.1, 1)), 0.0),
    "log(exp)": lambda: squared_loss(compose(jnp.log, jnp.exp), 0.5),
}


def descended(loss, factor):
    rate = factor * loss.threshold
    return jax.lax.fori_loop(0, 6000, lambda _, x: loss.step(x, rate), loss.minimum + 1e-3), rate


@pytest.mark.parametrize("name", OSCILLATING)
def test_descent_settles_on_the_orbit_where_the_condition_holds(name):
    loss = OSCILLATING[name]()
    assert period_two.condition_holds(loss)

    @jax.jit
    def measured_and_predicted():
        x, rate = descended(loss, 1.01)
        other = loss.step(x, rate)
        measured = geometry.multiplier(lambda x: loss.step(x, rate), x)
        theory = period_two.half_width(loss, rate), period_two.multiplier(loss, rate)
        return loss.step(other, rate) - x, (abs(x - other) / 2, measured), theory

    residual, (width, multiplier), (predicted_width, predicted_multiplier) = measured_and_predicted()
    assert abs(residual) < 1e-10
    np.testing.assert_allclose(width, predicted_width, rtol=0.02)
    np.testing.assert_allclose(multiplier, predicted_multiplier, atol=0.004)


@pytest.mark.parametrize("name", LEAVING)
def test_descent_leaves_where_it_does_not(name):
    loss = LEAVING[name]()
    assert period_two.flip_quantity(loss) <= 1e-12
    x, _ = descended(loss, 1.01)
    assert not abs(x - loss.minimum) < 1


@pytest.mark.parametrize("name", ["quartic", "log", "tanh", "x^3"])
def test_the_window_of_the_theorem_holds_a_rate_for_every_start(name):
    loss = OSCILLATING[name]()
    reach = period_two.reach_of(loss, 0.02)
    between = period_two.window(loss, reach)
    starts = loss.minimum - jnp.asarray([0.1, 0.5, 1.0]) * reach
    found = jax.jit(lambda x: period_two.orbit_rate(loss, x, between))(starts)
    assert bool(jnp.all(found.found))
    assert bool(jnp.all((found.rate > between.low) & (found.rate < between.high)))
    assert jax.jit(lambda x: geometry.residual(lambda x: loss.step(x, found.rate), x))(starts) < 1e-13
    predicted = period_two.rate_through(loss, starts)
    np.testing.assert_allclose((found.rate - between.low) / (predicted - between.low), 1, rtol=0.15)


@pytest.mark.parametrize(
    ("coefficients", "order", "exists"),
    [
        ((0, 0, 1, 0, 0, 0.2, -0.1), 5, True),
        ((0, 0, 1, 0, 0, 0.2, 0.1), 5, False),
        ((0, 0, 1, 0, 0, 0, -1 / 6), 6, True),
    ],
)
def test_the_lemma_for_higher_orders_and_its_control(coefficients, order, exists):
    loss = scalar_losses.polynomial(coefficients)
    assert period_two.leading_order(loss) == order
    assert period_two.condition_holds(loss) is exists
    reach = period_two.reach_of(loss, 0.1, order)
    between = period_two.window(loss, reach, order)
    found = jax.jit(lambda x: period_two.orbit_rate(loss, x, between))(-reach * jnp.asarray([0.3, 0.6, 1.0]))
    assert found.found.tolist() == [exists] * 3


def test_the_lemma_for_the_sine_finds_the_exact_rate():
    loss, reach = scalar_losses.sine(2.0), 0.244097
    assert period_two.leading_order(loss) == 4
    found = period_two.orbit_rate(loss, loss.minimum - reach, period_two.window(loss, reach, 4))
    np.testing.assert_allclose(found.rate, reach / np.sin(reach), rtol=1e-12)
    np.testing.assert_allclose(found.rate, 1.01, atol=1e-6)


def test_the_expansions_of_the_proof():
    loss, reach = scalar_losses.quartic(1.0), jnp.asarray(1e-3)
    x, (low, high) = loss.minimum - reach, period_two.window(loss, reach)
    for rate, predicted in (
        (low, period_two.displacement_at_threshold(loss, reach)),
        (high, period_two.displacement_at_end(loss, reach)),
    ):
        moved = (loss.step(loss.step(x, rate), rate) - x) / rate
        np.testing.assert_allclose(moved, predicted, rtol=0.02)


def test_a_loss_without_higher_derivatives_is_refused():
    with pytest.raises(ValueError, match="order 3 to 8"):
        period_two.leading_order(scalar_losses.polynomial((0, 0, 1)))


@pytest.mark.parametrize("name", BASE_MODELS)
def test_margins_in_closed_form_and_the_flip_quantity(name):
    g, x = BASE_MODELS[name].function, jnp.asarray([0.3, 0.9, 2.1])
    np.testing.assert_allclose(squared_margins.margin(g, x), squared_margins.MARGINS[name](x), rtol=1e-10)
    assert bool(jnp.all(squared_margins.MARGINS[name](x) > 0))
    loss = squared_loss(g, 0.9)
    np.testing.assert_allclose(period_two.flip_quantity(loss), squared_margins.flip_from_margin(g, 0.9), rtol=1e-10)


@pytest.mark.parametrize("alpha", [2, 3, 5])
def test_the_margin_of_monomials(alpha):
    x = jnp.asarray([0.4, 1.3])
    np.testing.assert_allclose(
        squared_margins.margin(monomial(alpha).function, x), squared_margins.monomial_margin(alpha, x), rtol=1e-12
    )


@pytest.mark.parametrize(("inner", "outer"), [("tanh", "sin"), ("exp", "log"), ("sigmoid", "exp"), ("sin", "gaussian")])
def test_the_composition_identity(inner, outer):
    p, q, x = BASE_MODELS[inner].function, BASE_MODELS[outer].function, jnp.asarray([0.3, 0.8])
    found = squared_margins.composition_condition(p, q, x)
    np.testing.assert_allclose(found.margin, squared_margins.margin(compose(q, p), x), atol=1e-12)
    np.testing.assert_allclose(found.from_outer + found.from_inner + found.mixed, found.margin, atol=1e-14)
    assert bool(jnp.all(~found.inherited | found.holds))
