"""The structured identity task against what its definition implies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.curves.order import hierarchy
from dynascope.models import MLP, Symmetric
from dynascope.tasks import StructuredIdentity, random_rotation

MU, SIGMA = (1.0, 2.0), (0.05, 0.05)


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("sigma", [(0.05, 0.05), (2.0, 0.05)])
def test_samples_have_the_population_s_second_moment(sigma, origin):
    task = StructuredIdentity(MU, sigma, 3, origin=origin)
    clusters = 2 + origin
    expected = [sigma[0] ** 2 + 1 / clusters, sigma[1] ** 2 + 4 / clusters, 0]
    np.testing.assert_allclose(task.second_moment, expected, rtol=1e-6)
    for x in (task.dataset(jax.random.key(0), 5000).x, task.sample(jax.random.key(1), 20_000)):
        np.testing.assert_allclose(np.mean(x**2, axis=0), expected, rtol=0.03)
        assert abs(np.mean(x[:, 0] * x[:, 1])) < 0.05


def test_a_dataset_holds_every_cluster_equally():
    samples = StructuredIdentity(MU, SIGMA, 4, origin=True).dataset(jax.random.key(0), 50)
    assert np.bincount(samples.cluster).tolist() == [50, 50, 50]
    centers = np.stack([samples.x[samples.cluster == p].mean(axis=0) for p in range(3)])
    np.testing.assert_allclose(centers, [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0]], atol=0.05)


@pytest.mark.parametrize("norm", ["mean", "sum"])
def test_the_population_loss_is_what_the_sample_loss_tends_to(norm):
    task = StructuredIdentity(MU, (0.5, 0.3), 3, norm=norm)
    model = MLP(3, 2, key=jax.random.key(1))
    sampled = task.loss(model, task.sample(jax.random.key(2), 200_000))
    np.testing.assert_allclose(task.population_loss(model), sampled, rtol=0.01)


def test_the_two_norms_differ_by_two_over_the_dimension():
    model, x = MLP(5, 2, key=jax.random.key(1)), jax.random.normal(jax.random.key(0), (7, 5))
    mean, half_sum = (StructuredIdentity(MU, SIGMA, 5, norm=norm) for norm in ("mean", "sum"))
    np.testing.assert_allclose(mean.loss(model, x), 2 / 5 * half_sum.loss(model, x), rtol=1e-6)
    np.testing.assert_allclose(mean.population_loss(model), 2 / 5 * half_sum.population_loss(model), rtol=1e-6)


def test_a_rotation_changes_no_loss():
    with jax.enable_x64(True):
        rotation = random_rotation(jax.random.key(3), 4)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(4), atol=1e-14)
        plain = StructuredIdentity(MU, SIGMA, 4)
        turned = StructuredIdentity(MU, SIGMA, 4, rotation=rotation)
        model = MLP.from_weights([jax.random.normal(jax.random.key(0), (4, 4))])
        conjugate = MLP.from_weights([rotation @ model.weights[0] @ rotation.T])
        for loss in ("test_loss", "population_loss"):
            np.testing.assert_allclose(getattr(turned, loss)(conjugate), getattr(plain, loss)(model), rtol=1e-12)
        x = plain.dataset(jax.random.key(1), 20).x
        np.testing.assert_allclose(turned.dataset(jax.random.key(1), 20).x, x @ rotation.T, rtol=1e-12)
        np.testing.assert_allclose(turned.loss(conjugate, x @ rotation.T), plain.loss(model, x), rtol=1e-12)
        output = turned.concepts(conjugate(turned.test_point))
        np.testing.assert_allclose(output, model(plain.test_point), rtol=1e-12)


def test_rotations_are_haar_distributed_to_second_order():
    draws = jax.vmap(lambda key: random_rotation(key, 3))(jax.random.split(jax.random.key(0), 20_000))
    np.testing.assert_allclose(np.mean(draws, axis=0), np.zeros((3, 3)), atol=0.02)
    np.testing.assert_allclose(np.mean(draws**2, axis=0), np.full((3, 3), 1 / 3), atol=0.01)


def test_truncation_leaves_no_point_near_the_test_point_and_says_how_many_it_redrew():
    task = StructuredIdentity(MU, (0.3, 0.3), 2, truncate_radius=0.5)
    samples = jax.jit(lambda key: task.dataset(key, 5000))(jax.random.key(0))
    distance = np.linalg.norm(np.asarray(samples.x) - np.array(MU), axis=1)
    assert distance.min() >= 0.5
    assert 100 < int(samples.rejected) < 230
    free = StructuredIdentity(MU, (0.3, 0.3), 2).dataset(jax.random.key(0), 5000).x
    kept = np.linalg.norm(np.asarray(free) - np.array(MU), axis=1) >= 0.5
    np.testing.assert_allclose(
        samples.x[kept], free[kept], rtol=1e-5, atol=1e-7
    )  # only the points that were too near are new


def test_the_hierarchy_of_test_points():
    subsets = hierarchy(3)
    points = StructuredIdentity((1.0, 2.0, 3.0), 0.1, 4).test_points(subsets)
    np.testing.assert_array_equal(points[:, :3], subsets * np.array([1, 2, 3]))
    np.testing.assert_array_equal(points[-1], StructuredIdentity((1.0, 2.0, 3.0), 0.1, 4).test_point)


@pytest.mark.parametrize(
    ("mu", "sigma", "options", "message"),
    [
        ((1.0, 2.0, 3.0), 0.1, {}, "mu must have between 1 and dim=2 entries"),
        ((1.0, float("nan")), 0.1, {}, r"mu must be finite; got \[1.0, nan\]"),
        ((1.0, 2.0), -0.1, {}, "sigma must be finite, at least 0; got -0.1"),
        ((1.0, 2.0), (0.1, 0.1, 0.1), {}, r"sigma must be one number or 2, as many as mu; got shape \(3,\)"),
        ((1.0, 2.0), 0.1, {"norm": "median"}, "norm must be one of 'mean', 'sum'; got 'median'"),
        ((1.0, 2.0), 0.1, {"truncate_radius": -1.0}, "truncate_radius must be a finite number, at least 0; got -1"),
        ((1.0, 2.0), 0.1, {"rotation": jnp.eye(3)}, r"rotation must have shape \(2, 2\); got \(3, 3\)"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_wrong_use_gets_one_clear_line(mu, sigma, options, message):
    with pytest.raises(ValueError, match=message):
        StructuredIdentity(mu, sigma, 2, **options)


def test_a_radius_that_no_draw_can_leave_ends_in_nan_and_not_in_a_loop_without_end():
    samples = StructuredIdentity((1.0, 1.0), 0.1, 2, truncate_radius=1e6).dataset(jax.random.key(0), 2)
    assert jnp.isnan(samples.x).all()


def test_the_population_loss_of_a_model_without_a_matrix_is_refused():
    with pytest.raises(TypeError, match=r"takes a linear model with matrix\(\); got a function"):
        StructuredIdentity((1.0,), 0.1, 2).population_loss(lambda x: x)


def test_the_symmetric_model_is_its_matrix():
    model = Symmetric(jax.random.normal(jax.random.key(0), (3, 2)))
    x = jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(model(x), model.matrix() @ x, rtol=1e-5)
    assert np.linalg.matrix_rank(model.matrix(), tol=1e-5) == 2
