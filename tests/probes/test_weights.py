"""Ranks of weights, alignment of representations and gradient noise inside a descent."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope import geometry

X = jax.random.normal(jax.random.key(0), (30, 4))
Y = jnp.sin(X[:, :1])


def descend(probes, steps=20, **options):
    net = ds.models.MLP(4, 2, width=6, out=1, key=jax.random.key(1), activation="tanh")
    task = ds.tasks.Supervised("mse")
    options = {"data": (X, Y)} | options
    return net, ds.descend(net, task, optax.sgd(0.1), steps=steps, record=10, probes=probes, **options)


def test_ranks_are_those_of_the_singular_values():
    net, run = descend({"ranks": ds.probes.weight_ranks(), "moved": ds.probes.weight_ranks(change=True)})
    trace = run.trace
    assert trace.ranks.dims == ("step", "weight")
    leaves = [leaf for leaf in jax.tree.leaves(run.model) if leaf.ndim == 2 and min(leaf.shape) > 1]
    starts = [leaf for leaf in jax.tree.leaves(net) if leaf.ndim == 2 and min(leaf.shape) > 1]
    assert trace.sizes["weight"] == len(leaves)
    for k, (leaf, first) in enumerate(zip(leaves, starts, strict=True)):
        for name, matrix in (("ranks", leaf), ("moved", leaf - first)):
            values = np.linalg.svd(np.asarray(matrix, float), compute_uv=False)
            np.testing.assert_allclose(trace[name][-1, k], (values**2).sum() / values[0] ** 2, rtol=1e-4)
            np.testing.assert_allclose(trace[f"{name}_effective"][-1, k], ds.curves.effective_rank(values), rtol=1e-4)
            np.testing.assert_allclose(trace[f"{name}_norm"][-1, k], values[0], rtol=1e-4)
    assert np.isnan(trace.moved[0]).all()


def test_alignment_with_the_first_and_with_the_previous_representation():
    features = lambda model: jax.vmap(model)(X)  # noqa: E731
    probes = {"first": ds.probes.cka(features), "last": ds.probes.cka(features, to="previous")}
    net, run = descend(probes)
    half = descend({}, steps=10)[1].model
    np.testing.assert_allclose(run.trace.first[-1], geometry.linear_cka(features(run.model), features(net)), rtol=1e-5)
    np.testing.assert_allclose(run.trace.last[-1], geometry.linear_cka(features(run.model), features(half)), rtol=1e-4)
    np.testing.assert_allclose(run.trace.first[0], 1, rtol=1e-5)


def test_noise_and_batch_sharpness_are_those_of_the_model():
    probes = {"noise": ds.probes.gradient_noise(), "curvature": ds.probes.batch_sharpness(10, draws=4)}
    _, run = descend(probes, batch=10, key=jax.random.key(2))
    task = ds.tasks.Supervised("mse")
    found = geometry.gradient_noise(task.loss, run.model, (X, Y))
    np.testing.assert_allclose(run.trace.noise[-1], found.scale, rtol=1e-4)
    np.testing.assert_allclose(run.trace.noise_error[-1], found.error, rtol=1e-3)
    assert (run.trace.curvature_error > 0).all()


def test_without_data_there_is_no_noise():
    with pytest.raises(ValueError, match=r"probes\.gradient_noise needs a loss on data"):
        ds.observe([jnp.ones(2)], lambda model: jnp.sum(model), probes={"noise": ds.probes.gradient_noise()})
