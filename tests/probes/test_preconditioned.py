"""Curvature in the geometry of an optimizer: against the dense matrix, and refused where it is not known."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import dynascope as ds
from dynascope.probes.preconditioner import preconditioner
from dynascope.probes.probe import Snapshot

STEPS = 7
OPTIMIZERS = {
    "adam": (optax.adam, {"b1": 0.8}, {}),
    "adamw": (optax.adamw, {"eps_root": 1e-6}, {}),
    "rmsprop": (optax.rmsprop, {}, {}),
    "rmsprop, eps outside": (optax.rmsprop, {"eps_in_sqrt": False, "eps": 1e-2}, {"eps_in_sqrt": False}),
    "rmsprop, corrected": (optax.rmsprop, {"bias_correction": True}, {}),
    "rmsprop, centered": (optax.rmsprop, {"centered": True, "bias_correction": True, "eps": 1e-3}, {}),
    "adagrad": (optax.adagrad, {}, {}),
}


def regression(width=6):
    net = ds.models.MLP(3, 2, width=width, out=1, key=jax.random.key(0), activation="tanh", bias=True)
    x = jax.random.normal(jax.random.key(1), (30, 3))
    return net, lambda net: jnp.mean((jax.vmap(net)(x)[:, 0] - jnp.sin(2 * x[:, 0])) ** 2)


def flat_steps(make, options, steps):
    """The gradients of a run and the direct steps of the optimizer, all flat."""
    net, loss = regression()
    optimizer = make(1.0, **options)
    params, unravel = ravel_pytree(net)
    memory, gradients = optimizer.init(net), []
    for _ in range(steps):
        gradient = jax.grad(loss)(unravel(params))
        gradients.append(ravel_pytree(gradient)[0])
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            updates, memory = optimizer.update(gradient, memory, unravel(params))
        params = params + 0.01 * ravel_pytree(updates)[0]
    return gradients, memory, unravel(params), loss


def diagonal_by_hand(name, gradients):
    """P from the recorded gradients, by the definitions."""
    g = np.asarray(jnp.stack(gradients), float)
    t = len(g)

    def average(values, decay):
        return sum((1 - decay) * decay ** (t - 1 - i) * value for i, value in enumerate(values))

    if name.startswith("adam"):
        first = 0.8 if name == "adam" else 0.9
        root = np.sqrt(average(g**2, 0.999) / (1 - 0.999**t) + (1e-6 if name == "adamw" else 0))
        return (1 - first**t) * (root + 1e-8)
    if name == "adagrad":
        return np.sqrt(0.1 + (g**2).sum(axis=0) + 1e-7)
    bias = 1 - 0.9**t
    if name == "rmsprop, centered":
        return np.sqrt(average(g**2, 0.9) / bias - (average(g, 0.9) / bias) ** 2 + 1e-3)
    if name == "rmsprop, corrected":
        return np.sqrt(average(g**2, 0.9) / bias + 1e-8)
    return np.sqrt(average(g**2, 0.9)) + 1e-2 if "outside" in name else np.sqrt(average(g**2, 0.9) + 1e-8)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_eigenvalue_is_that_of_the_dense_matrix(name):
    make, options, known = OPTIMIZERS[name]
    with jax.enable_x64(True):
        gradients, memory, net, loss = flat_steps(optax.inject_hyperparams(make), options, STEPS)
        snapshot = Snapshot(net, STEPS, loss, memory)
        diagonal = diagonal_by_hand(name, gradients)
        np.testing.assert_allclose(preconditioner(snapshot, **known), diagonal, rtol=1e-6)
        hessian = np.asarray(ds.geometry.dense_hessian(loss, net))
        exact = np.linalg.eigvalsh(hessian / np.sqrt(np.outer(diagonal, diagonal)))[-1]
        probe = ds.probes.preconditioned_sharpness(tolerance=1e-8, **known)
        assert hessian.shape[0] == 31
        found, _ = probe.measure(snapshot, probe.initial_state(snapshot))
        np.testing.assert_allclose(found["value"], exact, rtol=1e-7)
        assert found["converged"]


def test_along_a_descent_the_search_finds_it_and_says_that_it_converged():
    net, loss = regression(width=20)
    optimizer = optax.inject_hyperparams(optax.adam)(0.01)
    probes = {"edge": ds.probes.preconditioned_sharpness()}
    trained = ds.descend(net, loss, optimizer, steps=20, record=10, probes=probes)
    assert np.isnan(trained.trace.edge[0])
    assert not trained.trace.edge_converged[0]
    assert trained.trace.edge_converged[1:].all()
    end = trained.snapshot()
    rescaled = ds.geometry.precondition(loss, trained.model, preconditioner(end))
    dense = ds.geometry.top_eigenpairs(*rescaled)
    np.testing.assert_allclose(trained.trace.edge[-1], dense.values[0], rtol=2e-3)
    hessian = ds.geometry.dense_hessian(loss, trained.model)
    plain = np.linalg.eigvals(np.asarray(hessian) / np.asarray(preconditioner(end))[:, None])
    np.testing.assert_allclose(dense.values[0], np.max(plain.real), rtol=1e-4)


def test_a_search_that_is_cut_short_has_not_converged():
    net, loss = regression(width=20)
    optimizer = optax.inject_hyperparams(optax.adam)(0.01)
    probes = {"edge": ds.probes.preconditioned_sharpness(max_products=2)}
    trace = ds.descend(net, loss, optimizer, steps=2, record=[1, 2], probes=probes).trace
    assert not trace.edge_converged[0]
    assert trace.edge_error[0] > 1e-3 * abs(trace.edge[0])


def test_in_the_coordinates_of_the_optimizer_its_step_is_gradient_descent():
    net, loss = regression()
    diagonal = jnp.linspace(0.5, 2, 31)
    rescaled, zero = ds.geometry.precondition(loss, net, diagonal)
    point, unravel = ravel_pytree(net)
    stepped = unravel(point - 0.1 * ravel_pytree(jax.grad(loss)(net))[0] / diagonal)
    np.testing.assert_allclose(rescaled(zero - 0.1 * jax.grad(rescaled)(zero)), loss(stepped), rtol=1e-6)
    np.testing.assert_allclose(rescaled(zero), loss(net))


@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), optax.adam(0.1), optax.inject_hyperparams(optax.amsgrad)(0.1)])
def test_an_optimizer_whose_preconditioner_is_not_known_is_refused(optimizer):
    net, loss = regression()
    with pytest.raises(ValueError, match="inject_hyperparams"):
        ds.descend(net, loss, optimizer, steps=1, probes={"edge": ds.probes.preconditioned_sharpness()})


def test_a_preconditioner_of_another_size_is_refused():
    net, loss = regression()
    with pytest.raises(ValueError, match="preconditioner must have 31 entries"):
        ds.geometry.precondition(loss, net, jnp.ones(3))
