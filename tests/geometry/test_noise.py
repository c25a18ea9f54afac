"""Noise of minibatch gradients, against its definition and against known noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.geometry import batch_sharpness, gradient_noise, linear_cka

KEY = jax.random.key(0)


def loss(w, batch):
    """Half the mean squared error of a linear regression: the gradient of a row is (x·w - y) x, its Hessian x xᵀ."""
    x, y = batch
    return jnp.mean((x @ w - y) ** 2) / 2


def problem(count, dim=5, noise=0.5):
    x = jax.random.normal(jax.random.fold_in(KEY, 1), (count, dim))
    w = jnp.arange(1.0, dim + 1)
    return jnp.zeros(dim), (x, x @ w + noise * jax.random.normal(jax.random.fold_in(KEY, 2), (count,)))


def test_the_parts_are_those_of_the_definition():
    w, (x, y) = problem(60)
    found = gradient_noise(loss, w, (x, y))
    rows = np.asarray(x * (x @ w - y)[:, None], float)
    variance = rows.var(axis=0, ddof=1).sum()
    squared = (rows.mean(axis=0) ** 2).sum() - variance / 60
    np.testing.assert_allclose(found.variance, variance, rtol=1e-5)
    np.testing.assert_allclose(found.squared_norm, squared, rtol=1e-5)
    np.testing.assert_allclose(found.scale, variance / squared, rtol=1e-5)


def test_the_error_is_the_scatter_of_the_estimate():
    def estimate(key):
        x, noise = jax.random.normal(key, (200, 5)), jax.random.normal(jax.random.fold_in(key, 1), (200,))
        found = gradient_noise(loss, jnp.zeros(5), (x, x @ jnp.arange(1.0, 6.0) + noise))
        return found.scale, found.error

    scales, errors = jax.lax.map(estimate, jax.random.split(KEY, 300))
    assert 0.85 < errors.mean() / scales.std() < 1.15


def test_groups_of_rows_estimate_the_same_scale():
    w, data = problem(4000)
    single, grouped = (gradient_noise(loss, w, data, rows=rows) for rows in (1, 10))
    assert abs(single.scale - grouped.scale) < 3 * (single.error + grouped.error)
    assert grouped.error > single.error


def test_many_rows_are_taken_in_parts(monkeypatch):
    import dynascope.geometry.noise as module

    w, data = problem(61)
    whole = gradient_noise(loss, w, data)
    monkeypatch.setattr(module, "AT_ONCE", 7 * w.size)
    jax.clear_caches()
    np.testing.assert_allclose(gradient_noise(loss, w, data).scale, whole.scale, rtol=1e-5)


def test_a_gradient_that_is_lost_in_noise_has_no_scale():
    x = jnp.concatenate([jnp.eye(2), jnp.eye(2)])
    found = gradient_noise(loss, jnp.zeros(2), (x, jnp.array([1.0, 1.0, -1.0, -1.0])))
    assert np.isnan(found.scale)
    np.testing.assert_allclose(found.variance, 4 / 3, rtol=1e-6)


def test_batch_sharpness_of_single_rows_is_that_of_their_outer_products():
    w, (x, y) = problem(30)
    found = batch_sharpness(loss, w, (x, y), batch=1, key=KEY, draws=4000)
    squares, residuals = np.asarray(jnp.sum(x**2, axis=1), float), np.asarray(y, float) ** 2
    exact = (squares**2 * residuals).mean() / (squares * residuals).mean()
    assert abs(found.value - exact) < 4 * found.error
    assert found.error < 0.05 * exact


def test_batch_sharpness_of_all_rows_is_the_curvature_along_the_gradient():
    w, (x, y) = problem(30)
    found = batch_sharpness(loss, w, (x, y), batch=30, key=KEY, draws=3)
    gradient, hessian = -x.T @ y / 30, x.T @ x / 30
    np.testing.assert_allclose(found.value, gradient @ hessian @ gradient / (gradient @ gradient), rtol=1e-5)
    assert found.error < 1e-5 * found.value


def test_alignment_is_that_of_the_formula_and_invariant():
    x, y = jax.random.normal(KEY, (40, 6)), jax.random.normal(jax.random.fold_in(KEY, 3), (40, 9))
    a, b = (np.asarray(values - values.mean(axis=0), float) for values in (x, y))
    direct = np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b)
    np.testing.assert_allclose(linear_cka(x, y), direct, rtol=1e-5)
    np.testing.assert_allclose(linear_cka(x[:5], y[:5]), linear_cka(jnp.pad(x[:5], ((0, 0), (0, 3))), y[:5]), rtol=1e-5)
    rotation = jnp.linalg.qr(jax.random.normal(KEY, (6, 6)))[0]
    np.testing.assert_allclose(linear_cka(x, 1e15 * x @ rotation + 3e15), 1, rtol=1e-5)
    assert np.isnan(linear_cka(x, jnp.ones((40, 2))))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_noise(loss, jnp.zeros(5), problem(10)[1], rows=6), "rows must be"),
        (lambda: batch_sharpness(loss, jnp.zeros(5), problem(10)[1], batch=11, key=KEY), "batch must be"),
        (lambda: linear_cka(jnp.ones((3, 2)), jnp.ones((4, 2))), "one row for each example; got 3 and 4 rows"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_batch_sharpness_is_the_ratio_of_means_over_all_batches_by_dense_matrices():
    """E[g.Hg] / E[|g|^2] by the dense Hessian of each of the 28 batches of two of eight rows."""
    keys = jax.random.split(jax.random.key(5), 3)
    x, y, w = jax.random.normal(keys[0], (8, 3)), jax.random.normal(keys[1], (8,)), jax.random.normal(keys[2], (3,))

    def squared(w, rows):
        return jnp.mean((jnp.tanh(rows[0] @ w) - rows[1]) ** 2)

    pairs = jnp.stack(jnp.triu_indices(8, 1), axis=1)
    gradients = jax.vmap(lambda pair: jax.grad(squared)(w, (x[pair], y[pair])))(pairs)
    hessians = jax.vmap(lambda pair: jax.hessian(squared)(w, (x[pair], y[pair])))(pairs)
    along, sizes = jnp.einsum("bi,bij,bj->b", gradients, hessians, gradients), jnp.sum(gradients**2, axis=1)
    found = batch_sharpness(squared, w, (x, y), batch=2, key=KEY, draws=20_000)
    exact = float(along.mean() / sizes.mean())
    assert abs(float(found.value) - exact) < 4 * float(found.error) < 0.1 * abs(exact)
