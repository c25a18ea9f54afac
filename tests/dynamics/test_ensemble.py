"""Ensembles: named dimensions, one array program, members that do not disturb each other, cadences, memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics import driver
from dynascope.dynamics.program import Program
from dynascope.probes.probe import Probe, probe


def member(seed, learning_rate):
    start = jax.random.normal(jax.random.key(seed), (2,))
    return ds.Descent(
        start, lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 4.0])), optax.sgd(learning_rate),
        probes={"x": lambda x: x, "loss": ds.probes.loss()},
    )  # fmt: skip


OVER = {"seed": range(5), "learning_rate": [0.1, 0.2, 0.6]}


def test_dimensions_are_named_and_labeled():
    trace = ds.ensemble(member, OVER, steps=20, record=10).trace
    assert dict(trace.x.sizes) == {"seed": 5, "learning_rate": 3, "step": 3, "x_0": 2}
    start = jax.random.normal(jax.random.key(3), (2,))
    expected = start * (1 - 0.2 * jnp.array([1.0, 4.0])) ** 20
    np.testing.assert_allclose(trace.x.sel(seed=3, learning_rate=0.2, step=20), expected, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 4, 15])
def test_the_width_changes_nothing(width):
    whole, split = (ds.ensemble(member, OVER, steps=20, record=10, width=w).trace for w in (None, width))
    np.testing.assert_allclose(split.x, whole.x, rtol=1e-6)
    np.testing.assert_array_equal(split.diverged_at, whole.diverged_at)


def test_diverged_members_leave_the_others_alone():
    trace = ds.ensemble(member, OVER, steps=1000, record=500).trace
    assert (trace.diverged_at.sel(learning_rate=0.6) > 0).all()
    assert (trace.diverged_at.sel(learning_rate=[0.1, 0.2]) == -1).all()
    alone = ds.ensemble(member, {**OVER, "learning_rate": [0.1]}, steps=1000, record=500).trace
    np.testing.assert_array_equal(trace.x.sel(learning_rate=[0.1]), alone.x)


def test_settings_that_go_together_share_a_dimension():
    def pair(setting):
        a, b = setting
        return ds.Map(lambda x: a * x + b, jnp.zeros(()))

    trace = ds.ensemble(pair, {"setting": (np.array([2.0, 3.0]), np.array([1.0, 1.0]))}, steps=3, record=3).trace
    assert trace.state.sel(step=3).values.tolist() == [7.0, 13.0]


def test_probes_keep_their_own_cadence():
    def looked(every):
        return probe(lambda snapshot: snapshot.step, every=every)

    trace = ds.iterate(
        lambda x: x, jnp.zeros(()), steps=100, record=20,
        probes={"common": looked(None), "often": looked(7), "once": looked((0,)), "chosen": looked([3, 50])},
    ).trace  # fmt: skip
    assert trace.common.values.tolist() == [0, 20, 40, 60, 80, 100]
    assert trace.often.values.tolist() == [*range(0, 100, 7), 100]
    assert trace.once.values.tolist() == [0]
    assert trace.chosen.values.tolist() == trace.chosen_step.values.tolist() == [3, 50]


def test_a_probe_may_remember_and_report_its_uncertainty():
    mean = Probe(
        lambda snapshot, seen: ({"value": (seen[0] + snapshot.model) / (seen[1] + 1), "count": seen[1]},
                              (seen[0] + snapshot.model, seen[1] + 1)),
        initial_state=lambda snapshot: (jnp.zeros(()), jnp.zeros(())),
    )  # fmt: skip
    trace = ds.iterate(lambda x: x + 1, jnp.zeros(()), steps=4, record=2, probes={"mean": mean}).trace
    assert trace["mean"].values.tolist() == [0.0, 1.0, 2.0]
    assert trace.mean_count.values.tolist() == [0.0, 1.0, 2.0]


def test_a_module_as_member_is_compiled_once_per_shape(monkeypatch):
    traced = []

    class Member(eqx.Module):
        size: int = eqx.field(static=True)

        def __call__(self, rate):
            traced.append(self.size)
            return ds.Map(lambda x: rate * x, jnp.ones(self.size))

    ds.ensemble(Member(2), {"rate": [0.5, 0.7]}, steps=4, record=2)
    first = len(traced)
    ds.ensemble(Member(2), {"rate": [0.1, 0.9]}, steps=4, record=2)
    assert len(traced) - first <= 2  # the outline is traced anew, the programs are not
    ds.ensemble(Member(3), {"rate": [0.1, 0.9]}, steps=4, record=2)
    assert len(traced) > first + 2


def test_what_does_not_fit_is_split(monkeypatch):
    real, tried = Program.begin, []

    def small_device(program, settings, rows, state):
        tried.append(len(rows))
        if len(rows) > 4:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return real(program, settings, rows, state)

    monkeypatch.setattr(Program, "begin", small_device)
    trace = ds.ensemble(member, OVER, steps=20, record=10).trace
    assert tried == [15, 8, 4, 4, 4, 4]
    monkeypatch.undo()
    np.testing.assert_allclose(trace.x, ds.ensemble(member, OVER, steps=20, record=10).trace.x, rtol=1e-6)


class Memory(ds.Monitor):
    """A monitor that keeps in memory, and stops the run where it is asked to."""

    keep_every = 0.0

    def __init__(self, stop_after=None):
        self.kept, self.told, self.stop_after = {}, [], stop_after

    def progress(self, done, total, what):
        self.told.append(done / total)
        if self.stop_after is not None and done / total >= self.stop_after:
            raise KeyboardInterrupt

    def keep(self, name, arrays):
        self.kept[name] = dict(arrays)

    def restore(self, name):
        return self.kept.get(name)


def minibatches(seed):
    rows = jax.random.normal(jax.random.key(seed), (32, 3))
    return ds.Descent(
        jnp.ones(3), lambda w, rows: jnp.mean((rows @ w) ** 2), optax.adam(0.01),
        data=rows, batch=8, key=jax.random.key(seed),
        probes={"w": lambda w: w, "moved": ds.probes.displacement(every=50)},
    )  # fmt: skip


def central_flows(seed):
    tilt = 0.1 * jax.random.uniform(jax.random.key(seed), ())  # a valley that sharpens as w[1] grows, to the edge
    return ds.CentralFlow(
        jnp.array([0.0, 2.0]), lambda w: 0.5 * (15 + 2 * w[1]) * w[0] ** 2 - tilt * w[1], 0.1,
        probes={"w": lambda w: w, "moved": ds.probes.displacement(every=50)},
    )  # fmt: skip


@pytest.mark.parametrize("process", [minibatches, central_flows])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bits(process, monkeypatch):
    monkeypatch.setattr(driver, "SLICE_SECONDS", 1e-9)  # a slice per recording

    def run():
        return ds.ensemble(process, {"seed": range(3)}, steps=400, record=10).trace

    undisturbed = run()
    monitor = Memory(stop_after=0.4)
    with pytest.raises(KeyboardInterrupt), ds.monitored_by(monitor):
        run()
    again = Memory()
    again.kept = monitor.kept
    with ds.monitored_by(again):
        resumed = run()
    assert again.told[0] > 0.3  # it did not begin anew
    for name in ("w", "moved", "diverged_at"):
        np.testing.assert_array_equal(resumed[name], undisturbed[name])


def test_an_interrupt_between_two_slices_loses_nothing(monkeypatch):
    monkeypatch.setattr(driver, "SLICE_SECONDS", 1e-9)

    def run():
        return ds.ensemble(minibatches, {"seed": range(3)}, steps=400, record=10).trace

    undisturbed, asked, search = run(), [], np.searchsorted

    def interrupted(*given, **options):
        asked.append(given)
        if len(asked) == 20:
            raise KeyboardInterrupt
        return search(*given, **options)

    monitor = Memory()
    monitor.keep_every = 1e9  # nothing is kept but at the interrupt
    monkeypatch.setattr(driver.np, "searchsorted", interrupted)
    with pytest.raises(KeyboardInterrupt), ds.monitored_by(monitor):
        run()
    monkeypatch.setattr(driver.np, "searchsorted", search)
    again = Memory()
    again.kept = monitor.kept
    with ds.monitored_by(again):
        np.testing.assert_array_equal(run().w, undisturbed.w)
    assert again.told[0] > 0.4  # it did not begin anew


def test_every_finished_batch_is_kept():
    monitor = Memory()
    monitor.keep_every = 1e-3
    with ds.monitored_by(monitor):
        ds.ensemble(member, OVER, steps=200_000, record=100_000, width=5)
    assert len(monitor.kept) == 3


def test_the_checkpoint_of_another_run_is_not_taken():
    monitor = Memory()
    with ds.monitored_by(monitor):
        ds.ensemble(member, OVER, steps=300, record=10)
    other = Memory()
    other.kept = monitor.kept
    with ds.monitored_by(other):
        trace = ds.ensemble(member, {**OVER, "learning_rate": [0.3, 0.4, 0.45]}, steps=300, record=10).trace
    np.testing.assert_allclose(
        trace.x, ds.ensemble(member, {**OVER, "learning_rate": [0.3, 0.4, 0.45]}, steps=300, record=10).trace.x
    )


@pytest.mark.parametrize("values", [[], {"a": np.ones(2), "b": np.ones(3)}, 3.0])
def test_a_dimension_without_a_common_length_gets_one_clear_line(values):
    with pytest.raises(ValueError, match="dimension 'seed' of the ensemble"):
        ds.ensemble(lambda seed: None, {"seed": values}, steps=3)


def test_a_probe_with_too_few_names_gets_one_clear_line():
    with pytest.raises(ValueError, match="probe 'x': 2 dimensions"):
        ds.iterate(lambda x: x, jnp.zeros((2, 2)), steps=2, probes={"x": probe(lambda m: m.model, dims=("row",))})


def test_recording_times():
    assert ds.linear_steps(10, 4).tolist() == [0, 4, 8, 10]
    log = ds.log_steps(1000, 50)
    assert log[0] == 0
    assert log[-1] == 1000
    assert (np.diff(log) > 0).all()
    assert len(log) > 35


@pytest.mark.parametrize("fixed", [{"start": "zero"}, {"start": jnp.sin}, {"start": [1.0, "a"]}, {"start": object()}])
def test_fixed_settings_are_numbers(fixed):
    with pytest.raises(TypeError, match="fixed setting 'start' must hold numbers or arrays"):
        ds.ensemble(lambda r, start: ds.Map(lambda x: r * x, start), {"r": [0.5]}, fixed=fixed, steps=1)


@pytest.mark.parametrize(
    "initial", [jnp.zeros, lambda n: jnp.zeros(()) if n > 2 else jnp.ones(()), lambda n: jnp.zeros(int(n)), range]
)
def test_a_setting_is_no_shape_and_no_python_number(initial):
    with pytest.raises(TypeError, match="cannot determine shapes, Python numbers or `if` conditions"):
        ds.ensemble(lambda n: ds.Map(lambda x: x, initial(n)), {"n": [2, 3]}, steps=1)
    with pytest.raises(TypeError, match="slip"):  # an error of the member's own comes through
        ds.ensemble(lambda n: slips(), {"n": [2, 3]}, steps=1)


def slips():
    raise TypeError("a slip")
