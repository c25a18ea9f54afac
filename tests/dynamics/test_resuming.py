"""A run that goes on is the run that was never cut."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
import xarray as xr

import dynascope as ds
from dynascope.dynamics.checkpoint import _checksums

OVER = {"seed": [0, 3, 5], "rate": [0.01, 0.1]}


def test_a_resumed_descent_has_the_bits_of_one_never_cut(train, same_bits):
    whole, parts = train(100), train(40).resume(steps=20).resume(steps=40)
    assert same_bits(whole.state, parts.state)
    assert same_bits(whole.model, parts.model)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())


def test_a_cadence_of_its_own_goes_on_in_step(train):
    parts = train(40, probes={"loss": ds.probes.loss(), "far": ds.probes.displacement(every=30)}).resume(steps=60)
    assert parts.trace.far_step.values.tolist() == [0, 30, 40, 60, 90, 100]


def test_a_resumed_ensemble_has_the_bits_of_one_never_cut(same_bits, member):
    whole = ds.ensemble(member, OVER, steps=60, record=10)
    parts = ds.ensemble(member, OVER, steps=20, record=10).resume(steps=40)
    assert same_bits(whole.state, parts.state)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())


def test_a_flow_a_map_and_a_central_flow_go_on(same_bits):
    bowl = lambda x: jnp.sum(jnp.array([1.0, 4.0]) * x**2)  # noqa: E731
    start = jnp.array([1.0, 1.0])
    whole = ds.flow(start, bowl, times=[0.0, 0.5, 1.0, 2.0])
    parts = ds.flow(start, bowl, times=[0.0, 0.5]).resume(times=[1.0, 2.0])
    assert same_bits(whole.model, parts.model)
    xr.testing.assert_identical(whole.trace.drop_attrs(), parts.trace.drop_attrs())
    halves = ds.iterate(lambda x: x / 2, jnp.asarray(8.0), steps=2, record=1).resume(steps=1)
    assert halves.trace.state.values.tolist() == [8.0, 4.0, 2.0, 1.0]
    assert float(halves.model) == 1.0
    central = ds.central_flow(start, bowl, 0.1, steps=8, record=4)
    assert same_bits(central.state, ds.central_flow(start, bowl, 0.1, steps=4, record=4).resume(steps=4).state)


def test_a_run_of_no_steps_goes_on_like_a_new_one(train):
    assert train(0).resume(steps=10).trace.step.values.tolist() == [0, 5, 10]
    begun = ds.flow(jnp.ones(2), lambda x: jnp.sum(x**2), times=[0.0]).resume(times=[1.0])
    assert begun.trace.time.values.tolist() == [0.0, 1.0]


def test_a_run_with_listed_steps_can_be_loaded_and_cut():
    run = lambda steps: ds.iterate(  # noqa: E731
        lambda x: x + 1, jnp.zeros(()), steps=steps, record=[0, 5], probes={"x": lambda x: x}
    )
    assert run(0).trace.step.values.tolist() == [0]
    assert run(5).resume(steps=3).trace.step.values.tolist() == [0, 5, 8]


def test_a_checkpoint_of_another_start_is_not_taken():
    class Memory(ds.Monitor):
        keep_every = -1.0
        kept: dict = {}

        def restore(self, name):
            return self.kept.get(name)

        def keep(self, name, arrays):
            self.kept[name] = dict(arrays)

    noisy = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(7)), optax.sgd(0.1))
    losses = []
    for scale in (1.0, 7.0):
        with ds.monitored_by(Memory()):
            losses.append(ds.descend(scale * jnp.ones(2), lambda w: jnp.sum(w**2), noisy, steps=5).trace.loss.values[0])
    assert losses == [2.0, 98.0]


def test_a_resumed_trajectory_says_how_its_steps_were_taken(train):
    longer = train(10).resume(steps=10)
    assert longer.trace.attrs["loop"].startswith("ordinary")
    assert all(isinstance(value, int | float) for value in longer.statistics.values())


def test_checksums_tell_rows_apart_by_every_bit_and_its_place():
    rows = jnp.asarray([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 2.0, -0.0], [1.0, 2.0, 0.0]])
    first, swapped, signed, same = (tuple(row) for row in _checksums(rows).tolist())
    assert len({first, swapped, signed}) == 3
    assert same == first
