"""Runs that stop by themselves, and what they record then."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds

TASK = ds.tasks.Supervised("mse")


def test_it_stops_when_the_condition_is_met(network, data):
    trained = ds.descend(
        network(), TASK, optax.adam(0.01), data=data, steps=2000, record=10, stop=lambda snap: snap.loss() < 0.1
    )
    stopped = int(trained.trace.stopped_at)
    assert 0 < stopped < 2000
    assert trained.trace.step[-1] == stopped == trained.at
    assert trained.trace.loss[-1] < 0.1
    assert (trained.trace.loss[:-1] >= 0.1).all()
    never = ds.descend(network(), TASK, optax.sgd(0.0), data=data, steps=20, stop=lambda snap: snap.loss() < 0)
    assert int(never.trace.stopped_at) == -1
    assert never.trace.step[-1] == 20


def test_a_condition_may_have_its_own_cadence():
    every = ds.probes.probe(lambda snapshot: snapshot.step >= 7, every=3)
    trained = ds.iterate(lambda x: x, jnp.zeros(()), steps=100, record=50, stop=every)
    assert int(trained.trace.stopped_at) == 9


def test_a_run_that_stops_between_recordings_records_its_last_state():
    condition = ds.probes.probe(lambda snapshot: snapshot.step >= 7, every=3)
    probes = {"x": lambda x: x, "far": ds.probes.displacement(every=4), "at": ds.probes.displacement(every=[0, 2, 50])}
    stopped = ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=60, record=20, probes=probes, stop=condition)
    assert (stopped.trace.step.values.tolist(), stopped.trace.x.values.tolist()) == ([0, 9], [0, 9])
    assert (stopped.trace.far_step.values.tolist(), stopped.trace.far.values.tolist()) == ([0, 4, 8, 9], [0, 4, 8, 9])
    assert (stopped.trace.at_step.values.tolist(), stopped.trace["at"].values.tolist()) == ([0, 2], [0, 2])
    longer = stopped.resume(steps=20, stop=None).trace
    assert (longer.step.values.tolist(), longer.x.values.tolist()) == ([0, 9, 20, 29], [0, 9, 20, 29])
    listed = ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=60, record=[0, 5, 20], stop=condition)
    assert (listed.trace.step.values.tolist(), listed.at, float(listed.model)) == ([0, 5], 9, 9)


def test_members_that_stop_between_recordings_keep_their_last_state():
    condition = ds.probes.probe(lambda snapshot: snapshot.model >= 7, every=3)
    many = ds.ensemble(
        lambda by: ds.Map(lambda x: x + by, jnp.zeros(())), {"by": [1.0, 0.0]}, steps=40, record=20, stop=condition
    )
    assert many.trace.stopped_at.values.tolist() == [9, -1]
    np.testing.assert_array_equal(many.trace.state, [[0, np.nan, np.nan], [0, 0, 0]])
    assert float(many.member(by=1.0).model) == 9


def test_members_stop_one_by_one():
    def decaying(rate):
        return ds.Map(lambda x: rate * x, jnp.ones(()), loss=lambda x: x)

    many = ds.ensemble(
        decaying, {"rate": [0.5, 0.9, 1.0]}, steps=50, record=1, stop=lambda snapshot: snapshot.loss() < 0.1
    )
    assert many.trace.stopped_at.values.tolist() == [4, 22, -1]
    assert np.isfinite(many.trace.state).sum("step").values.tolist() == [5, 23, 51]
    quick = many.member(rate=0.5)
    assert quick.trace.sizes["step"] == 5
    assert float(quick.model) == 0.5**4
    with pytest.raises(ValueError, match="one by one"):
        many.resume(steps=5)


def test_a_stopped_run_can_be_resumed_without_its_condition():
    stopped = ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=50, record=5, stop=lambda snap: snap.step >= 10)
    assert stopped.at == 10
    assert stopped.resume(steps=20).at == 15
    assert stopped.resume(steps=20, stop=None).at == 30
    assert stopped.resume(steps=20, stop=lambda snapshot: snapshot.step >= 20).at == 20


def test_flows_stop_where_the_clock_says():
    bowl = lambda x: jnp.sum(x**2)  # noqa: E731
    stopped = ds.flow(jnp.ones(2), bowl, times=[0.0, 0.1, 0.7, 0.9], stop=lambda snapshot: snapshot.step > 0.5)
    assert stopped.trace.time.values.tolist() == [0, 0.1, 0.7]
    with pytest.raises(ValueError, match="further apart"):
        ds.flow(jnp.ones(2), bowl, times=[0.0, 1.0, 1.00000001])
    with pytest.raises(ValueError, match="every= is for steps"):
        ds.flow(jnp.ones(2), bowl, times=[0.0, 1.0], probes={"loss": ds.probes.loss(every=2)})
    with jax.enable_x64(True):
        single = ds.flow(jnp.ones(2, jnp.float32), bowl, times=[0.0, 0.5])
    np.testing.assert_allclose(single.trace.loss, 2 * np.exp([0, -2.0]), rtol=1e-4)
