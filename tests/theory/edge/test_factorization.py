"""Theorem B.3, the limits of Observations 1 and 2, and the stability of the bulk, against gradient descent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from dynascope import geometry
from dynascope.tasks.factorization import Factorization, generic_start, matmul, quasi_symmetric_start
from dynascope.theory.edge import factorization, factorization_stability


def descended(task, factors, rate, steps):
    return jax.jit(lambda factors: jax.lax.fori_loop(0, steps, lambda _, f: task.step(f, rate), factors))(factors)


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 5, 4)])
def test_the_top_direction_at_a_minimum(shape):
    factors = generic_start(jax.random.key(sum(shape)), shape, 1.0)
    task = Factorization(matmul(factors["Y"], factors["Z"].T))
    found = jax.jit(factorization.top_direction)(factors)
    flat, back = ravel_pytree(factors)
    direction = ravel_pytree(found.direction)[0]
    H = np.asarray(jax.jit(jax.hessian(lambda p: task(back(p))))(flat))
    np.testing.assert_allclose(H @ np.asarray(direction), found.sharpness * direction, atol=1e-11)
    np.testing.assert_allclose(np.linalg.eigvalsh(H)[-1], found.sharpness, rtol=1e-12)
    # along the direction the loss is a polynomial of degree four, c2 t^2 + c3 t^3 + c4 t^4
    t = np.linspace(-1, 1, 9)
    values = jax.jit(jax.vmap(lambda t: task(back(flat + t * direction))))(jnp.asarray(t))
    c4, c3, c2, c1, c0 = np.polyfit(t, values, 4)
    np.testing.assert_allclose([c0, c1], 0, atol=1e-10)
    np.testing.assert_allclose([2 * c2, 6 * c3, 24 * c4], [found.second, found.third, found.fourth], atol=1e-8)
    np.testing.assert_allclose(3 * found.third**2 - found.second * found.fourth, found.flip_quantity, rtol=1e-10)
    assert found.flip_quantity > 0
    assert found.sharpness >= factorization.flattest_sharpness(task.target) - 1e-12


@pytest.mark.parametrize("K", [1.02, 1.05, 1.1])
def test_generic_starts_reach_the_orbit_of_observation_one(K):
    C = jnp.diag(jnp.asarray([1.0, 0.3, 0.217, 0.133, 0.05]))
    task, factors = Factorization(C), generic_start(jax.random.key(0), (5, 5, 5), 0.3)
    first = descended(task, factors, K, 4000)
    look = jax.jit(lambda f: geometry.leading_components(f["Y"], f["Z"], C, jnp.eye(5)[0]))
    found = [look(f) for f in (first, task.step(first, K))]
    sizes = np.sort([[float(f["Y"]), float(f["Z"])] for f in found], axis=0)
    np.testing.assert_allclose(sizes, np.repeat(factorization.orbit_sizes(1.0, K)[:, None], 2, axis=1), atol=1e-8)
    assert max(float(f["off_top"]) for f in found) < 1e-12
    losses = sorted(float(task(f)) for f in (first, task.step(first, K)))
    np.testing.assert_allclose(losses, np.sort(factorization.orbit_losses(1.0, K)), atol=1e-8)


def test_the_losses_of_figure_b3():
    np.testing.assert_allclose(factorization.orbit_losses(5.6955, 1.02), [11.649, 8.781], atol=2e-3)


def test_the_quasi_symmetric_limit_is_linear_in_the_noise():
    root, alpha, K = jnp.diag(jnp.asarray([1.0, 0.6, 0.4])), 0.8, 1.05
    task, limits = Factorization(matmul(root, root.T)), factorization.quasi_symmetric_limit(root, alpha, K)
    assert bool(factorization.quasi_symmetric_condition(K, 0.36 * K, alpha))
    off = []
    for noise in (1e-2, 1e-3, 1e-4):
        start = quasi_symmetric_start(root, alpha, generic_start(jax.random.key(0), (3, 3, 3), noise))
        end = descended(task, start, K, 3000)
        off.append(min(max(float(jnp.max(jnp.abs(end[n] - lim[n]))) for n in ("Y", "Z")) for lim in limits))
    np.testing.assert_allclose(np.divide(off[:-1], off[1:]), 10, rtol=0.1)
    assert off[0] < 0.1
    for here, there in (limits, limits[::-1]):
        np.testing.assert_allclose(task.step(here, K)["Y"], there["Y"], atol=1e-12)


def test_the_conditions():
    assert bool(factorization.generic_condition(1.2, 0.79))
    assert not bool(factorization.generic_condition(1.2, 0.81))
    np.testing.assert_allclose(factorization.largest_bulk(1.2, 0.8), 0.195, atol=1e-3)
    bulk = float(factorization.largest_bulk(1.02, 0.8))
    np.testing.assert_allclose(np.sqrt(bulk / 1.02), 0.789, atol=1e-3)
    assert bool(factorization.quasi_symmetric_condition(1.02, bulk - 1e-9, 0.8))
    assert not bool(factorization.quasi_symmetric_condition(1.02, bulk + 1e-9, 0.8))


def test_the_change_of_the_gram_difference_is_exact():
    C, rate = jax.random.normal(jax.random.key(0), (4, 3)), 0.3
    task, factors = Factorization(C), generic_start(jax.random.key(1), (4, 3, 2), 0.8)
    after = task.step(factors, rate)

    def difference(f):
        return matmul(f["Y"].T, f["Y"]) - matmul(f["Z"].T, f["Z"])

    change = factorization.gram_difference_change(factors, C, rate)
    np.testing.assert_allclose(difference(after) - difference(factors), change, atol=1e-13)


@pytest.mark.parametrize("alpha", [1.0, 0.8])
def test_the_transition_matrix_moves_small_entries(alpha):
    """Against a step of descent from a quasi-symmetric point with the leading block on its orbit, and noise of 1e-7."""
    K, b = 1.05, 0.4
    root = jnp.diag(jnp.sqrt(jnp.asarray([K, b])))
    task, limit = Factorization(matmul(root, root.T)), factorization.quasi_symmetric_limit(root, alpha, 1.0)[0]
    stray = generic_start(jax.random.key(3), (2, 2, 2), 1e-7)
    start = jax.tree.map(jnp.add, limit, stray)

    def small(f):
        M = task.excess(f)
        return jnp.stack([matmul(f["Y"], f["Y"].T)[1, 0], matmul(f["Z"], f["Z"].T)[0, 1], M[1, 0], M[0, 1]])

    y = z = limit["Y"][0, 0]
    predicted = factorization_stability.transition(y, z, K, b, alpha) @ small(start)
    np.testing.assert_allclose(
        small(task.step(start, 1.0)), predicted, atol=1e-6 * float(jnp.max(jnp.abs(small(start))))
    )


def test_the_eigenvalues_at_the_minimum():
    K, b, alpha = 1.02, 0.3, 0.8
    Q = factorization_stability.transition(np.sqrt(K) * alpha, np.sqrt(K) / alpha, K, b, alpha)
    expected = factorization_stability.eigenvalues_at_minimum(K, b, alpha)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(Q).real), np.sort(expected), atol=1e-7)


def test_the_radius_crosses_one_where_the_sum_is_two():
    critical = jax.jit(jax.vmap(factorization_stability.critical_bulk, in_axes=(0, None)))
    K = jnp.asarray([1.01, 1.05, 1.1, 1.15, 1.2, 1.235])
    np.testing.assert_allclose(critical(K, 1.0), 2 - K, atol=1e-6)
    unbalanced = critical(K, 0.8)
    assert float(unbalanced.min()) > 0.59
    assert float(unbalanced.max()) < 0.66
