"""The data of the experiments on feature learning, their references and their networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.experiments.catapult.deep_experiment import Network
from dynascope.experiments.features.feature_experiment import Learner
from dynascope.experiments.features.gradient_descent import CatapultsTeachFeatures
from dynascope.experiments.features.problems import Problem, Reference, outer_product_of, problem
from dynascope.tasks.data import datasets
from dynascope.tasks.data.files import TrainTest


def test_every_seed_has_data_of_its_own_and_the_same_seed_the_same():
    sizes = dict(dim=4, samples=20, held_out=5, noise=0.1)
    one, again, other = (problem("rank-2", 2, seed, **sizes) for seed in (0, 0, 1))
    assert one.x.shape == (2, 20, 4)
    assert one.x_test.shape == (2, 5, 4)
    np.testing.assert_array_equal(one.x, again.x)
    assert not np.array_equal(one.x[0], one.x[1])
    assert not np.array_equal(one.x, other.x)
    np.testing.assert_allclose(np.var(one.y - one.x[..., 0] * one.x[..., 1]), 0.01, rtol=0.6)


def bright_and_dark(count):
    """Images of 4 x 4 x 3 whose class shows in the first channel of the upper half."""
    y = np.arange(count) % 2 * 2
    x = np.random.default_rng(0).integers(0, 200, (count, 4, 4, 3)).astype(np.uint8)
    x[:, :2, :, 0] = np.where(y == 2, 255, 0)[:, None, None]
    return TrainTest(x, y, x[:20], y[:20])


@pytest.fixture
def images(monkeypatch):
    """60 small images in place of every real set."""
    monkeypatch.setattr(datasets, "load", lambda name: bright_and_dark(60))


def test_the_reference_of_a_real_set_sees_all_its_examples_whatever_the_sample(images, monkeypatch):
    seen, descend = {}, ds.descend

    def recorded(*args, **options):
        seen.update(options)
        return descend(*args, **options)

    monkeypatch.setattr(ds, "descend", recorded)
    reference = Reference(Network("cnn", 2, 4, "standard", True), 7)
    given = problem("svhn", 2, 0, dim=0, samples=10, held_out=100, noise=0.0, flips=0.2, reference=reference)
    assert given.x.shape == (2, 10, 48)
    assert given.x_test.shape == given.x_validation.shape == (2, 10, 48)
    assert [part.shape for part in seen["data"]] == [(60, 4, 4, 3), (60,)]
    assert (seen["batch"], seen["steps"]) == (60, 7)
    assert given.target.shape == (48, 48)
    assert float(given.label(xr.Dataset()).reference_accuracy) == given.accuracy


def test_it_is_accurate_and_depends_on_the_pixels_that_differ_between_the_classes(images):
    outer, right = outer_product_of("svhn", Reference(Network("cnn", 2, 4, "standard", True), 150))
    assert right == 1.0
    differ = np.zeros((4, 4, 3), bool)
    differ[:2, :, 0] = True
    assert outer.diagonal()[differ.ravel()].min() > outer.diagonal()[~differ.ravel()].mean()


@pytest.mark.parametrize(("right", "verdict"), [(0.95, "fails"), (0.99, "holds")])
def test_a_reference_weaker_than_the_documents_shows(right, verdict):
    (said,) = CatapultsTeachFeatures(data="svhn").on_the_reference(xr.Dataset({"reference_accuracy": right}))
    assert (said.verdict, said.measured) == (verdict, right)
    assert not list(CatapultsTeachFeatures().on_the_reference(xr.Dataset()))


@pytest.mark.parametrize(
    ("architecture", "inputs", "weights"),
    [
        ("fcn", (48,), 48 * 4 + 3 * 4 * 4 + 4),
        ("cnn", (4, 4, 3), 9 * 3 * 4 + 3 * 9 * 4 * 4 + 4 * 4 * 4),
        ("myrtle", (4, 4, 3), 9 * 3 * 4 + 3 * 9 * 4 * 4 + 4),
    ],
)
def test_each_architecture_is_built_for_its_inputs(architecture, inputs, weights):
    build = Network(architecture, 5, 4, "ntk", False)
    network = jax.eval_shape(lambda: build(jax.random.key(0), inputs))
    output = jax.eval_shape(lambda x: build(jax.random.key(0), inputs)(x), jnp.ones(inputs))
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == weights
    assert output.shape == (1,)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
def test_weights_near_zero_are_the_usual_ones_scaled_in_both_parameterizations(parameterization):
    network, parts = Network("fcn", 2, 4, parameterization, False), [jnp.ones((2, 3)), jnp.ones(2)]
    starts = [
        Learner(network, "gd", None, 0)(
            (jnp.float32(0.1), jnp.float32(scale)),
            (jnp.int32(0), jnp.float32(1), *parts * 3),
            jnp.eye(3),
            jnp.float32(1),
        ).model.weights[0]
        for scale in (1.0, 0.125)
    ]
    np.testing.assert_array_equal(0.125 * starts[0], starts[1])


def test_a_network_on_images_is_trained_and_measured(images):
    experiment = CatapultsTeachFeatures(
        data="svhn", architecture="cnn", depth=2, width=2, samples=10, held_out=4, seeds=1
    )
    target = np.diag(np.arange(48, dtype=np.float32))
    drawn = datasets.two_classes("svhn", (0, 2), 10, 4, jax.random.key(0), flat=False)
    sets = (part.astype(np.float32)[None] for part in (*drawn[:2], *drawn[2:], *drawn[2:]))
    given = Problem(*sets, target, 1.0, "made by hand")
    trace = experiment.learn(given, "rate", [0.1], 0, steps=2, record=1, optimizer="gd")
    start = experiment.network()(jax.random.key(0), (4, 4, 3))
    expected = ds.geometry.alignment(ds.geometry.agop(start, jnp.asarray(given.x[0])), jnp.asarray(target))
    np.testing.assert_allclose(trace.alignment[0, 0, 0], expected, rtol=1e-4)
    assert trace.train[0, 0, 2] < trace.train[0, 0, 0]
