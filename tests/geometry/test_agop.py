"""Average gradient outer products against explicit Jacobians and closed forms, for modules and dicts of arrays."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.theory.features import agop as theory

instrument = import_module("dynascope.geometry.agop")  # `ds.geometry.agop` is the function


def dense_net(params, x):
    """A Flax-style dict of arrays, two outputs."""
    return jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"]) @ params["out"]["kernel"]


def params(key, dim=6, width=9, out=2):
    one, two, three = jax.random.split(key, 3)
    hidden = {"kernel": jax.random.normal(one, (dim, width)) / 2, "bias": jax.random.normal(two, (width,))}
    return {"hidden": hidden, "out": {"kernel": jax.random.normal(three, (width, out))}}


def by_hand(apply, params, x):
    jacobians = [np.asarray(jax.jacfwd(lambda p: apply(params, p))(point)).reshape(-1, point.size) for point in x]
    return np.mean([j.T @ j for j in jacobians], axis=0)


@pytest.mark.parametrize("numbers", [2**22, 30, 1])
def test_a_dict_of_arrays_with_two_outputs_in_any_blocks(numbers, monkeypatch):
    monkeypatch.setattr(instrument, "BLOCK_NUMBERS", numbers)
    x, net = jax.random.normal(jax.random.key(1), (11, 6)), params(jax.random.key(0))
    exact = by_hand(dense_net, net, x)
    np.testing.assert_allclose(ds.geometry.agop(net, x, apply=dense_net), exact, rtol=2e-5, atol=1e-6)
    rows = ds.geometry.agop_factored(net, x, apply=dense_net).rows
    assert rows.shape == (22, 6)
    np.testing.assert_allclose(rows.T @ rows, exact, rtol=2e-5, atol=1e-6)


def test_inputs_of_any_shape_are_flattened():
    x = jax.random.normal(jax.random.key(1), (5, 2, 3))
    net = params(jax.random.key(0))
    flat = ds.geometry.agop(net, x.reshape(5, 6), apply=dense_net)
    shaped = ds.geometry.agop(net, x, apply=lambda p, image: dense_net(p, image.ravel()))
    np.testing.assert_allclose(shaped, flat, rtol=1e-6)


def test_the_target_itself_has_alignment_one_and_the_closed_form():
    task = ds.tasks.MultiIndex("rank-4", 8)
    x = jax.random.normal(jax.random.key(0), (200_000, 8))
    found = ds.geometry.agop(task.target, x)
    np.testing.assert_allclose(found, task.gradient_outer_product(), atol=0.15)
    assert float(ds.geometry.alignment(found, task.gradient_outer_product())) > 0.9995


def test_all_forms_give_one_alignment_and_orthogonal_directions_none():
    net, x = params(jax.random.key(0)), jax.random.normal(jax.random.key(1), (3, 6))
    other, y = params(jax.random.key(2)), jax.random.normal(jax.random.key(3), (4, 6))
    dense = ds.geometry.agop(net, x, apply=dense_net), ds.geometry.agop(other, y, apply=dense_net)
    factored = ds.geometry.agop_factored(net, x, apply=dense_net), ds.geometry.agop_factored(other, y, apply=dense_net)
    expected = np.sum(dense[0] * dense[1]) / np.linalg.norm(dense[0]) / np.linalg.norm(dense[1])
    for one in (dense[0], factored[0]):
        for two in (dense[1], factored[1]):
            np.testing.assert_allclose(ds.geometry.alignment(one, two), expected, rtol=1e-5)
    assert float(ds.geometry.alignment(jnp.diag(jnp.array([1.0, 0])), jnp.diag(jnp.array([0, 1.0])))) == 0


def test_a_model_that_listens_to_nothing_has_alignment_zero():
    nothing, rows = jnp.zeros((3, 3)), instrument.Factored(jnp.zeros((2, 3)))
    for one in (nothing, rows):
        for other in (jnp.eye(3), instrument.Factored(jnp.ones((2, 3))), nothing):
            assert float(ds.geometry.alignment(one, other)) == 0
            assert float(ds.geometry.alignment(other, one)) == 0


def test_listening_to_all_directions_alike_has_the_alignment_of_the_closed_form():
    target = ds.tasks.MultiIndex("rank-2", 100).gradient_outer_product()
    np.testing.assert_allclose(theory.isotropic_alignment(target), 0.141, atol=5e-4)
    np.testing.assert_allclose(
        ds.geometry.alignment(jnp.eye(100), target), theory.isotropic_alignment(target), rtol=1e-6
    )


def test_at_the_start_the_expected_outer_product_is_a_multiple_of_the_identity():
    dim, count = 4, 3000
    x = jax.random.normal(jax.random.key(9), (1, dim))

    def one(seed):
        net = ds.models.MLP(dim, 2, key=jax.random.key(seed), width=5, out=1, activation="relu", parameterization="ntk")
        return ds.geometry.agop(net, x)

    products = jax.vmap(one)(jnp.arange(count, dtype=jnp.uint32))
    error = jnp.std(products, axis=0) / np.sqrt(count)
    far = jnp.abs(jnp.mean(products, axis=0) - theory.expected_at_start(dim)) / error
    assert float(jnp.max(far)) < 4.5
    assert float(jnp.max(error)) < 0.1 / (2 * dim), "too few networks to tell a wrong coefficient"


@pytest.mark.parametrize("depth", [2, 4])
def test_the_formula_for_relu_networks_is_the_gradient(depth):
    net = ds.models.MLP(5, depth, key=jax.random.key(0), width=7, out=1, activation="relu", parameterization="ntk")
    x = jax.random.normal(jax.random.key(1), (5,))
    scales = [1 / np.sqrt(weight.shape[1]) for weight in net.weights]
    found = theory.relu_input_gradient(net.weights, [float(s) for s in scales], x)
    np.testing.assert_allclose(found, jax.grad(lambda p: net(p)[0])(x), rtol=1e-5)


def test_the_probe_follows_training_and_ends_with_the_trained_model():
    task = ds.tasks.MultiIndex("rank-2", 4)
    data = task.sample(jax.random.key(0), 300)
    net = ds.models.MLP(4, 2, key=jax.random.key(1), width=60, out=1, activation="relu", parameterization="ntk")
    target = task.gradient_outer_product()
    probes = {"alignment": ds.probes.agop_alignment(target, data[0]), "loss": ds.probes.loss()}
    trained = ds.descend(net, task, optax.sgd(1.0), steps=300, record=100, data=data, probes=probes)
    trace = trained.trace
    at_start = ds.geometry.alignment(ds.geometry.agop(net, data[0]), target)
    np.testing.assert_allclose(trace.alignment[0], at_start, rtol=1e-5)
    assert trace.alignment[-1] > 0.95 > trace.alignment[0]
    outer = ds.geometry.agop(trained.model, data[0])
    np.testing.assert_allclose(ds.geometry.alignment(outer, target), trace.alignment[-1], rtol=1e-4)


def test_what_has_no_outer_product_or_alignment_is_told_in_one_line():
    weights = params(jax.random.key(0))
    with pytest.raises(ValueError, match=r"x must not be empty; got an array of float32 and shape \(0, 6\)"):
        ds.geometry.agop(weights, jnp.ones((0, 6)), apply=dense_net)
    with pytest.raises(ValueError, match="over inputs of one size; got 6 and 3"):
        ds.geometry.alignment(jnp.eye(6), instrument.Factored(jnp.ones((2, 3))))
