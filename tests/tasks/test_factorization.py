"""Factorizations and the extended separable model against autodiff."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks.factorization import (
    Factorization,
    SymmetricFactorization,
    generic_start,
    generic_starts,
    matmul,
    quasi_symmetric_start,
)
from dynascope.tasks.separable import ExtendedLoss, SeparableLoss


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("shape", [(4, 2, 3), (12, 11, 10)])
def test_gradients_and_hessian_products_are_those_of_the_loss(shape):
    m, q, _ = shape
    task = Factorization(jax.random.normal(jax.random.key(0), (m, q)))
    factors, direction = (generic_start(jax.random.key(k), shape, 0.7) for k in (1, 2))

    @jax.jit
    def both(factors, direction):
        written = task.gradient(factors), task.hessian_product(factors, direction)
        return written, jax.jvp(jax.grad(task), (factors,), (direction,))

    written, derived = both(factors, direction)
    for one, other in zip(jax.tree.leaves(written), jax.tree.leaves(derived), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_symmetric_gradient_is_that_of_its_loss():
    root = jax.random.normal(jax.random.key(0), (4, 4))
    task, X = SymmetricFactorization(root @ root.T), jax.random.normal(jax.random.key(1), (4, 4))
    np.testing.assert_allclose(eqx.filter_jit(task.gradient)(X), jax.jit(lambda X: jax.grad(task)(X))(X), atol=1e-12)
    assert task(root) < 1e-24


def test_a_quasi_symmetric_start_without_noise_is_a_minimum():
    root = jax.random.normal(jax.random.key(0), (5, 5))
    start = quasi_symmetric_start(root, 0.8, generic_start(jax.random.key(1), (5, 5, 5), 0.0))
    assert Factorization(root @ root.T)(start) < 1e-24
    np.testing.assert_allclose(start["Y"], 0.64 * start["Z"], rtol=1e-12)


def test_generic_starts_take_one_scale_for_each():
    start = generic_starts(np.random.default_rng(0), 2, 50, [0.1, 10.0])
    np.testing.assert_allclose(start["Y"].std((1, 2)), [0.1, 10.0], rtol=0.05)


def test_only_rate_times_spectrum_matters():
    task, factors = Factorization(jnp.diag(jnp.asarray([1.0, 0.3]))), generic_start(jax.random.key(0), (2, 2, 2), 0.3)
    scaled, large = Factorization(9 * task.target), jax.tree.map(lambda leaf: 3 * leaf, factors)
    for _ in range(20):
        factors, large = task.step(factors, 1.05), scaled.step(large, 1.05 / 9)
    np.testing.assert_allclose(large["Y"], 3 * factors["Y"], rtol=1e-10)


def test_short_products_are_matrix_products():
    left, right = jax.random.normal(jax.random.key(0), (3, 5)), jax.random.normal(jax.random.key(1), (5, 2))
    np.testing.assert_allclose(matmul(left, right), left @ right, atol=1e-14)


def test_all_pairs_is_symmetric_factorization_and_no_pairs_is_separate_problems():
    strengths, X = jnp.asarray([1.3, 1.1, 0.4]), jax.random.normal(jax.random.key(0), (3, 3))
    coupled, apart = ExtendedLoss(strengths, jnp.ones((3, 3))), ExtendedLoss(strengths, jnp.zeros((3, 3)))
    symmetric = SymmetricFactorization(jnp.diag(strengths))
    np.testing.assert_allclose(coupled(X), symmetric(X), rtol=1e-12)
    np.testing.assert_allclose(coupled.step(X, 0.3), symmetric.step(X, 0.3), atol=1e-12)
    np.testing.assert_allclose(apart(X), jnp.sum((jnp.sum(X**2, axis=1) - strengths) ** 2) / 4, rtol=1e-12)
    shifted = ExtendedLoss(strengths, jnp.ones((3, 3)), 0.2)
    np.testing.assert_allclose(
        eqx.filter_jit(shifted.gradient)(X), jax.jit(lambda X: jax.grad(shifted)(X))(X), atol=1e-12
    )


def test_a_separable_loss_moves_each_direction_by_itself():
    turn = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (2, 2)))[0]
    task = SeparableLoss((lambda t: (t**2 - 1) ** 2 / 4, lambda t: t**2), turn)
    theta = jnp.asarray([0.4, -0.7])
    along, moved = turn @ theta, turn @ task.step(theta, 0.1)
    expected = [along[0] - 0.1 * (along[0] ** 2 - 1) * along[0], 0.8 * along[1]]
    np.testing.assert_allclose(moved, expected, atol=1e-14)
