"""The reduced flow against the plain one, an independent integrator, and its own closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynascope as ds
from dynascope.models import AttentionHead, Diagonal
from dynascope.tasks.diagonal import DiagonalRegression, QuadraticLoss, exit_and_return, toy_head
from dynascope.theory.rank import diagonal_flow
from dynascope.theory.rank.diagonal_flow import Reduced, reduce_weights, reduced_flow


def small_head(seed=0, dim=3, tokens=3, samples=20):
    head = toy_head(seed, dim, tokens, samples)
    network, x = AttentionHead(dim), jnp.asarray(head.x)
    y = jax.vmap(lambda one: network(one, jnp.asarray(head.teacher)))(x)
    return head, DiagonalRegression(network, x, y)


def linear():
    example = exit_and_return()
    return example, QuadraticLoss(jnp.asarray(example.S), jnp.asarray(example.c))


def test_reduced_coordinates_give_back_the_weights_up_to_order_and_sign():
    u, v = jnp.array([0.3, -2.0, 0.1, -0.4]), jnp.array([-1.0, 0.5, 0.05, -0.2])
    point = reduce_weights(u, v)
    np.testing.assert_allclose(diagonal_flow.product(point), u * v, rtol=1e-12)
    back = diagonal_flow.weights(point)
    np.testing.assert_allclose(back.u, jnp.maximum(jnp.abs(u), jnp.abs(v)), rtol=1e-12)
    np.testing.assert_allclose(back.u**2 - back.v**2, jnp.abs(diagonal_flow.conserved_quantity(u, v)), rtol=1e-12)


def test_the_closed_form_of_the_head_is_its_gradient():
    _, task = small_head()
    beta = jnp.asarray(np.random.default_rng(1).normal(size=6))
    closed = diagonal_flow.head_force(task.x, task.y, beta)
    np.testing.assert_allclose(closed, diagonal_flow.force(task, beta), rtol=1e-10)
    assert float(jnp.abs(diagonal_flow.head_force(task.x, task.y, jnp.zeros(6))[:3]).max()) == 0


def test_at_a_moderate_scale_it_is_the_flow_of_the_weights_themselves():
    head, task = small_head()
    times = np.linspace(0, 2, 5)
    scale, pace = 0.1, np.log(10)
    short = reduced_flow(task, head.u, head.v, [scale], times, tolerance=1e-10)
    model = Diagonal(jnp.asarray(scale * head.u), jnp.asarray(scale * head.v), task.network)
    probes = {
        "product": lambda model: model.product(),
        "loss": ds.probes.loss(),
        "u": lambda model: model.u,
        "v": lambda model: model.v,
    }
    long = ds.flow(model, task, times=pace * times, probes=probes, solver=diagonal_flow.diffrax.Tsit5()).trace
    np.testing.assert_allclose(short.product[0], long["product"], atol=1e-7)
    np.testing.assert_allclose(short.loss[0], long.loss, atol=1e-8)
    kappa = diagonal_flow.conserved_quantity(model.u, model.v)
    residual = diagonal_flow.conservation_residual(
        jnp.asarray(long.u[-1].values), jnp.asarray(long.v[-1].values), kappa
    )
    assert float(residual) < 1e-8


@pytest.mark.parametrize("scale", [1e-8, 1e-128])
def test_scipy_follows_the_same_path(scale):
    example, task = linear()
    pace = -np.log(scale)
    log_kappa = np.log(np.abs(example.u**2 - example.v**2)) - 2 * pace
    large, small = np.maximum(abs(example.u), abs(example.v)), np.minimum(abs(example.u), abs(example.v))
    z = np.sign(example.u * example.v) * np.arctanh(small / large)

    def velocity(_, z):
        base = log_kappa - np.log(4)
        beta = np.sign(z) * (np.exp(np.minimum(base + 2 * abs(z), 14)) - np.exp(base - 2 * abs(z)))
        return pace * (example.c - example.S @ beta)

    times = np.array([0.1, 0.6, 1.5, 4.5, 7.0, 8.9])
    theirs = solve_ivp(velocity, (0, 9), z, "LSODA", times, rtol=1e-9, atol=1e-9).y.T
    ours = reduced_flow(task, example.u, example.v, [scale], times, tolerance=1e-9)
    b = -(log_kappa / 2 + theirs) / pace
    np.testing.assert_allclose(ours.log_weight[0], b, atol=2e-6)
    beta = diagonal_flow.product(Reduced(jnp.asarray(log_kappa), jnp.asarray(theirs)))
    np.testing.assert_allclose(ours.product[0], beta, atol=1e-5)


def test_the_implicit_solver_agrees():
    example, task = linear()
    times = [0.6, 7.0]
    explicit = reduced_flow(task, example.u, example.v, [1e-16], times)
    implicit = reduced_flow(task, example.u, example.v, [1e-16], times, solver=diagonal_flow.stiff_solver())
    np.testing.assert_allclose(explicit.product, implicit["product"], atol=1e-4)


def test_the_linear_example_passes_its_plateaus_with_exit_and_return():
    example, task = linear()
    trace = reduced_flow(task, example.u, example.v, [1e-32], [0.1, 0.6, 1.5, 4.5, 7.0, 8.9])
    expected = [
        [0, 0, 0, 0], [0, 0, -0.9557, 0], [1.8306, 0, 0, 0], [1.4381, 0, 0, -0.6641], [1.5443, 0.2463, 0, -0.4732],
        [2.4445, 0.3059, 0.5365, -0.3607],
    ]  # fmt: skip
    error = np.abs(trace.product.values[0] - expected).max(axis=1)
    assert np.all(error[[0, 1, 3, 4, 5]] < 1e-4)
    assert error[2] < 1e-3


@pytest.mark.parametrize(("scale", "keeps"), [(1e-4, True), (1e-16, False)])
def test_the_flow_of_the_weights_loses_the_return(scale, keeps):
    """Rounding replaces u - v, about alpha^2, and the coordinate that left does not come back when it should."""
    example, task = linear()
    pace = -np.log(scale)
    times = np.linspace(2.0, 8.5, 131)
    start = [jnp.asarray(scale * part) for part in (example.u, example.v)]
    plain = np.asarray(diagonal_flow.plain_flow(task, *start, jnp.asarray(pace * times)))
    exact = reduced_flow(task, example.u, example.v, [scale], times)["product"].values[0]
    assert np.all(np.isfinite(plain))
    assert abs(times[np.argmax(exact[:, 2] > 0.25)] - 7.22) < 0.06
    there = np.argmin(np.abs(times - 7.6))
    assert bool(abs(plain[there, 2] - exact[there, 2]) < 1e-3) is keeps


def test_bad_starts_get_one_line():
    example, task = linear()
    for scale in (0.0, 1.0, -1e-3):
        with pytest.raises(ValueError, match=f"scale must be a finite number, above 0 and below 1; got {scale:g}"):
            reduced_flow(task, example.u, example.v, [scale], [1.0])
    with pytest.raises(ValueError, match="vectors of one length"):
        reduced_flow(task, example.u, example.v[:3], [0.1], [1.0])
    with pytest.raises(ValueError, match="at coordinate 1"):
        reduced_flow(task, example.u, np.where(np.arange(4) == 1, -example.u, example.v), [0.1], [1.0])
