"""Taylor models: against the explicit expansion, frozen where they should be, for any pytree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import dynascope as ds
from dynascope.models import MLP, freeze_gates, linearize, quadratic

X = np.random.default_rng(0).standard_normal((6, 4))


def network(activation="tanh", depth=3, bias=True):
    return MLP(4, depth, key=jax.random.key(0), width=7, out=2, activation=activation, bias=bias,
               parameterization="ntk")  # fmt: skip


def moved(model, size):
    keys = iter(jax.random.split(jax.random.key(7), 100))
    return eqx.tree_at(
        lambda taylor: taylor.displacement, model,
        jax.tree.map(lambda leaf: size * jax.random.normal(next(keys), leaf.shape), model.displacement),
    )  # fmt: skip


def flax_apply(params, x):
    hidden = jnp.tanh(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])
    return hidden @ params["Dense_1"]["kernel"]


def flax_params():
    keys = jax.random.split(jax.random.key(3), 3)
    shapes = ((4, 5), (5,), (5, 2))
    kernel, bias, last = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    return {"Dense_0": {"kernel": kernel, "bias": bias}, "Dense_1": {"kernel": last}}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["module", "dictionary"])
def test_it_is_the_explicit_expansion(order, kind):
    with jax.enable_x64(True):
        model, apply = (network(), None) if kind == "module" else (flax_params(), flax_apply)
        taylor = moved((linearize, quadratic)[order - 1](model, apply), 0.5)
        at, unravel = ravel_pytree(model)
        by, x = ravel_pytree(taylor.displacement)[0], jnp.asarray(X[0])

        def f(w):
            return unravel(w)(x) if apply is None else apply(unravel(w), x)

        expected = f(at) + jax.jacrev(f)(at) @ by
        if order == 2:
            expected = expected + jnp.einsum("opq,p,q->o", jax.hessian(f)(at), by, by) / 2
        np.testing.assert_allclose(taylor(x), expected, rtol=1e-12)


def test_the_error_is_of_the_next_order():
    with jax.enable_x64(True):
        x = jnp.asarray(X[0])
        for order, build in ((1, linearize), (2, quadratic)):
            errors = []
            for size in (1e-2, 1e-3):
                taylor = moved(build(network()), size)
                errors.append(float(jnp.linalg.norm(taylor(x) - taylor.to_model()(x))))
            assert order + 0.9 < np.log10(errors[0] / errors[1]) < order + 1.1


def test_nothing_moves_the_point_of_expansion():
    """Not even weight decay with momentum; and the gradient has no entry for it."""
    model = quadratic(network())
    optimizer = optax.adamw(0.1, weight_decay=0.5)
    data = jnp.asarray(X, jnp.float32), jnp.ones((6, 2))

    def loss(model, data):
        return jnp.mean((jax.vmap(model)(data[0]) - data[1]) ** 2)

    seen = ds.probes.probe(lambda snapshot: ravel_pytree(snapshot.model.base.value())[0], dims=("w",))
    trace = ds.descend(model, loss, optimizer, steps=20, data=data, record=10,
                       probes={"base": seen, "loss": ds.probes.loss()}).trace  # fmt: skip
    np.testing.assert_array_equal(trace.base[0], trace.base[-1])
    np.testing.assert_array_equal(trace.base[0], ravel_pytree(network())[0])
    assert trace.loss[-1] < trace.loss[0]
    gradient = eqx.filter_grad(loss)(model, data)
    assert not [leaf for leaf in jax.tree.leaves(gradient.base) if eqx.is_inexact_array(leaf)]


def test_a_linearized_model_is_linear():
    x = jnp.asarray(X[0], jnp.float32)
    model = linearize(network())
    once, twice = moved(model, 1.0), moved(model, 2.0)
    np.testing.assert_allclose(twice(x) - model(x), 2 * (once(x) - model(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_frozen_gates_are_the_quadratic_model(bias):
    with jax.enable_x64(True):
        net = network("relu", depth=2, bias=bias)
        taylor, closed = moved(quadratic(net), 3.0), freeze_gates(net)
        closed = eqx.tree_at(lambda model: model.network, closed, taylor.to_model())
        x = jnp.asarray(X)
        np.testing.assert_allclose(jax.vmap(taylor)(x), jax.vmap(closed)(x), rtol=1e-12)
        assert not np.allclose(
            jax.vmap(taylor)(x), jax.vmap(taylor.to_model())(x), rtol=1e-3
        )  # the network's gates turn


def test_only_two_layer_relu_networks_have_that_form():
    with pytest.raises(ValueError, match="two layers"):
        freeze_gates(network("relu", depth=3))


def test_it_trains_in_an_ensemble():
    """The point of expansion is then an array of the program, one for each member."""

    class Member(eqx.Module):
        def __call__(self, seed):
            net = MLP(4, 2, key=jax.random.key(seed), width=7, out=1, activation="relu", parameterization="ntk")
            return ds.Descent(linearize(net), loss, optax.sgd(0.1), data=jnp.asarray(X, jnp.float32))

    def loss(model, x):
        return jnp.mean((jax.vmap(model)(x) - 1) ** 2)

    trace = ds.ensemble(Member(), {"seed": range(3)}, steps=10, record=1).trace
    assert (np.diff(trace.loss.values, axis=1) < 0).all()


def test_a_dict_needs_its_function():
    with pytest.raises(TypeError, match=r"model must be callable unless apply\(params, x\) is given; got a dict"):
        ds.models.linearize({"w": jnp.ones(3)})
