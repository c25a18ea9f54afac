"""The sixteen-neuron teacher: its minima and their sharpness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from dynascope.geometry import dense_hessian, norm_ratio
from dynascope.tasks.axis_teacher import AxisTeacher


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def task():
    return AxisTeacher()


def test_scaled_axes_are_minima(task):
    x = task.sample(jax.random.key(0), 100)
    minimum = task.minimum(jnp.linspace(0.5, 2, 16))
    assert task.loss(minimum, x) < 1e-28
    np.testing.assert_allclose(norm_ratio(minimum["w"], minimum["v"]), np.linspace(0.5, 2, 16) ** 2, rtol=1e-12)


def test_the_start_is_near_the_minimum_it_names(task):
    start = task.start(jax.random.key(0))
    np.testing.assert_allclose(start["v"], 1 / (1 + 0.0625 * np.arange(16)), rtol=1e-12)
    ratios = norm_ratio(start["w"], start["v"])
    np.testing.assert_allclose(ratios[0], 1.0, atol=0.1)
    np.testing.assert_allclose(ratios[-1], 1.9375**2, rtol=0.05)


def jacobian(x, scale):
    """Of the outputs at the minimum with a common scale, where the Hessian is 2 J^T J / samples."""
    inner = (x > 0)[:, :, None] * x[:, None, :] / scale
    return np.concatenate([scale * np.maximum(x, 0), inner.reshape(len(x), -1)], axis=1)


def test_the_hessian_at_a_minimum_is_that_of_gauss_and_newton():
    task = AxisTeacher(3)
    x = task.sample(jax.random.key(1), 50)
    flat, back = ravel_pytree(task.minimum(jnp.full(3, 1.1)))
    H = jax.jit(jax.hessian(lambda p: task.loss(back(p), x)))(flat)
    J = jacobian(np.asarray(x), 1.1)
    np.testing.assert_allclose(H, 2 * J.T @ J / 50, atol=1e-12)


def test_the_hessian_is_that_of_autodiff():
    task = AxisTeacher(4)
    x, student = task.sample(jax.random.key(0), 50), task.start(jax.random.key(1), noise=0.3)
    by_autodiff = dense_hessian(lambda student: task.loss(student, x), student)
    np.testing.assert_allclose(task.hessian(student, x), by_autodiff, atol=1e-14)


def test_the_flattest_of_the_common_scales_is_at_1_21():
    """The numbers are those of this sample; others of its size differ by 2 %."""
    x = np.random.default_rng(0).standard_normal((10_000, 16))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = []
    for square in (1.0, 1.21, 1.6):
        J = jacobian(x, np.sqrt(square))
        found.append(np.linalg.eigvalsh(2 * J.T @ J / len(x))[-1])
    np.testing.assert_allclose(found, [0.82442, 0.80462, 0.84449], rtol=1e-5)
