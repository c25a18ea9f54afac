"""Many scalar inputs, and quadratic models in general, against gradient descent in weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.catapult import general_quadratic, quadratic_many, quadratic_model
from dynascope.theory.catapult.gated_network import two_sided_network
from dynascope.theory.catapult.quadratic_model import State


@pytest.mark.parametrize("product", [1.5, 3.0])
def test_both_recursions_are_gradient_descent(product):
    net = two_sided_network(width=1000)
    x, y, gates = jnp.asarray(net.x[:, 0]), jnp.asarray(net.y), jnp.asarray(net.u[:, 0])
    rate = product / np.linalg.eigvalsh(net.kernel())[-1]
    residual, kernel = jnp.asarray(net.outputs() - net.y), jnp.asarray(net.kernel())
    lambdas = quadratic_many.kernel_eigenvalues(x, gates, jnp.asarray(net.v), gates)
    np.testing.assert_allclose(quadratic_many.kernel(lambdas, x), net.kernel(), atol=1e-12)
    state = State(quadratic_many.components(residual, x), lambdas)
    labels, curvatures = quadratic_many.components(y, x), quadratic_many.curvatures(x, 1000)
    other = float(quadratic_many.constant_loss(residual, x))
    matrix_step = jax.jit(lambda r, K: quadratic_many.matrix_step(r, K, y, x, rate, 1000))
    step = jax.jit(lambda state: quadratic_many.step(state, rate, labels, curvatures))
    for _ in range(25):
        net.step(rate)
        residual, kernel = matrix_step(residual, kernel)
        state = step(state)
        true = net.outputs() - net.y
        size = np.abs(true).max()
        np.testing.assert_allclose(residual, true, atol=1e-10 * size)
        np.testing.assert_allclose(kernel, net.kernel(), atol=1e-10 * np.abs(kernel).max())
        np.testing.assert_allclose(
            state.residual, quadratic_many.components(jnp.asarray(true), x), atol=1e-10 * size * 12
        )
        now = quadratic_many.kernel_eigenvalues(x, jnp.asarray(net.u[:, 0]), jnp.asarray(net.v), gates)
        np.testing.assert_allclose(state.kernel, now, rtol=1e-10)
        assert float(quadratic_many.constant_loss(jnp.asarray(true), x)) == pytest.approx(other, rel=1e-9)


def test_the_kernel_has_rank_two_and_its_top_is_where_the_proposition_says():
    for seed in range(20):
        net = two_sided_network(seed=seed, width=1000)
        eigenvalues = np.linalg.eigvalsh(net.kernel())
        assert abs(eigenvalues[-3]) < 1e-10 * eigenvalues[-1]
        low, high = quadratic_many.initial_top(jnp.asarray(net.x[:, 0]))
        assert float(low) <= eigenvalues[-1] <= float(high)


def test_inputs_of_one_sign_have_one_direction():
    x, vector = jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([1.0, 0.0, -1.0])
    for sign in (1, -1):
        there = 0 if sign > 0 else 1
        found = quadratic_many.components(vector, sign * x)
        assert float(found[there]) == pytest.approx(sign * -2 / np.sqrt(14))
        assert float(found[1 - there]) == 0
        lambdas = jnp.zeros(2).at[there].set(7.0)
        np.testing.assert_allclose(quadratic_many.kernel(lambdas, sign * x), jnp.outer(x, x) / 2, rtol=1e-12)
        assert float(quadratic_many.constant_loss(vector, sign * x)) == pytest.approx((2 - 4 / 14) / 2)


def test_the_loss_beside_the_two_directions_is_the_same_before_and_after():
    """In numbers of an independent computation, on the same draw."""
    net = two_sided_network(seed=1)
    x, rate = jnp.asarray(net.x[:, 0]), 1.5 / np.linalg.eigvalsh(net.kernel())[-1]
    for _ in range(2):
        found = quadratic_many.constant_loss(jnp.asarray(net.outputs() - net.y), x)
        assert float(found) == pytest.approx(11.0769, abs=5e-5)
        for _ in range(20):
            net.step(rate)


def random_model(count=4, weights=30):
    draw = np.random.default_rng(0)
    phi, H = draw.standard_normal((count, weights)), draw.standard_normal((count, weights, weights))
    H = jnp.asarray((H + H.transpose(0, 2, 1)) / 10)
    y = jnp.asarray(draw.standard_normal(count))

    def outputs(w):
        return jnp.asarray(phi) @ w + jnp.einsum("i,kij,j->k", w, H, w) / 2

    return outputs, H, y, jnp.asarray(draw.standard_normal(weights))


def test_the_general_recursion_is_gradient_descent():
    outputs, H, y, w = random_model()
    rate = 1e-3
    r, J = outputs(w) - y, jax.jacfwd(outputs)(w)
    gradient = jax.jit(jax.grad(lambda w: jnp.sum((outputs(w) - y) ** 2) / 2))
    for _ in range(5):
        before = J
        G = general_quadratic.jacobian_change(J, H, r)
        beyond = general_quadratic.remainders(J, G, rate)
        w = w - rate * gradient(w)
        r, J = general_quadratic.step(r, J, H, rate)
        np.testing.assert_allclose(r, outputs(w) - y, atol=1e-10)
        np.testing.assert_allclose(J, jax.jacfwd(outputs)(w), atol=1e-10)
        np.testing.assert_allclose(before @ before.T - beyond.kernel, J @ J.T, atol=1e-10)


def test_top_direction_from_differences_is_the_remainder_where_the_residual_is_the_eigenvector():
    outputs, H, _, w = random_model()
    J = jax.jacfwd(outputs)(w)
    K = J @ J.T
    top = jnp.linalg.eigh(K)[1][:, -1]
    r, rate = 0.3 * top, 1e-3
    beyond = general_quadratic.remainders(J, general_quadratic.jacobian_change(J, H, r), rate)
    after, J_after = general_quadratic.step(r, J, H, rate)
    found = general_quadratic.top_direction(r, after, K, J_after @ J_after.T, rate)
    np.testing.assert_allclose(found.residual, top @ beyond.residual @ top, atol=1e-12)
    np.testing.assert_allclose(found.kernel, top @ beyond.kernel @ top, atol=1e-10)


def test_a_model_without_linear_term():
    draw = np.random.default_rng(0)
    gamma, norm, signs = 0.05, 2.0, jnp.asarray(draw.choice([-1.0, 1.0], 40))
    w = jnp.asarray(draw.standard_normal(40))

    def g(w):
        return gamma / 2 * norm * w @ (signs * w)

    rate = 3 / float(jnp.sum(jax.grad(g)(w) ** 2))
    state = State(g(w), jnp.sum(jax.grad(g)(w) ** 2))
    for _ in range(30):
        w = w - rate * g(w) * jax.grad(g)(w)
        state = general_quadratic.pure_step(state, rate, gamma, norm**2)
        np.testing.assert_allclose(state.residual, g(w), atol=1e-10)
        np.testing.assert_allclose(state.kernel, jnp.sum(jax.grad(g)(w) ** 2), atol=1e-10)


def test_a_two_layer_linear_network_is_such_a_model():
    """Sigma^2 is not |x|^2 I there, but Sigma^3 = |x|^2 Sigma."""
    draw = np.random.default_rng(0)
    x, width = jnp.asarray([0.8, -1.1]), 50
    weights = jnp.asarray(draw.standard_normal((width, 3)))

    def f(w):
        return w[:, 2] @ (w[:, :2] @ x) / jnp.sqrt(width)

    rate = 2.7 / float(jnp.sum(jax.grad(f)(weights) ** 2))
    state = State(f(weights), jnp.sum(jax.grad(f)(weights) ** 2))
    for _ in range(20):
        weights = weights - rate * f(weights) * jax.grad(f)(weights)
        state = general_quadratic.pure_step(state, rate, 1 / np.sqrt(width), float(x @ x))
        np.testing.assert_allclose(state.residual, f(weights), atol=1e-10)


def test_one_direction_is_one_example():
    state = State(jnp.asarray([0.3, -0.2]), jnp.asarray([2.0, 1.0]))
    both = quadratic_many.step(state, 0.7, jnp.asarray([1.0, -1.0]), jnp.asarray([0.01, 0.02]))
    one = quadratic_model.step(State(state.residual[1], state.kernel[1]), 0.7, -1.0, 0.02)
    np.testing.assert_allclose([both.residual[1], both.kernel[1]], one)
