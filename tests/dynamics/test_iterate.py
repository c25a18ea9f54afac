"""Reduced maps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds


def test_the_logistic_map_is_iterated():
    x, orbit = 0.3, [0.3]
    for _ in range(20):
        x = 3.7 * x * (1 - x)
        orbit.append(x)
    with jax.enable_x64(True):
        trace = ds.iterate(lambda x: 3.7 * x * (1 - x), 0.3, steps=20, record=1).trace
        np.testing.assert_allclose(trace.state, orbit, rtol=1e-10)


def test_a_named_state_is_recorded_by_its_names():
    trace = ds.iterate(lambda s: {"x": s["y"], "y": s["x"] + s["y"]}, {"x": 0, "y": 1}, steps=10, record=1).trace
    assert trace.x.values.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]


def test_divergence_of_a_map_is_recorded_per_member():
    trace = ds.ensemble(lambda r: ds.Map(lambda x: r * x, 1.0), {"r": [0.5, 1e30]}, steps=10, record=5).trace
    assert trace.diverged_at.values.tolist() == [-1, 2]
    assert np.isfinite(trace.state.sel(r=0.5)).all()


def test_a_probe_of_the_loss_needs_one():
    with pytest.raises(TypeError, match="a map has no loss"):
        ds.iterate(lambda x: x, jnp.zeros(2), steps=3, probes={"loss": ds.probes.loss()})


@pytest.mark.parametrize("rule", [lambda x: 0.5, lambda x: None, lambda x: x[:1], lambda x: x.astype(jnp.int32)])
def test_a_rule_that_returns_another_kind_of_state_is_refused(rule):
    with pytest.raises(TypeError, match="rule must return"):
        ds.iterate(rule, jnp.zeros(2), steps=3)
