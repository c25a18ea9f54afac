"""A monitor that watches gets the records while they are made: the part that it wants, each row once."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds
from dynascope.dynamics import driver
from dynascope.dynamics.watching import Wanted

RATES = [0.9, 0.8, 0.7, 0.6, 0.5]


def member(rate):
    probes = {"x": lambda x: x, "size": ds.probes.probe(lambda snapshot: jnp.sum(snapshot.model**2), every=8)}
    return ds.Map(lambda x: rate * x, jnp.array([1.0, 2.0]), probes=probes)


class Looker(ds.Monitor):
    """A monitor that puts together what it is handed out."""

    watch_every = 0.0

    def __init__(self, members=slice(None), rows=slice(None)):
        self.members, self.rows, self.calls, self.seen = members, rows, 0, {}

    def watch(self, recording):
        self.recording = recording
        count = int(np.prod([len(labels) for labels in recording.dims.values()]))
        wanted = {}
        for name, variable in recording.variables.items():
            wanted[name] = Wanted(np.arange(count)[self.members], np.arange(len(variable.times))[self.rows])
            shape = (*map(len, wanted[name]), *variable.shape)
            self.seen[name] = np.full(shape, np.inf)
        self.wanted = wanted
        return wanted

    def watched(self, found):
        self.calls += 1
        for rows in found:
            places = [np.searchsorted(*pair) for pair in zip(self.wanted[rows.variable], rows[1:3], strict=True)]
            assert np.all(self.seen[rows.variable][np.ix_(*places)] == np.inf), "a row is handed out once"
            self.seen[rows.variable][np.ix_(*places)] = rows.values


def watched(monitor, **options):
    with ds.monitored_by(monitor):
        return ds.ensemble(member, {"rate": RATES}, steps=400, record=4, **options).trace


@pytest.mark.parametrize("width", [None, 2])
def test_what_is_handed_out_is_the_trace(width, monkeypatch):
    monkeypatch.setattr(driver, "SLICE_SECONDS", 0.0)
    looker = Looker()
    trace = watched(looker, width=width)
    assert looker.calls > 2, "it comes in several parts"
    np.testing.assert_array_equal(looker.seen["x"], trace.x)
    np.testing.assert_array_equal(looker.seen["size"], trace["size"])
    variable = looker.recording.variables["size"]
    np.testing.assert_array_equal(variable.times, trace["size_step"])
    assert variable.axis == "size_step"
    np.testing.assert_allclose(looker.recording.dims["rate"], RATES)


def test_only_the_wanted_part_is_handed_out():
    looker = Looker(members=slice(1, None, 2), rows=slice(None, None, 3))
    trace = watched(looker)
    np.testing.assert_array_equal(looker.seen["x"], trace.x[1::2, ::3])


def test_watching_changes_nothing_in_the_trace():
    assert watched(Looker()).drop_attrs().identical(watched(ds.Monitor()).drop_attrs())


def test_a_monitor_that_wants_nothing_is_told_nothing():
    class Blind(Looker):
        def watch(self, recording):
            return {}

    blind = Blind()
    watched(blind)
    assert blind.calls == 0


def test_nothing_is_seen_of_a_member_after_it_has_stopped():
    looker = Looker()
    trace = watched(looker, stop=lambda snapshot: jnp.sum(snapshot.model**2) < 1e-3)
    assert bool((trace.stopped_at >= 0).any())
    np.testing.assert_array_equal(np.isnan(looker.seen["x"]), np.isnan(trace.x))


def test_a_single_run_is_watched_too():
    looker = Looker()
    with ds.monitored_by(looker):
        trace = ds.iterate(lambda x: 0.5 * x, jnp.ones(3), steps=20, record=1).trace
    assert not looker.recording.dims
    np.testing.assert_array_equal(looker.seen["state"][0], trace.state)
