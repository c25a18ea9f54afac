"""What is learned in the experiments on feature learning, and by what: samples, references, networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import dynascope as ds
from dynascope.experiments.features import problems
from dynascope.experiments.features.architectures import Shape
from dynascope.experiments.features.gradient_descent import CatapultsTeachFeatures
from dynascope.experiments.features.problems import Problem, Reference, outer_product_of, problem
from dynascope.tasks.data import datasets
from dynascope.tasks.data.image_sources import Images
from dynascope.theory.features.agop import Reference as Trained


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
    """Pictures of 4 x 4 x 3, in which the class is told by the first channel of the upper half."""
    y = np.arange(count) % 2 * 2
    x = np.random.default_rng(0).integers(0, 200, (count, 4, 4, 3)).astype(np.uint8)
    x[:, :2, :, 0] = np.where(y == 2, 255, 0)[:, None, None]
    return Images(x, y, x[:20], y[:20])


@pytest.fixture
def pictures(monkeypatch):
    """The real sets, none of which is needed, as 60 small pictures."""
    monkeypatch.setattr(datasets, "load", lambda name: bright_and_dark(60))


def test_the_reference_of_a_real_set_sees_all_its_examples_whatever_the_sample(pictures, monkeypatch):
    seen = {}

    def trained(model, task, optimizer, x, **how):
        seen.update(how, x=x)
        return Trained(np.eye(48, dtype=np.float32), 0.75)

    monkeypatch.setattr(problems, "reference_outer_product", trained)
    wanted = Reference(Shape("cnn", 2, 4, True, "standard"), 7)
    given = problem("svhn", 2, 0, dim=0, samples=10, held_out=100, noise=0.0, flips=0.2, reference=wanted)
    assert given.x.shape == (2, 10, 48)
    assert given.x_test.shape == given.x_validation.shape == (2, 10, 48)
    assert seen["x"].shape == (60, 4, 4, 3)
    assert seen["data"][1].shape == (60,)
    assert (seen["batch"], seen["steps"]) == (60, 7)
    np.testing.assert_array_equal(given.target, np.eye(48))
    assert float(given.label(xr.Dataset()).reference_accuracy) == 0.75


def test_it_is_good_at_the_set_and_listens_to_what_tells_its_classes_apart(pictures):
    outer, right = outer_product_of("svhn", Reference(Shape("cnn", 2, 4, True, "standard"), 150))
    assert right == 1.0
    tells = np.zeros((4, 4, 3), bool)
    tells[:2, :, 0] = True
    assert outer.diagonal()[tells.ravel()].min() > outer.diagonal()[~tells.ravel()].mean()


@pytest.mark.parametrize(("right", "verdict"), [(0.95, "fails"), (0.99, "holds")])
def test_a_reference_weaker_than_the_documents_shows(right, verdict):
    (said,) = CatapultsTeachFeatures(task="svhn").on_the_reference(xr.Dataset({"reference_accuracy": right}))
    assert (said.verdict, said.measured) == (verdict, right)
    assert bool(said.diagnosis) == (verdict == "fails")
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
    shape = Shape(architecture, 5, 4, False, "ntk")
    network, output = jax.eval_shape(
        lambda x: (shape.network(0, inputs), shape.network(0, inputs)(x)), jnp.ones(inputs)
    )
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == weights
    assert output.shape == (1,)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
def test_a_start_near_zero_is_near_zero_in_both_parameterizations(parameterization):
    shape = Shape("fcn", 2, 4, False, parameterization)
    start, small = (shape.network(0, (3,), scale).weights[0] for scale in (1.0, 0.125))
    np.testing.assert_array_equal(0.125 * start, small)


def test_a_network_of_pictures_is_trained_and_looked_at(pictures):
    experiment = CatapultsTeachFeatures(
        task="svhn", architecture="cnn", depth=2, width=2, samples=10, held_out=4, seeds=1
    )
    target = np.diag(np.arange(48, dtype=np.float32))
    drawn = datasets.two_classes("svhn", (0, 2), 10, 4, jax.random.key(0), flat=False)
    sets = (part.astype(np.float32)[None] for part in (*drawn[:2], *drawn[2:], *drawn[2:]))
    given = Problem(*sets, target, 1.0, "made by hand")
    trace = experiment.learn(given, "rate", [0.1], 0, steps=2, record=1, optimizer="gd")
    start = experiment.shape().network(0, (4, 4, 3))
    expected = ds.geometry.alignment(ds.geometry.agop(start, jnp.asarray(given.x[0])), jnp.asarray(target))
    np.testing.assert_allclose(trace.alignment[0, 0, 0], expected, rtol=1e-4)
    assert trace.train[0, 0, 2] < trace.train[0, 0, 0]
