"""Propositions 5-7: which minimizers lie on M and M_c, and the nearest of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dynascope.tasks.products import many_factors, two_factors
from dynascope.theory.edge import constraint_manifolds
from dynascope.theory.edge.constraint_manifolds import in_manifold, project


def test_m_is_the_flat_part_of_the_hyperbola():
    rate = 0.6
    x = jnp.linspace(0.4, 2.2, 50)
    points = jnp.stack([x, 1 / x], axis=-1)
    inside, all_of_it = (
        jax.jit(jax.vmap(lambda p, w=which: in_manifold(p, rate, w)))(points) for which in ("M", "M_c")
    )
    np.testing.assert_array_equal(inside, constraint_manifolds.on_hyperbola(x, rate))
    assert bool(jnp.all(all_of_it))


def test_above_one_m_holds_no_minimizer():
    assert not bool(in_manifold(jnp.ones(2), 1.001))
    assert bool(in_manifold(jnp.ones(2), 0.999))
    assert bool(jnp.all(jnp.isnan(constraint_manifolds.extent(1.001))))
    for n in (2, 5):
        x = np.exp(np.random.default_rng(n).normal(0, 0.4, (200, n)))
        x = x / np.prod(x, axis=-1, keepdims=True) ** (1 / n)
        sharpness = eqx.filter_jit(many_factors(n).sharpness_at_minimum)(jnp.asarray(x))
        np.testing.assert_allclose(sharpness, 2 / n * np.sum(1 / x**2, axis=-1), rtol=1e-10)
        assert float(sharpness.min()) >= constraint_manifolds.LEAST_SHARPNESS


def test_taken_literally_it_holds_more():
    point = jnp.asarray([0.5, 0.5])
    np.testing.assert_allclose(jnp.linalg.eigvalsh(two_factors().hessian(point)), [-0.25, 0.75], atol=1e-14)
    for which in ("M", "M_c"):
        assert bool(in_manifold(point, 1.08, which, minimizers_only=False))
        assert not bool(in_manifold(point, 1.08, which))


def test_projections_are_nearest_points():
    points = jnp.asarray(np.random.default_rng(0).uniform(0.1, 3, (60, 2)))
    for which, ends in (("M", constraint_manifolds.extent(0.7)), ("M_c", jnp.asarray([0.05, 20.0]))):
        found = jax.jit(jax.vmap(lambda p, which=which: project(p, 0.7, which)))(points)
        np.testing.assert_allclose(jnp.prod(found, axis=1), 1, rtol=1e-12)
        x, there = np.exp(np.linspace(*np.log(ends), 20_001)), np.asarray(points)
        best = np.min((x - there[:, :1]) ** 2 + (1 / x - there[:, 1:]) ** 2, axis=1)
        reached = np.sum((np.asarray(found) - there) ** 2, axis=1)
        np.testing.assert_allclose(reached, best, atol=1e-6)
        assert np.all(reached <= best + 1e-12)


def test_the_trajectory_of_figure_3_4():
    """From (1.6, 0.7) at 0.95 the projection onto M stands still while the one onto M_c moves."""
    task, x, rate = two_factors(), jnp.asarray([1.6, 0.7]), 0.95
    both = jax.jit(lambda x: (project(x, rate)[0], project(x, rate, "M_c")[0]))
    path = [x]
    for _ in range(60):
        path.append(task.step(path[-1], rate))
    onto_m, onto_mc = np.transpose([both(x) for x in path[:6]])
    np.testing.assert_allclose(constraint_manifolds.extent(rate), [0.8509, 1.1753], atol=5e-5)
    np.testing.assert_allclose(onto_m, 1.1753, atol=5e-5)
    np.testing.assert_allclose(onto_mc[:5], [1.574, 1.569, 1.550, 1.515, 1.348], atol=2e-3)
    end = jax.lax.fori_loop(0, 3000, lambda _, x: task.step(x, rate), x)
    np.testing.assert_allclose(end, [1.0635, 0.9402], atol=1e-4)
    assert float(jnp.sum(end)) < np.sqrt(2 + 2 / rate)
