"""A small network on 32 examples, for the tests of trajectories."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds

X = jax.random.normal(jax.random.key(0), (32, 3))
DATA = (X, jnp.sin(X[:, 0]) + X[:, 1])
TASK = ds.tasks.Supervised("mse")


def _network(seed: int = 1) -> eqx.nn.MLP:
    return eqx.nn.MLP(3, 1, 8, 1, activation=jax.nn.tanh, key=jax.random.key(seed))


def _train(steps: int, **options) -> ds.Trajectory:
    probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=20)}
    usual = {"data": DATA, "batch": 8, "key": jax.random.key(2), "record": 5, "probes": probes}
    return ds.descend(_network(), TASK, optax.adam(0.01), steps=steps, **{**usual, **options})


def _member(seed, rate) -> ds.Descent:
    key = jax.random.key(seed)
    drawn = jax.tree.map(
        lambda leaf: jax.random.normal(key, leaf.shape) * 0.3 if eqx.is_inexact_array(leaf) else leaf, _network(0)
    )
    return ds.Descent(drawn, TASK, optax.adam(rate), data=DATA, batch=8, key=key)


def _same_bits(one, other) -> bool:
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in leaves if eqx.is_array_like(a))


@pytest.fixture
def data() -> tuple[jax.Array, jax.Array]:
    return DATA


@pytest.fixture
def network() -> Callable[..., eqx.nn.MLP]:
    return _network


@pytest.fixture
def train() -> Callable[..., ds.Trajectory]:
    """`train(steps, **options)`: a descent of the network by Adam."""
    return _train


@pytest.fixture
def member() -> Callable[..., ds.Descent]:
    """The same as the member of an ensemble over `seed` and `rate`."""
    return _member


@pytest.fixture
def same_bits() -> Callable[..., bool]:
    """Whether two trees have the same arrays, to the bit."""
    return _same_bits
