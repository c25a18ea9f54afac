"""Multi-index regression: closed forms against exact Gaussian moments and against samples; the doubled example."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks import MultiIndex, doubled_example

KINDS = ("rank-2", "rank-3", "rank-4", "full-rank")


def exact_moments(task, needed):
    """E f*^2 and G* by Gauss-Hermite quadrature in the first `needed` coordinates: exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    weights = weights / weights.sum()
    grid = np.array(list(itertools.product(nodes, repeat=needed)))
    share = np.prod(np.array(list(itertools.product(weights, repeat=needed))), axis=1)
    x = np.zeros((len(grid), task.dim))
    x[:, :needed] = grid
    gradients = np.asarray(jax.vmap(jax.grad(task.target))(jnp.asarray(x)))
    values = np.asarray(task.target(jnp.asarray(x)))
    return share @ values**2, np.einsum("n,ni,nj->ij", share, gradients, gradients)


@pytest.mark.parametrize(("kind", "dim", "needed"), [("rank-2", 5, 2), ("rank-4", 6, 4)])
def test_closed_forms_are_the_exact_gaussian_moments(kind, dim, needed):
    with jax.enable_x64(True):
        task = MultiIndex(kind, dim)
        second, outer = exact_moments(task, needed)
        np.testing.assert_allclose(task.second_moment(), second, rtol=1e-12)
        np.testing.assert_allclose(task.gradient_outer_product(), outer, atol=1e-12)


def test_the_rank_three_closed_form_is_exact():
    """The sum of x3..x10 is one Gaussian of variance 8: three coordinates of quadrature are enough for the moments."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    one, two, rest = np.array(list(itertools.product(nodes, repeat=3))).T
    share = np.prod(np.array(list(itertools.product(weights, repeat=3))), axis=1)
    rest = np.sqrt(8) * rest
    total = one + two + rest
    by_one, by_two, by_other = two * (total + one), one * (total + two), one * two
    task = MultiIndex("rank-3", 12)
    outer = np.asarray(task.gradient_outer_product())
    np.testing.assert_allclose(share @ (one * two * total) ** 2, task.second_moment())
    np.testing.assert_allclose([share @ by_one**2, share @ by_two**2], [outer[0, 0], outer[1, 1]])
    np.testing.assert_allclose(share @ (by_one * by_two), outer[0, 1])
    np.testing.assert_allclose([share @ (by_one * by_other), share @ (by_two * by_other)], [outer[0, 5], outer[9, 1]])
    np.testing.assert_allclose(share @ by_other**2, outer[3, 7])
    np.testing.assert_array_equal(outer, outer.T)
    assert not outer[10:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms_agree_with_a_large_sample(kind):
    task = MultiIndex(kind, 12)
    x = jax.random.normal(jax.random.key(1), (100_000, 12))
    gradients = jax.vmap(jax.grad(task.target))(x)
    products = gradients[:, :, None] * gradients[:, None, :]
    error = jnp.std(products, axis=0) / np.sqrt(100_000)
    far = jnp.abs(jnp.mean(products, axis=0) - task.gradient_outer_product()) / jnp.maximum(error, 1e-9)
    assert float(jnp.max(far)) < 5
    values = task.target(x) ** 2
    assert abs(float(jnp.mean(values)) - task.second_moment()) < 5 * float(jnp.std(values)) / np.sqrt(100_000)


def test_labels_are_noisy_and_the_loss_is_the_mean_square():
    task = MultiIndex("rank-2", 7, noise=0.1)
    x, y = task.sample(jax.random.key(0), 20_000)
    assert x.shape == (20_000, 7)
    noise = y - task.target(x)
    assert abs(float(jnp.std(noise)) - 0.1) < 0.002

    def perfect(point):
        return point[0] * point[1] * jnp.ones(1)

    np.testing.assert_allclose(task.loss(perfect, (x, y)), jnp.mean(noise**2), rtol=1e-4)


@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="'rank-2', 'rank-3', 'rank-4', 'full-rank'; got 'rank-5'"):
        MultiIndex("rank-5")
    with pytest.raises(ValueError, match="dim must be at least 10 for rank-3"):
        MultiIndex("rank-3", 9)


def test_one_example_on_the_sphere_is_doubled():
    x, y = doubled_example(jax.random.key(0), 20, 50, which=3)
    lengths = np.ones(20)
    lengths[3] = 2
    np.testing.assert_allclose(jnp.linalg.norm(x, axis=1), lengths, rtol=1e-5)
    np.testing.assert_allclose(y, lengths)
    with pytest.raises(ValueError, match="which must be an integer, at least 0 and at most 19"):
        doubled_example(jax.random.key(0), 20, 50, which=20)
