"""The central flow against closed forms, gradient flow, and gradient descent itself."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics.central_flow import CentralFlow
from dynascope.dynamics.complementarity import complementary
from dynascope.dynamics.oscillation import oscillation, third_derivatives

RATE, SLOPE, TILT = 0.1, 2.0, 0.05
"""The valley L = 1/2 (15 + 2 y) x^2 - 0.05 y at learning rate 0.1: it sharpens as y grows, to 2/eta = 20 at y = 2.5."""


def valley(point):
    x, y = point
    return 0.5 * (15 + SLOPE * y) * x**2 - TILT * y


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def look(**more):
    return {"point": lambda point: point, "oscillation": oscillation(), **more}


def test_at_the_edge_of_a_valley_the_variance_is_the_closed_form():
    # S = 15 + 2 y: -grad L = (0, tilt), grad S = (0, slope): X = slope tilt / (slope^2 / 2) = 2 tilt / slope
    trace = ds.central_flow(jnp.array([0.0, 2.45]), valley, RATE, steps=100, probes=look(), record=1).trace
    free = trace.step.values <= 9  # y grows by eta tilt = 0.005 a step until it is 2.5
    np.testing.assert_allclose(trace.point[free, 1], 2.45 + RATE * TILT * trace.step[free], atol=1e-12)
    np.testing.assert_allclose(trace.point[15:, 1], 2.5, atol=1e-9)
    np.testing.assert_allclose(trace.oscillation[15:], 2 * TILT / SLOPE, rtol=1e-6)
    assert np.all(trace.oscillation[free] == 0)
    assert set(trace.oscillation_directions[15:].values.tolist()) == {1}


def test_gradient_descent_in_the_valley_has_that_time_average():
    # x = +-sqrt(2 tilt / slope), y = 2.5 is its orbit of period 2; beside it, it circles around that orbit
    probes = {"point": lambda point: point}
    trace = ds.descend(jnp.array([0.19, 2.5]), valley, optax.sgd(RATE), steps=1000, probes=probes, record=1).trace
    x, y = trace.point.values.T
    assert np.ptp(x[::2]) > 0.05
    np.testing.assert_allclose(np.mean(x**2), 2 * TILT / SLOPE, rtol=0.03)
    np.testing.assert_allclose(15 + SLOPE * np.mean(y), 2 / RATE, rtol=0.01)


def test_the_predicted_mean_loss_counts_the_oscillation():
    trace = ds.central_flow(jnp.array([0.0, 2.5]), valley, RATE, steps=20, probes=look(loss=valley)).trace
    expected = trace.loss + trace.oscillation / RATE  # 1/2 <H, Sigma> with H = 2/eta there
    np.testing.assert_allclose(trace.oscillation_loss[1:], expected[1:], rtol=1e-2)


def bowl(point):
    return jnp.sum(jnp.cosh(point[:3]) * jnp.array([1.0, 2.0, 3.0])) + 0.1 * jnp.sum(point) ** 2


def test_below_the_edge_it_is_gradient_flow():
    start, steps = jnp.array([0.5, -0.3, 0.8]), np.arange(0, 61, 10)
    central = ds.central_flow(start, bowl, 0.05, steps=60, probes=look(), record=steps).trace
    flow = ds.flow(start, bowl, times=0.05 * steps, probes={"point": lambda point: point}).trace
    np.testing.assert_allclose(central.point, flow.point, atol=1e-5)
    assert np.all(central.oscillation == 0)


def two_valleys(point):
    """Both curvatures grow along their own axis, one with a tilt of twice the other, and are coupled through x0 x1."""
    x, y = point[:2], point[2:]
    curved = jnp.array([[16 + 2 * y[0], y[0] * y[1]], [y[0] * y[1], 16 + 2 * y[1]]])
    return 0.5 * x @ curved @ x - 0.05 * y[0] - 0.1 * y[1]


def test_two_directions_are_held_together():
    trace = ds.central_flow(jnp.array([0.0, 0.0, 0.1, 0.05]), two_valleys, RATE, steps=600, probes=look(
        top=ds.probes.top_eigenvalues(2, tolerance=1e-8)), record=10).trace  # fmt: skip
    assert float(trace.top.max()) < 20 * (1 + 1e-4)
    assert np.all(trace.oscillation_residual < 1e-8)
    assert float(trace.top[-1, 0]) == pytest.approx(20, rel=1e-4)


def test_it_turns_with_the_coordinates():
    turn = jnp.linalg.qr(jax.random.normal(jax.random.key(3), (4, 4)))[0]
    start = jnp.array([0.01, 0.02, 0.6, 0.9])
    one = ds.central_flow(start, two_valleys, RATE, steps=300, probes=look(), record=50).trace
    other = ds.central_flow(
        turn @ start, lambda p: two_valleys(turn.T @ p), RATE, steps=300, probes=look(), record=50
    ).trace
    np.testing.assert_allclose(other.point.values @ np.asarray(turn), one.point, atol=1e-6)
    np.testing.assert_allclose(other.oscillation, one.oscillation, atol=1e-6)


def test_a_followed_eigenvector_does_what_a_diagonalized_one_does():
    def member(dense):
        return CentralFlow(jnp.array([0.0, 0.0, 0.1, 0.05]), two_valleys, RATE, probes=look(), critical=2, dense=dense)

    one, other = (ds.ensemble(lambda dense=dense: member(dense), {}, steps=300, record=50).trace for dense in (0, 64))
    np.testing.assert_allclose(one.point, other.point, atol=1e-4)


def test_members_of_an_ensemble_have_learning_rates_of_their_own():
    def member(rate):
        return CentralFlow(jnp.array([0.0, 2.0]), valley, rate, probes=look())

    trace = ds.ensemble(member, {"rate": [0.05, 0.1]}, steps=200, record=200).trace
    assert trace.oscillation[0, -1] == 0  # 2/eta = 40 is far
    np.testing.assert_allclose(trace.oscillation[1, -1], 2 * TILT / SLOPE, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_covariance_is_complementary_to_the_slack(k):
    def instance(key):
        first, second = jax.random.split(key)
        third = jax.random.normal(first, (k, k, 30))
        third = third + third.transpose(1, 0, 2)
        excess = jax.random.normal(second, (k, k))
        return (excess + excess.T) / 2, jnp.einsum("ijn,kln->ijkl", third, third)

    excess, response = jax.vmap(instance)(jax.random.split(jax.random.key(0), 500))
    found, residual = jax.vmap(complementary)(excess, response)
    slack = jnp.einsum("bijkl,bkl->bij", response, found) - excess
    assert float(jnp.max(residual)) < 1e-8
    assert float(jnp.min(jnp.linalg.eigvalsh(found))) > -1e-9
    assert float(jnp.min(jnp.linalg.eigvalsh(slack))) > -1e-6
    np.testing.assert_allclose(jnp.einsum("bij,bij->b", found, slack), 0, atol=1e-6)
    if k == 1:
        np.testing.assert_allclose(found, jnp.maximum(0, excess / response[:, :, :, 0, 0]), atol=1e-8)


def test_third_derivatives_are_those_of_nested_autodiff():
    point = jnp.array([0.3, -0.2, 0.7])
    vectors = jax.random.normal(jax.random.key(1), (2, 3))

    def wavy(p):
        return jnp.sin(p[0] * p[1]) * jnp.exp(p[2]) + p[0] ** 3 * p[2]

    whole = jax.jacfwd(jax.jacfwd(jax.grad(wavy)))(point)
    expected = jnp.einsum("abn,ia,jb->ijn", whole, vectors, vectors)
    np.testing.assert_allclose(third_derivatives(wavy, point, vectors), expected, rtol=1e-10)


def test_the_oscillation_of_another_process_is_refused():
    with pytest.raises(TypeError, match="CentralFlow"):
        ds.descend(jnp.zeros(2), valley, optax.sgd(RATE), steps=1, probes={"oscillation": oscillation()})


@pytest.mark.parametrize(("hardening", "diverges"), [(0.5, True), (-2.0, False)])
def test_it_goes_on_where_a_hardened_direction_makes_gradient_descent_diverge(hardening, diverges):
    def loss(point):
        x, y = point
        return (15 + 2 * y) * x**2 / 2 - 0.05 * y + hardening * x**4

    with jax.enable_x64(True):
        start = jnp.array([0.2, 2.45])
        assert (ds.descend(start, loss, optax.sgd(0.1), steps=500, record=500).trace.diverged_at >= 0) == diverges
        central = ds.central_flow(start, loss, 0.1, steps=500, record=500, critical=1)
        np.testing.assert_allclose(central.model, [0, 2.5], atol=1e-3)
        along = ds.geometry.directional_derivatives(loss, jnp.array([0.0, 2.5]), jnp.array([1.0, 0.0]))
        assert (ds.geometry.discriminant(along) < 0) == diverges
