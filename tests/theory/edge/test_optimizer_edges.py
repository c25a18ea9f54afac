"""The edges of the optimizers against the spectral radius of their own steps on a quadratic."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import brentq

from dynascope.theory.edge import optimizer_edges

RATE = 0.3


def radius(optimizer, curvature):
    """The spectral radius of the linear map of the weight and the optimizer's memory in one step on S w^2 / 2."""
    weight = jnp.zeros(())
    memory = optimizer.init(weight)
    parts, unravel = ravel_pytree((weight, memory))

    def step(parts):
        weight, memory = unravel(parts)
        updates, memory = optimizer.update(curvature * weight, memory, weight)
        return ravel_pytree((weight + updates, memory))[0]

    return np.max(np.abs(np.linalg.eigvals(jax.jacobian(step)(parts))))


def edge(optimizer):
    return brentq(lambda curvature: radius(optimizer, curvature) - 1 - 1e-12, 1e-3, 100 / RATE, xtol=1e-12)


@pytest.mark.parametrize("momentum", [0.3, 0.5, 0.9])
def test_momentum_loses_stability_at_its_edge(momentum):
    with jax.enable_x64(True):
        heavy, nesterov = (optax.sgd(RATE, momentum=momentum, nesterov=kind) for kind in (False, True))
        assert float(optimizer_edges.heavy_ball(RATE, momentum)) == pytest.approx(edge(heavy), rel=1e-6)
        assert float(optimizer_edges.nesterov(RATE, momentum)) == pytest.approx(edge(nesterov), rel=1e-6)


@pytest.mark.parametrize("momentum", [0.3, 0.5, 0.9])
def test_adam_loses_stability_at_its_edge(momentum):
    """With a fixed preconditioner Adam is gradient descent along the average of gradients."""
    with jax.enable_x64(True):
        adam = optax.chain(optax.scale(1 - momentum), optax.trace(momentum), optax.scale(-RATE))
        assert float(optimizer_edges.adam(RATE, momentum)) == pytest.approx(edge(adam), rel=1e-6)


def test_without_momentum_all_edges_are_that_of_gradient_descent():
    with jax.enable_x64(True):
        exact = edge(optax.sgd(RATE))
        assert float(optimizer_edges.gradient_descent(RATE)) == pytest.approx(exact, rel=1e-6)
    for function in (optimizer_edges.heavy_ball, optimizer_edges.nesterov, optimizer_edges.adam):
        assert float(function(RATE, 0.0)) == pytest.approx(2 / RATE)


def test_adam_with_the_usual_momentum_has_its_edge_at_38_over_the_rate():
    assert float(optimizer_edges.adam(1e-3, 0.9)) == pytest.approx(38e3)


def test_at_the_edge_of_batch_sharpness_a_step_leaves_the_loss_of_its_batch_as_it_is_on_average():
    """Quadratics of one example each, batches of two: all pairs are enumerated."""
    rng = np.random.default_rng(0)
    curvatures, targets, weight = rng.uniform(1, 3, (6, 4)), rng.normal(size=(6, 4)), rng.normal(size=4)
    pairs = [[i, j] for i in range(6) for j in range(i)]
    means = [(curvatures[pair].mean(0), (curvatures * targets)[pair].mean(0)) for pair in pairs]
    gradients = [h * weight - c for h, c in means]
    sharpness = sum(g @ (h * g) for g, (h, _) in zip(gradients, means, strict=True)) / sum(g @ g for g in gradients)

    def change(rate):
        return sum(
            np.sum(h * (weight - rate * g) ** 2 / 2 - c * (weight - rate * g) - h * weight**2 / 2 + c * weight)
            for g, (h, c) in zip(gradients, means, strict=True)
        )

    rate = brentq(change, 0.1, 3)
    assert float(optimizer_edges.gradient_descent(rate)) == pytest.approx(sharpness, rel=1e-9)
