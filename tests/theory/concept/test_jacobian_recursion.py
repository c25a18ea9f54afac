"""The recursion of the Jacobian against gradients, finite differences and its own matrix form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.concept import jacobian_recursion as recursion
from dynascope.theory.concept.linear_loss import combined_means, out_of_distribution_loss, population_loss


def model(dim, width, seed=0, batch=()):
    rng = np.random.default_rng(seed)
    U = jnp.asarray(0.5 * rng.standard_normal((*batch, dim, width)))
    return U, jnp.asarray(rng.uniform(0.2, 3, dim))


SHAPES = [(2, 2), (3, 5), (4, 4), (12, 12)]


@pytest.mark.parametrize(("dim", "width"), SHAPES)
def test_the_gradient_is_that_of_automatic_differentiation(dim, width):
    U, a = model(dim, width)
    automatic = jax.grad(lambda U: population_loss(U @ U.T, a))(U)
    np.testing.assert_allclose(recursion.gradient(U, a), automatic, rtol=1e-12, atol=1e-13)


def test_the_gradient_agrees_with_finite_differences():
    U, a = model(3, 4)
    step = 1e-6
    for k in np.ndindex(3, 4):
        up, down = U.at[k].add(step), U.at[k].add(-step)
        difference = (population_loss(up @ up.T, a) - population_loss(down @ down.T, a)) / (2 * step)
        np.testing.assert_allclose(recursion.gradient(U, a)[k], difference, atol=1e-8)


@pytest.mark.parametrize(("dim", "width"), SHAPES)
def test_the_flow_is_what_gradient_flow_on_the_factor_does_to_the_jacobian(dim, width):
    U, a = model(dim, width)
    velocity = -recursion.gradient(U, a)
    along = jax.jvp(lambda U: U @ U.T, (U,), (velocity,))[1]
    np.testing.assert_allclose(recursion.flow(U @ U.T, a), along, rtol=1e-12, atol=1e-12)


def test_the_printed_equation_is_half_of_the_flow():
    U, a = model(4, 4)
    W = U @ U.T
    printed = recursion.growth(W, a) - recursion.suppression(W, a) - recursion.noise(W, a)
    np.testing.assert_allclose(recursion.flow(W, a) / printed, 2, rtol=1e-12)


@pytest.mark.parametrize(("dim", "width"), SHAPES)
def test_growth_suppression_and_noise_sum_to_the_matrix_form(dim, width):
    U, a = model(dim, width, batch=(6,))
    W, A = recursion.jacobian_of(U), jnp.diag(a)
    terms = recursion.growth(W, a) - recursion.suppression(W, a) - recursion.noise(W, a)
    matrix = W @ A + A @ W - 0.5 * (A @ W @ W + W @ W @ A + 2 * W @ A @ W)
    scale = jnp.max(jnp.abs(matrix))
    assert jnp.max(jnp.abs(terms - matrix)) < 1e-13 * scale
    assert jnp.max(jnp.abs(recursion.velocity(W, a) - matrix)) < 1e-13 * scale


def test_each_term_is_the_sum_the_paper_prints():
    U, a = model(4, 4)
    W = np.asarray(U @ U.T)
    for i, j in np.ndindex(4, 4):
        G = W[i, j] * (a[i] + a[j])
        S = 0.5 * W[i, j] * (W[i, i] * (3 * a[i] + a[j]) + (i != j) * W[j, j] * (3 * a[j] + a[i]))
        N = 0.5 * sum(W[k, i] * W[k, j] * (a[i] + a[j] + 2 * a[k]) for k in range(4) if k not in (i, j))
        np.testing.assert_allclose(recursion.growth(jnp.asarray(W), a)[i, j], G, rtol=1e-13)
        np.testing.assert_allclose(recursion.suppression(jnp.asarray(W), a)[i, j], S, rtol=1e-13)
        np.testing.assert_allclose(recursion.noise(jnp.asarray(W), a)[i, j], N, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("dim", "width"), SHAPES)
def test_gradient_descent_adds_exactly_the_dropped_term(dim, width):
    U, a = model(dim, width)
    eta = 0.05
    after = recursion.jacobian_of(recursion.factor_gd(U, a, eta))
    W = recursion.jacobian_of(U)
    increment = (after - W) / eta
    remainder = increment - recursion.velocity(W, a) - recursion.dropped_term(U, a, eta)
    assert jnp.max(jnp.abs(remainder)) < 1e-12 * jnp.max(jnp.abs(increment))
    assert jnp.max(jnp.abs(recursion.dropped_term(U, a, eta))) > 1e-3
    np.testing.assert_allclose(recursion.jacobian_euler(W, a, eta), W + eta * recursion.velocity(W, a))


def test_factor_gd_is_gradient_descent_with_half_the_paper_step():
    U, a = model(3, 3)
    learning_rate = 0.01
    plain = U - learning_rate * jax.grad(lambda U: population_loss(U @ U.T, a))(U)
    np.testing.assert_allclose(recursion.factor_gd(U, a, 2 * learning_rate), plain, atol=1e-15)


def test_the_rank_of_the_start_is_kept():
    U, a = model(4, 2)
    for _ in range(200):
        U = recursion.factor_gd(U, a, 0.02)
    singular = jnp.linalg.svd(recursion.jacobian_of(U), compute_uv=False)
    assert jnp.sum(singular > 1e-12) == 2


def test_the_flow_turns_with_the_data():
    """Rotating `A` and `W` together rotates the flow: analysis in concept axes loses nothing."""
    U, a = model(3, 3)
    Q = jnp.linalg.qr(jnp.asarray(np.random.default_rng(5).standard_normal((3, 3))))[0]
    W, A = Q @ U @ U.T @ Q.T, Q @ jnp.diag(a) @ Q.T
    rotated = 2 * (W @ A + A @ W) - (A @ W @ W + W @ W @ A + 2 * W @ A @ W)
    np.testing.assert_allclose(Q.T @ rotated @ Q, recursion.flow(U @ U.T, a), atol=1e-12)


def test_losses_of_the_identity_and_of_nothing():
    a, mu = jnp.asarray([0.5, 2.0, 0.0]), jnp.asarray([1.0, 2.0])
    z = combined_means(mu, 3)
    np.testing.assert_allclose(z, [1, 2, 0])
    assert population_loss(jnp.eye(3), a) == 0
    assert population_loss(jnp.zeros((3, 3)), a) == 1.25
    assert out_of_distribution_loss(jnp.eye(3), z) == 0
    assert out_of_distribution_loss(jnp.zeros((3, 3)), z) == 2.5
    W = jnp.asarray(np.random.default_rng(0).standard_normal((5, 3, 3)))
    np.testing.assert_allclose(out_of_distribution_loss(W, z), [0.5 * jnp.sum((w @ z - z) ** 2) for w in W], rtol=1e-13)
