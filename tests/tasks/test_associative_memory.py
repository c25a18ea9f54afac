"""The linear associative memory: its loss by hand, and training against the flow of the theory."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.tasks import AssociativeMemory
from dynascope.theory.recall.linear_memory import memory_flow


def test_the_loss_is_the_cross_entropy_with_noisy_labels():
    task = AssociativeMemory.on_sphere(jax.random.key(0), 3, 8, 0.2)
    np.testing.assert_allclose(jnp.linalg.norm(task.outputs, axis=1), 1, rtol=1e-6)
    weights = task.start(jax.random.key(1))
    log = jax.nn.log_softmax(jnp.stack([task.outputs @ (weights @ e) for e in task.inputs]))
    own = sum(log[i, i] for i in range(3)) / 3
    assert float(task.pure_loss(weights)) == pytest.approx(-float(own), rel=1e-5)
    assert float(task.population_loss(weights)) == pytest.approx(-float(0.8 * own + 0.2 * log[:, 3].mean()), rel=1e-5)


def test_small_steps_from_zero_follow_the_flow():
    task = AssociativeMemory.orthonormal(3, 0.3)
    trained = ds.descend(jnp.zeros((4, 4)), task, optax.sgd(0.02), steps=500, record=500)
    flow = memory_flow(3, 0.3, np.array([10.0])).isel(time=0)
    logits = task.logits(trained.model)
    assert float(logits[0, 0] - logits[0, 1]) == pytest.approx(float(flow.margin), rel=0.01)
    assert float(logits[0, 3] - logits[0, 0]) == pytest.approx(float(flow.noise_logit), rel=0.01)
