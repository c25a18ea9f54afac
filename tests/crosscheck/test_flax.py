"""Flax models, of either interface: trained on one's own data, probed, and their tangent kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.geometry.layerwise_kernel import layers_of
from dynascope.geometry.tangent_kernel import flat_outputs

nn = pytest.importorskip("flax.linen", reason="flax is not installed")
nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")

X = jax.random.normal(jax.random.key(1), (20, 3))
Y = jnp.sin(X[:, :1]) + X[:, 1:2] * X[:, 2:]
PROBES = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=10, tolerance=1e-6)}


class Linen(nn.Module):
    """Two layers."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(8)(x)))


class Nnx(nnx.Module):
    """The same."""

    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.tanh(self.first(x)))


def by_hand(params, loss, steps):
    """The losses, and the parameters at the end, of a loop with optax."""
    optimizer, losses = optax.sgd(0.1, momentum=0.9), []
    memory = optimizer.init(params)
    for _ in range(steps):
        value, gradient = jax.value_and_grad(loss)(params, (X, Y))
        losses.append(value)
        updates, memory = optimizer.update(gradient, memory, params)
        params = optax.apply_updates(params, updates)
    return [*losses, loss(params, (X, Y))], params


def check(trained, params, loss, kernel, apply):
    """Against a loop by hand, the whole Hessian at the end, and the product of Jacobians at the start."""
    losses, end = by_hand(params, loss, 50)
    np.testing.assert_allclose(trained.trace.loss, losses, rtol=1e-6, atol=1e-6)
    assert jax.tree.structure(trained.model) == jax.tree.structure(params)
    for found, expected in zip(jax.tree.leaves(trained.model), jax.tree.leaves(end), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    flat, unflatten = jax.flatten_util.ravel_pytree(end)
    hessian = jax.hessian(lambda flat: loss(unflatten(flat), (X, Y)))(flat)
    np.testing.assert_allclose(trained.trace.sharpness[-1], np.linalg.eigvalsh(hessian)[-1], rtol=1e-4)
    start, unflatten = jax.flatten_util.ravel_pytree(params)
    jacobian = jax.jacrev(lambda flat: jax.vmap(lambda x: apply(unflatten(flat), x)[0])(X))(start)
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-4, atol=1e-5)


def test_a_linen_model_is_trained_and_probed():
    net = Linen()
    params = net.init(jax.random.key(0), X[0])

    def loss(params, batch):
        x, y = batch
        return jnp.mean((net.apply(params, x) - y) ** 2)

    trained = ds.descend(params, loss, optax.sgd(0.1, momentum=0.9), data=(X, Y), steps=50, record=1, probes=PROBES)
    kernel = ds.geometry.tangent_kernel(params, X, apply=net.apply)
    check(trained, params, loss, kernel, net.apply)


class Convolutional(nn.Module):
    """Strides, pooling and group normalization."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x[None]))
        x = nn.max_pool(nn.GroupNorm(2)(x), (2, 2), (2, 2))
        x = nn.relu(nn.Conv(6, (3, 3), strides=2, padding="VALID")(x))
        return nn.Dense(3)(x.ravel())


def test_the_kernel_of_a_convolutional_network_is_made_by_layers():
    net, x = Convolutional(), jax.random.normal(jax.random.key(1), (5, 10, 10, 2))
    params = net.init(jax.random.key(0), x[0])
    layers = layers_of(*flat_outputs(params, net.apply), x)
    assert all(leaf.ndim == 1 for leaf in layers.plain())
    start, unflatten = jax.flatten_util.ravel_pytree(params)
    jacobian = jax.jacrev(lambda flat: jax.vmap(lambda x: net.apply(unflatten(flat), x))(x).ravel())(start)
    exact = jacobian @ jacobian.T
    found = ds.geometry.tangent_kernel(params, x, apply=net.apply)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * float(jnp.max(exact)))


def test_an_nnx_model_is_trained_and_probed():
    graph, params = nnx.split(Nnx(nnx.Rngs(0)))

    def apply(params, x):
        return nnx.merge(graph, params)(x)

    def loss(params, batch):
        x, y = batch
        return jnp.mean((apply(params, x) - y) ** 2)

    trained = ds.descend(params, loss, optax.sgd(0.1, momentum=0.9), data=(X, Y), steps=50, record=1, probes=PROBES)
    kernel = ds.geometry.tangent_kernel(params, X, apply=apply)
    check(trained, params, loss, kernel, apply)
    net = nnx.merge(graph, trained.model)
    np.testing.assert_allclose(jnp.mean((net(X) - Y) ** 2), trained.trace.loss[-1], rtol=1e-5)
