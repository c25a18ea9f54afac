"""Hessian-vector products, eigenpairs and the gradient of the sharpness, on losses whose Hessian is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds
from dynascope.geometry.hessian import flatten


class Quadratic(eqx.Module):
    """A loss with given curvatures along given orthogonal directions; a module, so that it is compiled once a shape."""

    curvatures: jax.Array
    columns: jax.Array

    def __call__(self, x):
        return jnp.sum(self.curvatures * (x @ self.columns) ** 2) / 2


def quadratic(eigenvalues, seed=0):
    """A quadratic loss with these curvatures along random orthogonal directions (the columns returned)."""
    size = len(eigenvalues)
    columns = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0].astype(np.float32)
    return Quadratic(jnp.asarray(eigenvalues, jnp.float32), jnp.asarray(columns)), columns


def falling(size, top=10.0):
    return top * 0.8 ** np.arange(size)


def test_products_take_and_give_pytrees_or_flat_vectors():
    def loss(p):
        return p["a"] ** 2 * p["b"][0] + jnp.sum(p["b"] ** 3) + p["steps"] * p["a"]

    params = {"a": jnp.array(2.0), "b": jnp.array([1.0, 3.0]), "steps": 5}
    image = ds.geometry.hessian_vector_product(
        loss, params, {"a": jnp.array(1.0), "b": jnp.array([0.0, 1.0]), "steps": None}
    )
    assert (float(image["a"]), image["b"].tolist(), image["steps"]) == (2.0, [4.0, 18.0], 5)
    assert ds.geometry.hessian_vector_product(loss, params, jnp.array([1.0, 0.0, 1.0])).tolist() == [2.0, 4.0, 18.0]
    assert ds.geometry.dense_hessian(loss, params).tolist() == [[2, 4, 0], [4, 6, 0], [0, 0, 18]]


def test_parameters_without_floating_point_numbers_are_refused():
    with pytest.raises(TypeError, match="floating-point"):
        ds.geometry.dense_hessian(lambda p: 0.0, {"n": 3})


@pytest.mark.parametrize(("size", "k", "dense"), [(1, 1, 0), (2, 2, 0), (40, 3, 400), (40, 3, 0), (600, 2, 0)])
def test_the_largest_eigenvalues_of_a_quadratic(size, k, dense):
    loss, columns = quadratic(falling(size))
    found = ds.geometry.top_eigenpairs(loss, jnp.ones(size), k, dense=dense, tolerance=4e-6)  # float32 rounds
    np.testing.assert_allclose(found.values, falling(size)[:k], rtol=3e-6)
    np.testing.assert_allclose(jnp.abs(jnp.sum(found.vectors * columns.T[:k], axis=1)), 1, atol=1e-4)
    assert found.converged.all()
    assert (found.angles < 1e-2).all()


def test_magnitude_finds_negative_curvature_and_largest_does_not():
    loss, _ = quadratic(np.concatenate([falling(599, 2.0), [-5.0]]))
    at = jnp.ones(600)
    assert float(ds.geometry.top_eigenpairs(loss, at, which="magnitude", dense=0).values[0]) == pytest.approx(-5, 1e-5)
    assert float(ds.geometry.top_eigenpairs(loss, at, dense=0).values[0]) == pytest.approx(2, 1e-5)


def test_repeated_eigenvalues_do_not_stop_it():
    loss, _ = quadratic([3.0, 3.0, 3.0, *falling(597, 1.0)])
    found = ds.geometry.top_eigenpairs(loss, jnp.ones(600), 2, dense=0)
    assert float(found.values[0]) == pytest.approx(3, 1e-5)
    flat, _ = quadratic(np.zeros(600))
    assert ds.geometry.top_eigenpairs(flat, jnp.ones(600), 2, dense=0).values.tolist() == [0, 0]


def test_too_few_products_are_told():
    loss, _ = quadratic(np.linspace(0.9, 1.0, 600))
    found = ds.geometry.top_eigenpairs(loss, jnp.ones(600), tolerance=1e-7, max_products=5)
    assert not found.converged.any()
    assert int(found.products) == 5
    assert abs(float(found.values[0]) - 1) <= float(found.residuals[0])


@pytest.mark.parametrize("warm", [1, 2])
def test_a_warm_start_in_eigenvectors_that_are_no_longer_on_top_is_left(warm):
    """Columns 3 and 4 were on top; no product of theirs leads elsewhere."""
    loss, columns = quadratic(falling(600))
    found = ds.geometry.top_eigenpairs(loss, jnp.zeros(600), start=columns.T[3 : 3 + warm], tolerance=1e-3)
    assert float(found.values[0]) == pytest.approx(10, 1e-3)


def test_it_compiles_once_and_runs_under_vmap_and_scan():
    curvatures = jnp.stack([jnp.asarray(np.roll(falling(50), shift), jnp.float32) for shift in range(4)])

    def value(scale, curvature):
        found = ds.geometry.top_eigenpairs(lambda x: jnp.sum(scale * curvature * x**2) / 2, jnp.ones(50), dense=0)
        return found.values[0]

    scales = jnp.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(jax.vmap(value)(scales, curvatures), 10 * scales, rtol=1e-5)
    _, scanned = jax.lax.scan(lambda c, s: (c, value(s, curvatures[0])), 0, scales)
    np.testing.assert_allclose(scanned, 10 * scales, rtol=1e-5)

    traced = []

    def loss(x):
        traced.append(1)
        return jnp.sum(x**2)

    ds.geometry.top_eigenpairs(loss, jnp.ones(4))
    before = len(traced)
    ds.geometry.top_eigenpairs(loss, jnp.zeros(4))
    assert len(traced) == before


def test_the_gradient_of_the_sharpness_is_that_of_finite_differences():
    with jax.enable_x64(True):
        net = ds.models.MLP(3, 2, width=5, out=1, key=jax.random.key(0), activation="tanh", bias=True)
        x = jax.random.normal(jax.random.key(1), (20, 3))

        def loss(net):
            return jnp.mean((jax.vmap(net)(x)[:, 0] - jnp.sin(x[:, 0])) ** 2)

        flat = flatten(loss, net)
        top = ds.geometry.top_eigenpairs(loss, net).vectors[0]
        gradient, _ = jax.flatten_util.ravel_pytree(jax.tree.leaves(ds.geometry.sharpness_gradient(loss, net, top)))
        direction = jax.random.normal(jax.random.key(2), gradient.shape)
        h = 1e-5
        ends = [ds.geometry.top_eigenpairs(loss, flat.unflatten(flat.point + s * h * direction)) for s in (1, -1)]
        difference = (ends[0].values[0] - ends[1].values[0]) / (2 * h)
        assert float(gradient @ direction) == pytest.approx(float(difference), rel=1e-7)
