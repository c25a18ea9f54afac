"""Rates that react: the controller against a plain loop on a model whose critical rate is known, schedules, tables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics import rates


def uv_loss(w):
    """(u v - 1)^2 / 2, whose tangent kernel is u^2 + v^2: the simplest model with catapults."""
    return 0.5 * (w[0] * w[1] - 1) ** 2


def critical(w):
    """Half the true critical rate: at the true one's half this model converges in a few steps, and the test would
    compare rounding errors."""
    return 1 / jnp.sum(w**2)


def by_hand(w, count, steps, factor, warm, patience):
    """The controller, step by step, in Python and float64."""

    def loss(w):
        return 0.5 * (w[0] * w[1] - 1) ** 2

    def crit(w):
        return 1 / np.sum(w**2)

    phase, done, since, before, peak, rate = ("warm" if count else "settled"), 0, 0, 0.0, 0.0, crit(w) / 2
    out = []
    for _ in range(steps):
        now = loss(w)
        peak = max(peak, now)
        if phase == "warm" and since == warm:
            phase, since, before, peak, rate = "raised", 0, now, now, factor * crit(w)
        elif phase == "raised" and peak > 1.5 * before and now < before:
            done += 1
            phase, since, rate = ("warm" if done < count else "settled"), 0, crit(w) / 2
        elif phase == "raised" and peak <= 1.5 * before and since == patience:
            phase, since, rate = "gave up", 0, crit(w) / 2
        elif phase != "raised" and since and since % 10 == 0:
            rate = crit(w) / 2
        r = w[0] * w[1] - 1
        w = w - rate * r * w[::-1]
        since += 1
        out.append((rate, ["warm", "raised", "settled", "gave up"].index(phase), done, loss(w)))
    return np.array(out)


class Pair(eqx.Module):
    def __call__(self, start, count, factor):
        optimizer = rates.catapults(critical, count, factor=factor, warm=3, patience=15)
        probes = {"loss": ds.probes.loss(), "rate": ds.probes.learning_rate()}
        return ds.Descent(start, uv_loss, optimizer, probes=probes)


def test_the_controller_does_what_is_said_of_it_alone_and_side_by_side():
    starts = np.array([[4.0, 0.1], [6.0, -0.3], [5.0, 0.02]])
    counts, factors = [0, 1, 2], [2.8, 1.5]
    over = {"start": starts, "count": np.array(counts, np.int32), "factor": np.array(factors)}
    with jax.enable_x64(True):
        trace = ds.ensemble(Pair(), over, steps=50, record=1, width=9).trace
    for i, start in enumerate(starts):
        for count in counts:
            for factor in factors:
                rate, phase, done, loss = by_hand(start, count, 50, factor, 3, 15).T
                one = trace.isel(start=i).sel(count=count, factor=factor)
                np.testing.assert_allclose(one.rate[1:], rate, rtol=1e-6)
                np.testing.assert_array_equal(one.rate_phase[1:], phase)
                np.testing.assert_array_equal(one.rate_catapults[1:], done)
                np.testing.assert_allclose(one.loss[1:], loss, rtol=1e-5, atol=1e-14)
    last = trace.isel(step=-1)
    assert (last.rate_catapults.sel(factor=2.8) == last["count"]).all()
    assert (last.rate_phase.sel(factor=1.5, count=1) == rates.GAVE_UP).all()


def test_without_catapults_the_rate_is_half_the_critical_one_of_at_most_ten_steps_ago():
    trace = ds.descend(
        jnp.array([3.0, 0.1]), uv_loss, rates.catapults(critical, 0), steps=30, record=1,
        probes={"rate": ds.probes.learning_rate(), "critical": critical},
    ).trace  # fmt: skip
    half = trace.critical.values / 2
    expected = half[10 * (np.arange(30) // 10)]
    np.testing.assert_allclose(trace.rate[1:], expected, rtol=1e-5)
    assert trace.rate_phase[-1] == rates.SETTLED


def test_what_is_not_asked_for_is_not_evaluated_also_side_by_side():
    calls = []

    def costly():
        jax.debug.callback(lambda: calls.append(1))
        return jnp.ones(())

    def member(flag):
        return rates.when(flag, costly, jnp.zeros(()))

    asked = jnp.array([False, False])
    np.testing.assert_array_equal(jax.jit(jax.vmap(member))(asked), [0, 0])
    jax.effects_barrier()
    assert not calls
    np.testing.assert_array_equal(jax.jit(jax.vmap(member))(jnp.array([False, True])), [0, 1])
    jax.effects_barrier()
    assert calls


def test_schedules_at_chosen_steps():
    at = jnp.arange(9, dtype=jnp.int32)
    np.testing.assert_allclose(jax.vmap(rates.cyclic(1.0, 3.0, 4))(at), [1, 2, 3, 2, 1, 2, 3, 2, 1])
    np.testing.assert_allclose(jax.vmap(rates.piecewise([6.0, 10.0, 15.0], [3, 6]))(at), [6] * 3 + [10] * 3 + [15] * 3)
    np.testing.assert_allclose(jax.vmap(rates.decay(8.0, 0.5, 3))(at), [8] * 3 + [4] * 3 + [2] * 3)
    with pytest.raises(ValueError, match="rates must be one more"):
        rates.piecewise([1.0], [3])


def test_a_scheduled_rate_is_recorded_as_that_of_the_step_last_taken():
    schedule = rates.piecewise([0.1, 0.2], [2])
    trace = ds.descend(
        jnp.array([2.0, 0.3]), uv_loss, rates.scheduled(schedule), steps=4, record=1,
        probes={"rate": ds.probes.learning_rate(), "w": lambda w: w},
    ).trace  # fmt: skip
    np.testing.assert_allclose(trace.rate, [0.1, 0.1, 0.1, 0.2, 0.2])
    w = trace.w.values
    for t, rate in enumerate([0.1, 0.1, 0.2, 0.2]):
        gradient = (w[t, 0] * w[t, 1] - 1) * w[t, ::-1]
        np.testing.assert_allclose(w[t + 1], w[t] - rate * gradient, rtol=1e-5)
    injected = optax.inject_hyperparams(optax.sgd)(learning_rate=schedule)
    other = ds.descend(
        jnp.array([2.0, 0.3]), uv_loss, injected, steps=4, record=1, probes={"rate": ds.probes.learning_rate()}
    ).trace
    np.testing.assert_allclose(other.rate, trace.rate)


def test_an_optimizer_that_keeps_no_rate_is_told_so():
    with pytest.raises(ValueError, match="does not hold its learning rate"):
        ds.descend(jnp.ones(2), uv_loss, optax.sgd(0.1), steps=1, probes={"rate": ds.probes.learning_rate()})


def test_probes_see_the_batch_of_the_step_to_come():
    rows = jax.random.normal(jax.random.key(0), (10, 2))

    def squared(w, batch):
        return jnp.mean((batch @ w - 1) ** 2)

    probes = {
        "rows": ds.probes.batch_rows(),
        "w": lambda w: w,
        "batch_loss": ds.probes.probe(lambda snapshot: squared(snapshot.model, snapshot.batch().data)),
    }
    trace = ds.descend(
        jnp.zeros(2), squared, optax.sgd(0.1), steps=12, record=1, data=rows, batch=2, key=jax.random.key(1),
        probes=probes,
    ).trace  # fmt: skip
    for t in range(12):
        batch, w = rows[trace.rows[t].values], jnp.asarray(trace.w[t].values)
        np.testing.assert_allclose(trace.w[t + 1], w - 0.1 * jax.grad(squared)(w, batch), rtol=1e-5)
        np.testing.assert_allclose(trace.batch_loss[t], squared(w, batch), rtol=1e-5)
    assert sorted(trace.rows[:5].values.ravel()) == list(range(10))


@pytest.mark.parametrize("name", list(rates.OPTIMIZERS))
def test_the_optimizers_step_as_pytorch_s_do(name):
    torch = pytest.importorskip("torch")
    kinds = {
        "gd": (torch.optim.SGD, {}), "sgd": (torch.optim.SGD, {}), "momentum": (torch.optim.SGD, {"momentum": 0.9}),
        "rmsprop": (torch.optim.RMSprop, {}), "adagrad": (torch.optim.Adagrad, {}),
        "adadelta": (torch.optim.Adadelta, {}), "adam": (torch.optim.Adam, {}),
    }  # fmt: skip
    kind, options = kinds[name]
    there = torch.tensor([2.0, 0.3], dtype=torch.float64, requires_grad=True)
    moves = kind([there], lr=0.05, **options)
    for _ in range(20):
        moves.zero_grad()
        (0.5 * (there[0] * there[1] - 1) ** 2).backward()
        moves.step()
    with jax.enable_x64(True):
        trace = ds.descend(
            jnp.array([2.0, 0.3]), uv_loss, rates.optimizer(name, 0.05), steps=20, record=20, probes={"w": lambda w: w}
        ).trace
    np.testing.assert_allclose(trace.w[-1], there.detach().numpy(), rtol=1e-6)


def test_an_unknown_optimizer_is_named():
    with pytest.raises(ValueError, match="'adadelta', 'adam'; got 'lion'"):
        rates.optimizer("lion", 0.1)


def test_cycles_and_decays_take_a_step_at_least():
    with pytest.raises(ValueError, match="period must be an integer, at least 1; got 0"):
        rates.cyclic(0.1, 1.0, 0)
    with pytest.raises(ValueError, match="every must be an integer, at least 1; got -2"):
        rates.decay(0.1, 0.5, -2)


def test_schedules_and_controllers_that_cannot_be_are_told_so():
    with pytest.raises(ValueError, match=r"at must increase; got \[5, 2\]"):
        rates.piecewise([0.1, 0.2, 0.3], [5, 2])
    with pytest.raises(ValueError, match="count must be an integer, at least 0; got -1"):
        rates.catapults(lambda _: jnp.ones(()), -1)
    with pytest.raises(ValueError, match="refresh must be an integer, at least 1; got 0"):
        rates.catapults(lambda _: jnp.ones(()), 1, refresh=0)
