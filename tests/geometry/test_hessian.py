"""Curvature against exact answers: dense Hessians, nested differentiation, exact polynomials, traces."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.geometry.hessian import flatten
from dynascope.probes.probe import probe


def regression(activation, *, dim=5, width=14, rows=40):
    """A network of 309 parameters and its squared loss; of the precision that is set."""
    net = ds.models.MLP(dim, 3, width=width, out=1, key=jax.random.key(3), activation=activation, bias=True)
    x = jax.random.normal(jax.random.key(1), (rows, dim))
    y = jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return net, lambda net: jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2), (x, y)


@pytest.mark.parametrize(
    ("activation", "x64", "tolerance", "agreement"),
    [("relu", False, 1e-5, 1e-6), ("relu", True, 1e-12, 1e-10), ("tanh", True, 1e-12, 1e-10)],
)
def test_eigenpairs_agree_with_the_dense_hessian(activation, x64, tolerance, agreement):
    with jax.enable_x64(x64):
        net, loss, _ = regression(activation)
        hessian = np.asarray(ds.geometry.dense_hessian(loss, net), np.float64)
        exact = np.linalg.eigvalsh(hessian)[::-1]
        found = ds.geometry.top_eigenpairs(loss, net, 4, tolerance=tolerance, dense=0)
        assert found.converged.all()
        np.testing.assert_allclose(found.values, exact[:4], rtol=0, atol=agreement * exact[0])
        rounding = 4 * float(jnp.finfo(found.values.dtype).eps) * exact[0]
        assert (np.abs(found.values - exact[:4]) <= np.asarray(found.residuals) + rounding).all()
        true_residuals = np.linalg.norm(
            hessian @ np.asarray(found.vectors).T - np.asarray(found.values) * found.vectors.T, axis=0
        )
        np.testing.assert_allclose(found.residuals, true_residuals, rtol=1e-2, atol=20 * rounding)


@pytest.mark.parametrize(("activation", "learning_rate"), [("tanh", 0.15), ("relu", 0.1)])
def test_the_residual_bounds_the_error_all_along_a_run_to_the_edge(activation, learning_rate):
    with jax.enable_x64(True):
        net, loss, _ = regression(activation, width=8)
        spectrum = probe(lambda snapshot: jnp.linalg.eigvalsh(ds.geometry.dense_hessian(loss, snapshot.model)), every=3)
        trace = ds.descend(
            net, loss, optax.sgd(learning_rate), steps=600, record=1,
            probes={"sharpness": ds.probes.sharpness(), "spectrum": spectrum},
        ).trace  # fmt: skip
    found = trace.sel(step=trace.spectrum_step.values)
    exact = trace.spectrum.values[:, -1]
    assert (exact > 1.98 / learning_rate).mean() > 0.2, "the run did not reach the edge"
    nearest = np.min(np.abs(trace.spectrum.values - found.sharpness.values[:, None]), axis=1)
    error = np.abs(found.sharpness.values - exact)
    assert (nearest <= found.sharpness_residual + 1e-12).all()
    assert (error <= found.sharpness_residual + 1e-12).all()
    assert (error <= 1e-3 * exact).all()
    assert trace.sharpness_products.mean() < 5


def test_directional_derivatives_agree_with_nested_reverse_differentiation():
    with jax.enable_x64(True):
        net, loss, _ = regression("tanh")
        flat = flatten(loss, net)
        direction = jax.random.normal(jax.random.key(2), flat.point.shape) / 5
        nested = [lambda t: flat.objective(flat.point + t * direction)]
        for _ in range(4):
            nested.append(jax.grad(nested[-1]))
        found = ds.geometry.directional_derivatives(loss, net, direction)
        expected = [float(jax.jit(derivative)(0.0)) for derivative in nested]
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def polynomial_loss(net, direction, x, y):
    """The squared loss of a ReLU network along a line, as the exact polynomial of the piece that t = 0 lies on.

    Coefficients in t are carried from layer to layer, z_k = W_0 a_k + W_1 a_(k-1), and each ReLU lets through what it
    lets through at t = 0.
    """
    values = [np.asarray(x)]
    for layer, (weight, bias, dweight, dbias) in enumerate(
        zip(net.weights, net.biases, direction.weights, direction.biases, strict=True)
    ):
        padded = [*values, np.zeros_like(values[0])]
        z = [a @ np.asarray(weight).T for a in padded]
        for k, a in enumerate(values):
            z[k + 1] = z[k + 1] + a @ np.asarray(dweight).T
        z[0], z[1] = z[0] + np.asarray(bias), z[1] + np.asarray(dbias)
        open_ = z[0] > 0 if layer < len(net.weights) - 1 else np.ones_like(z[0], bool)
        values = [np.where(open_, coefficient, 0) for coefficient in z]
    values = [value[:, 0] for value in values]
    values[0] = values[0] - np.asarray(y)
    total = np.zeros(2 * len(values) - 1)
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            total[i + j] += np.mean(left * right)
    return total


def test_directional_derivatives_of_a_relu_network_are_those_of_its_exact_polynomial():
    with jax.enable_x64(True):
        net, loss, (x, y) = regression("relu")
        direction = jax.tree.map(
            lambda leaf: jnp.cos(1.7 * jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape) / 5, net
        )
        coefficients = polynomial_loss(net, direction, x, y)
        found = ds.geometry.directional_derivatives(loss, net, direction, order=6)
        np.testing.assert_allclose(found, [math.factorial(k) * coefficients[k] for k in range(7)], rtol=1e-10)
        for t in (-1e-5, 1e-5):  # the polynomial is the loss, on this piece
            moved = jax.tree.map(lambda leaf, step, t=t: leaf + t * step, net, direction)
            assert float(loss(moved)) == pytest.approx(np.polyval(coefficients[::-1], t), rel=1e-13)


def test_moments_of_the_spectral_density_are_traces_of_powers():
    with jax.enable_x64(True):
        net, loss, _ = regression("tanh")
        spectrum = np.linalg.eigvalsh(ds.geometry.dense_hessian(loss, net))
        found = ds.geometry.spectral_density(loss, net, jax.random.key(0), draws=32, degree=12)
        np.testing.assert_allclose(found.moment(0)[0], spectrum.size, rtol=1e-10)
        for power in (1, 2, 3, 4):
            value, standard_error = found.moment(power)
            assert abs(value - np.sum(spectrum**power)) <= 4 * standard_error
            assert 0 < standard_error < 0.2 * np.sum(np.abs(spectrum) ** power)


def test_a_full_quadrature_is_exact_for_each_draw():
    """With as many products as there are directions the sum over nodes is v^T g(H) v itself."""
    with jax.enable_x64(True):
        curvatures = jnp.linspace(-1, 3, 12)
        found = ds.geometry.spectral_density(
            lambda x: jnp.sum(curvatures * x**2) / 2, jnp.zeros(12), jax.random.key(0), draws=4, degree=12
        )
        np.testing.assert_allclose(jnp.sort(found.nodes, axis=1), jnp.tile(curvatures, (4, 1)), atol=1e-10)
        np.testing.assert_allclose(found.weights, 1, rtol=1e-8)
        assert found.count_above(1.5)[0] == pytest.approx(5, abs=1e-8)


def bulk_and_outliers():
    return np.concatenate([np.linspace(0, 1, 190), np.linspace(5, 10, 10)])


@pytest.mark.parametrize(
    ("spectrum", "level", "degree", "within"),
    [
        (np.linspace(0, 1, 128), 0.499, 8, 20),
        (
            np.linspace(-1, 1, 200) ** 3,
            0.1,
            12,
            32,
        ),  # a sum over nodes says 40 +- 2 here, in all draws: the truth is 53
        (bulk_and_outliers(), 3.0, 32, 5),
        (bulk_and_outliers(), 0.5, 32, 20),
        (np.linspace(0, 1, 20), 0.5, 20, 4),
        (np.linspace(0, 1, 128), 1.5, 8, 0.01),
    ],
)
def test_counts_above_a_level_hold_the_truth(spectrum, level, degree, within):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(spectrum.size, spectrum.size)))[0]
    matrix = jnp.asarray(turn * spectrum @ turn.T, jnp.float32)
    truth = int(np.sum(spectrum > level))

    def loss(x):
        return x @ matrix @ x / 2

    for seed in range(10):
        found = ds.geometry.spectral_density(loss, jnp.zeros(spectrum.size), jax.random.key(seed), degree=degree)
        count, error = found.count_above(level)
        assert abs(count - truth) <= error <= within


@pytest.mark.parametrize(("above", "draws"), [(1, 4), (1, 16), (3, 8), (10, 16), (59, 16)])
def test_counts_hold_the_truth_over_many_draws(above, draws):
    spectrum = np.where(np.arange(60) < above, 3.0, np.linspace(0, 1, 60))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 60)))[0]
    matrix = jnp.asarray(turn * spectrum @ turn.T, jnp.float32)

    @jax.jit
    def counted(key):
        found = ds.geometry.spectral_density(lambda x: x @ matrix @ x / 2, jnp.zeros(60), key, draws=draws, degree=12)
        return jnp.stack(found.count_above(2.0))

    count, error = jax.lax.map(counted, jax.random.split(jax.random.key(0), 1000)).T
    assert np.mean(np.abs(count - above) <= error) >= 0.99


def test_a_level_that_is_an_eigenvalue_many_times_is_not_resolved():
    curvatures = jnp.repeat(jnp.arange(3.0), 20)
    found = ds.geometry.spectral_density(lambda x: jnp.sum(curvatures * x**2) / 2, jnp.zeros(60), jax.random.key(0))
    np.testing.assert_allclose(found.count_above(1.0), (30, 10), rtol=1e-3)  # 20 above it, 40 with those at it
    np.testing.assert_allclose(found.count_above(1.5), (20, 0), atol=1e-3)
