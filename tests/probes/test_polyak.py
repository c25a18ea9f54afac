"""The Polyak ratio and the kernel beside it, on models whose kernel is known."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.probes.polyak import polyak


def test_on_a_linear_model_the_kernel_stays_and_the_ratio_is_its_quotient():
    x = jnp.array([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    y = jnp.array([1.0, -1.0])
    kernel = np.asarray(x @ x.T)

    def loss(w):
        return jnp.sum((x @ w - y) ** 2) / 2

    def apply(w, x):
        return x @ w

    trace = ds.descend(
        jnp.zeros(3), loss, optax.sgd(0.1), steps=5, record=1, probes={"polyak": polyak(x, apply=apply)}
    ).trace
    np.testing.assert_allclose(trace.polyak_smallest, 2, rtol=1e-6)
    np.testing.assert_allclose(trace.polyak_largest, 4, rtol=1e-6)
    np.testing.assert_allclose(trace.polyak_change, 0, atol=1e-6)
    residual = np.asarray(-y)
    for value in trace.polyak.values:
        np.testing.assert_allclose(value, residual @ kernel @ residual / (residual @ residual), rtol=1e-5)
        residual = residual - 0.1 * kernel @ residual


def test_the_change_is_that_of_a_model_with_known_kernel():
    """f = w^2 x: K = 4 w^2 x^2."""
    x = jnp.array([[1.0], [3.0]])

    def loss(w):
        return jnp.sum((w**2 * x[:, 0]) ** 2) / 2

    trace = ds.descend(
        jnp.array(1.0), loss, optax.sgd(0.01), steps=3, record=1,
        probes={"polyak": polyak(x, apply=lambda w, x: w**2 * x[0]), "w": lambda w: w},
    ).trace  # fmt: skip
    np.testing.assert_allclose(trace.polyak_change, 1 - trace.w.values**2, atol=1e-5)
    np.testing.assert_allclose(trace.polyak_largest, 40 * trace.w.values**2, rtol=1e-5)
    np.testing.assert_allclose(trace.polyak, 40 * trace.w.values**2, rtol=1e-5)
    assert jax.numpy.isfinite(jnp.asarray(trace.polyak.values)).all()
