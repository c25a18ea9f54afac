"""Product losses against autodiff and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.tasks.products import many_factors, two_factors


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("factors", [[1.5, 0.8], [1.5, 0.8, 0.0, 0.7]])
def test_gradient_and_hessian_are_those_of_the_loss(factors):
    task, x = many_factors(len(factors)), jnp.asarray(factors)
    written, derived = jax.jit(
        lambda x: ((task.gradient(x), task.hessian(x)), (jax.grad(task)(x), jax.hessian(task)(x)))
    )(x)
    np.testing.assert_allclose(written[0], derived[0], atol=1e-14)
    np.testing.assert_allclose(written[1], derived[1], atol=1e-14)


def test_two_factors_move_as_the_document_writes():
    mu, rate, (x, y) = 1.3, 0.9, (1.5, 0.8)
    e = rate * (x * y - mu)
    np.testing.assert_allclose(two_factors(mu).step(jnp.asarray([x, y]), rate), [x - e * y, y - e * x], rtol=1e-15)


def test_sharpness_at_minima():
    x = jnp.asarray([2.0, 0.25, 2.0])
    task = many_factors(3)
    np.testing.assert_allclose(task.sharpness_at_minimum(x), np.linalg.eigvalsh(task.hessian(x))[-1], rtol=1e-14)
    np.testing.assert_allclose(two_factors(1.0).sharpness_at_minimum(jnp.asarray([4.0, 0.25])), 16.0625)


def test_the_laboratory_s_descent_takes_the_same_steps():
    task, start = two_factors(), jnp.asarray([1.5, 0.8])
    trained = ds.descend(start, task, optax.sgd(1.05), steps=30, probes={"x": lambda x: x}).trace
    mapped = ds.iterate(lambda x: task.step(x, 1.05), start, steps=30).trace
    np.testing.assert_allclose(trained.x.values, mapped.state.values, rtol=1e-12)
