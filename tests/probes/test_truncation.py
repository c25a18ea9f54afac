"""Truncations inside the loop are those outside of it."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope import probes
from dynascope.geometry import truncate

DRAWN = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
START = {"a": jnp.asarray(DRAWN), "b": jnp.eye(3, dtype=jnp.float32)}


def loss(model):
    return jnp.sum((model["a"] @ model["b"] - 1) ** 2)


def test_each_weight_is_cut_to_each_rank_at_each_recording():
    weights = {"first": lambda m: m["a"], "second": lambda m: m["b"]}
    seen = {"cut": probes.truncations(weights, (0, 2, 3, 9), loss), "loss": probes.loss()}
    trained = ds.descend(START, loss, optax.sgd(0.01), steps=4, record=2, probes=seen)
    trace = trained.trace
    assert trace.cut.dims == ("step", "weight", "rank")
    assert list(trace.weight.values) == ["first", "second"]
    for name, where in weights.items():
        for rank in (0, 2):
            expected = float(loss(truncate(trained.model, where, rank=rank)))
            assert float(trace.cut.sel(step=4, weight=name, rank=rank)) == pytest.approx(expected, rel=1e-5)
    for rank in (3, 9):
        np.testing.assert_allclose(trace.cut.sel(rank=rank, weight="first"), trace.loss, rtol=1e-6)


def test_what_is_measured_can_have_axes_of_its_own():
    both = {"both": lambda m: (m["a"], m["b"])}
    probe = probes.truncations(both, (0, 1), lambda m: m["a"], dims=("row", "column"))
    trace = ds.descend(START, loss, optax.sgd(0.01), steps=1, probes={"entry": probe}).trace
    assert trace.entry.dims == ("step", "weight", "rank", "row", "column")
    assert float(abs(trace.entry.sel(rank=0)).max()) == 0
    assert np.linalg.matrix_rank(trace.entry.sel(rank=1).values[0, 0], tol=1e-4) == 1
