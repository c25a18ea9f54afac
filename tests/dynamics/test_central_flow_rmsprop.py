"""The central flows of RMSProp and scalar RMSProp against closed forms, dense matrices and their own optimizers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics import RMSProp, ScalarRMSProp, oscillation

RATE, CURVATURE, TILT = 0.1, 20.0, 0.6
"""The loss 10 x^2 - 0.6 y: at the edge 20/sqrt(nu) = 2/eta, so that nu = 1 in the direction of x."""
KINDS = [(RMSProp, RATE**2 / 4), (ScalarRMSProp, RATE**2 / 4 - (TILT / CURVATURE) ** 2)]
"""nu = E[g^2] = 1 with g = 20 x, and with scalar RMSProp |g|^2 = (20 x)^2 + 0.6^2: the variance of x."""
MOMENTS = ds.probes.probe(lambda snapshot: snapshot.optimizer)
"""nu, which a central flow has where descent has the state of its optimizer."""


def channel(point):
    return CURVATURE * point[0] ** 2 / 2 - TILT * point[1]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("kind", "variance"), KINDS)
def test_at_the_edge_of_a_channel_the_variance_is_the_closed_form(kind, variance):
    probes = {"oscillation": oscillation(), "point": lambda point: point, "moments": MOMENTS}
    optimizer = kind(0.99, eps=0.0, moments=1.02)
    start = jnp.zeros(2)
    trace = ds.central_flow(
        start, channel, RATE, steps=60, optimizer=optimizer, probes=probes, record=1, critical=1
    ).trace
    np.testing.assert_allclose(trace.oscillation[30:], variance, rtol=5e-3)  # X is of first order in (1 - b) h
    np.testing.assert_allclose(np.ravel(trace.moments[-1])[0], 1, rtol=5e-3)
    assert trace.oscillation[1] == 0
    if kind is ScalarRMSProp:  # y falls by eta x slope / sqrt(nu)
        np.testing.assert_allclose(np.diff(trace.point[30:, 1]), RATE * TILT, rtol=5e-3)


@pytest.mark.parametrize(("kind", "variance"), KINDS)
def test_the_optimizers_themselves_have_that_variance(kind, variance):
    moments, point, seen = np.ones(2 if kind is RMSProp else 1), np.array([0.03, 0.0]), []
    for _ in range(6000):
        gradient = np.array([CURVATURE * point[0], -TILT])
        squares = gradient**2 if kind is RMSProp else np.sum(gradient**2)
        moments = 0.99 * moments + 0.01 * squares
        point = point - RATE * gradient / np.sqrt(moments)
        seen.append(point[0])
    assert np.mean(np.square(seen[3000:])) == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(("kind", "of"), [(RMSProp, lambda g: g**2), (ScalarRMSProp, lambda g: np.sum(g**2))])
def test_without_oscillation_it_is_the_stable_flow(kind, of):
    def bowl(point):
        return jnp.sum(jnp.cosh(point) * jnp.array([1.0, 2.0, 3.0]))

    rate, decay, fine = 0.01, 0.9, 400
    start = np.array([0.5, -0.3, 0.8])
    options = {"optimizer": kind(decay, moments=4.0), "probes": {"point": lambda point: point, "moments": MOMENTS}}
    flow = ds.central_flow(jnp.asarray(start), bowl, rate, steps=8, critical=0, record=8, **options)
    point, moments = start.copy(), np.full(np.shape(of(start)), 4.0)
    for _ in range(8 * fine):  # the flow by Euler steps
        gradient = np.sinh(point) * np.array([1.0, 2.0, 3.0])
        change = (1 - decay) / decay * (of(gradient) - moments)
        point, moments = point - rate * gradient / np.sqrt(moments + 1e-8) / fine, moments + change / fine
    np.testing.assert_allclose(flow.trace.point[-1], point, rtol=1e-4)
    np.testing.assert_allclose(flow.trace.moments[-1], moments, rtol=1e-3)


@pytest.mark.parametrize("kind", [RMSProp, ScalarRMSProp])
def test_the_response_to_an_oscillation_is_that_of_dense_matrices(kind):
    """d/dt (U^T A U) with two eigenvalues at the edge, by differences of dense matrices, with an X and without it."""
    rng, n, rate, decay = np.random.default_rng(0), 5, 0.3, 0.95
    optimizer = kind(decay, eps=0.0)
    moments = rng.uniform(0.5, 2, n) if kind is RMSProp else np.array(1.3)
    scale = np.broadcast_to(np.sqrt(moments), n)
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = turn @ np.diag([2 / rate, 2 / rate, 1.0, 0.5, -1.0]) @ turn.T
    hessian, slope = np.sqrt(scale)[:, None] * matrix * np.sqrt(scale), rng.normal(size=n)
    cubic = rng.normal(size=(n, n, n))
    cubic = sum(
        np.transpose(cubic, order) for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0))
    )
    vectors = turn[:, :2].T
    covariance = rng.normal(size=(2, 2))
    covariance = covariance @ covariance.T

    def change(x):
        directions = vectors / np.sqrt(scale)
        sigma = directions.T @ x @ directions
        force, squares = np.einsum("ijn,ij->n", cubic, sigma) / 2, np.diag(hessian @ sigma @ hessian)
        total = slope**2 + squares if kind is RMSProp else np.sum(slope**2) + np.sum(squares)
        step, grown = -rate * (slope + force) / scale, (1 - decay) / decay * (total - moments)

        def projected(t):
            after = np.broadcast_to(np.sqrt(moments + t * grown), n) ** -0.5
            return vectors @ (after[:, None] * (hessian + t * np.einsum("ijn,n->ij", cubic, step)) * after) @ vectors.T

        return (projected(1e-5) - projected(-1e-5)) / 2e-5

    third = np.einsum("ia,jb,abn->ijn", vectors / np.sqrt(scale), vectors / np.sqrt(scale), cubic) / np.sqrt(scale)
    inner = jnp.asarray(np.sqrt(moments))
    response = rate / 2 * np.einsum("ijn,kln->ijkl", third, third)
    response = response + (2 / rate) ** 2 / rate * optimizer.response(jnp.asarray(vectors), inner)
    expected = -np.einsum("ijkl,kl->ij", response, covariance)
    np.testing.assert_allclose(change(covariance) - change(np.zeros((2, 2))), expected, rtol=1e-6)
    sigma = (vectors / np.sqrt(scale)).T @ covariance @ (vectors / np.sqrt(scale))
    added = np.diag(hessian @ sigma @ hessian)
    swing = (2 / rate) ** 2 * optimizer.swing(jnp.asarray(vectors), jnp.asarray(covariance), inner)
    np.testing.assert_allclose(swing, added if kind is RMSProp else added.sum(), rtol=1e-10)


def valley(point):
    """A curvature that differs by direction and grows along the floor."""
    x, y, z = point
    return (15 + 2 * z) * x**2 / 2 + (12 + 3 * z) * y**2 / 2 - 0.5 * z


@pytest.mark.parametrize("kind", [RMSProp, ScalarRMSProp])
def test_the_effective_sharpness_does_not_pass_the_edge(kind):
    def effective(snapshot):
        scale = jnp.broadcast_to(jnp.sqrt(snapshot.optimizer + 1e-8), 3)
        matrix = jax.hessian(valley)(snapshot.model)
        return jnp.linalg.eigvalsh(matrix / jnp.sqrt(scale[:, None] * scale))[-1]

    probes = {"effective": ds.probes.probe(effective), "oscillation": oscillation()}
    start, optimizer = jnp.array([0.01, 0.01, 0.0]), kind(0.9, moments=1.2)
    trace = ds.central_flow(start, valley, RATE, steps=80, optimizer=optimizer, probes=probes, record=1).trace
    assert float(trace.effective.max()) < 20 * (1 + 2e-3)
    np.testing.assert_allclose(trace.effective[-10:], 20, rtol=1e-3)
    assert np.all(trace.oscillation_residual < 1e-8)
    stable = ds.central_flow(
        start, valley, RATE, steps=80, optimizer=optimizer, probes=probes, critical=0, substeps=16, record=80
    ).trace
    assert float(stable.effective[-1]) > 22
    assert float(stable.oscillation[-1]) == 0


def test_rmsprop_of_optax_is_what_it_follows():
    optimizer = optax.rmsprop(RATE, decay=0.99, initial_scale=1.0)
    trace = ds.descend(
        jnp.array([0.05, 0.0]), channel, optimizer, steps=3000, probes={"point": lambda point: point}, record=1
    ).trace
    assert float((trace.point[1500:, 0] ** 2).mean()) == pytest.approx(KINDS[0][1], rel=0.05)


def test_another_optimizer_is_refused():
    with pytest.raises(TypeError, match="RMSProp"):
        ds.central_flow(jnp.zeros(2), channel, RATE, steps=1, optimizer=optax.rmsprop(0.1))
    with pytest.raises(ValueError, match="moments must have the shape"):
        ds.central_flow(jnp.zeros(2), channel, RATE, steps=1, optimizer=RMSProp(moments=jnp.ones(3)))
