"""The single neuron: population, samples and reduced map against one another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks import single_neuron
from dynascope.tasks.single_neuron import SingleNeuron, reduced_start, reduced_step, unit_teacher


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def task():
    return SingleNeuron(jnp.asarray([0.3, -0.5, 0.2, 0.9, 0.1]))


@pytest.fixture
def neuron():
    return {"v": jnp.asarray(0.7), "w": jnp.asarray([0.5, 0.1, -0.8, 0.4, 0.2])}


def test_population_loss_and_gradient_are_the_mean_over_samples(task, neuron):
    x = task.sample(jax.random.key(0), 100_000)
    np.testing.assert_allclose(task.loss(neuron, x), task.population_loss(neuron), atol=2e-3)
    sampled, exact = jax.jit(jax.grad(task.loss))(neuron, x), task.gradient(neuron)
    np.testing.assert_allclose(sampled["v"], exact["v"], atol=3e-3)
    np.testing.assert_allclose(sampled["w"], exact["w"], atol=3e-3)


def test_the_gradient_is_that_of_the_loss(task, neuron):
    exact = task.gradient(neuron)
    for name, index in (("v", ()), ("w", (2,))):
        nudge = {key: jnp.zeros_like(value) for key, value in neuron.items()}
        nudge[name] = nudge[name].at[index].set(1e-6)
        up = task.population_loss(jax.tree.map(jnp.add, neuron, nudge))
        down = task.population_loss(jax.tree.map(jnp.subtract, neuron, nudge))
        np.testing.assert_allclose((up - down) / 2e-6, exact[name][index], atol=1e-9)


def test_the_hessian_at_a_minimum_is_the_closed_form(task):
    minimum = {"v": jnp.asarray(0.5), "w": 2 * task.teacher}
    blocks = jax.jit(jax.hessian(task.population_loss))(minimum)
    expected = task.hessian_at_minimum(minimum)
    np.testing.assert_allclose(blocks["w"]["w"], expected[1:, 1:], atol=1e-14)
    np.testing.assert_allclose(blocks["v"]["w"], expected[0, 1:], atol=1e-14)
    d, size = 5, float(jnp.sum(minimum["w"] ** 2))
    np.testing.assert_allclose(np.linalg.eigvalsh(expected), [0, *[0.25 / d] * (d - 1), (size + 0.25) / d], atol=1e-14)


@pytest.mark.parametrize("dim", [2, 5])
def test_the_reduced_map_is_the_population_s_in_any_dimension(dim):
    task, K = unit_teacher(dim), 1.07
    w = 0.1 * jax.random.normal(jax.random.key(1), (dim,))
    neuron = {"v": jnp.asarray(0.1), "w": w}
    state = task.coordinates(neuron)
    step = jax.jit(lambda neuron, state: (task.step(neuron, K * dim), reduced_step(state, K)))
    for _ in range(40):
        neuron, state = step(neuron, state)
    for name, value in task.coordinates(neuron).items():
        np.testing.assert_allclose(value, state[name], atol=1e-12)


def test_starts_have_the_size_and_angle_asked_for():
    start = reduced_start(0.1, 0.5)
    np.testing.assert_allclose(jnp.hypot(start["wx"], start["wy"]), 0.1)
    np.testing.assert_allclose(jnp.arctan2(start["wy"], start["wx"]), 0.5)
    assert float(start["v"]) == 0.1


def test_samples_lie_on_the_sphere_in_all_directions():
    x = single_neuron.sphere_points(jax.random.key(0), 20_000, 3)
    np.testing.assert_allclose(jnp.sum(x**2, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(3) / 3, atol=0.01)


def test_the_critical_rate_is_two_over_the_flattest_sharpness(task):
    size = jnp.sqrt(jnp.linalg.norm(task.teacher))
    flattest = {"v": size, "w": task.teacher / size}
    top = np.linalg.eigvalsh(task.hessian_at_minimum(flattest))[-1]
    np.testing.assert_allclose(task.critical_rate, 2 / top, rtol=1e-12)
