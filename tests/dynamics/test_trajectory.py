"""What a run gives back: the trained model, its members, and one sentence where it is used wrongly."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds

TASK = ds.tasks.Supervised("mse")
OVER = {"seed": [0, 3, 5], "rate": [0.01, 0.1]}


def test_the_trained_model_comes_back_as_the_type_given(network, train, data):
    trained = train(40)
    assert type(trained.model) is eqx.nn.MLP
    assert trained.model.activation is network().activation or callable(trained.model.activation)
    np.testing.assert_allclose(TASK.loss(trained.model, data), trained.trace.loss[-1], rtol=1e-6)


def test_it_equals_a_loop_by_hand(network, data):
    model, optimizer = network(), optax.adam(0.01)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    for _ in range(10):
        gradient = eqx.filter_grad(TASK.loss)(model, data)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state)
        model = eqx.apply_updates(model, updates)
    trained = ds.descend(network(), TASK, optimizer, data=data, steps=10)
    for mine, theirs in zip(jax.tree.leaves(trained.model), jax.tree.leaves(model), strict=True):
        if eqx.is_array(mine):
            np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("width", [1, 4, None])
def test_a_member_is_the_run_of_its_own_setting(width, member, data):
    many = ds.ensemble(member, OVER, steps=20, record=10, width=width)
    one = many.member(seed=3, rate=0.1)
    alone = ds.ensemble(member, {"seed": [3], "rate": [0.1]}, steps=20, record=10).member(seed=3, rate=0.1)
    for mine, theirs in zip(jax.tree.leaves(one.model), jax.tree.leaves(alone.model), strict=True):
        if eqx.is_array(mine):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
    np.testing.assert_allclose(TASK.loss(one.model, data), one.trace.loss[-1], rtol=1e-5)
    longer = one.resume(steps=20)
    assert longer.trace.step.values.tolist() == [0, 10, 20, 30, 40]


def test_states_may_be_declined(member):
    many = ds.ensemble(member, OVER, steps=5, keep=False)
    assert many.state is None
    with pytest.raises(ValueError, match="keep=True"):
        many.member(seed=3, rate=0.1)


def test_wrong_use_is_one_sentence(train, member):
    many = ds.ensemble(member, OVER, steps=5)
    for call, message in [
        (lambda: many.model, r"many models; take one with member\(seed=..., rate=...\)"),
        (lambda: many.member(seed=4, rate=0.1), r"seed must be one of \[0, 3, 5\]; got 4"),
        (lambda: many.member(seed=3), "one label for each dimension"),
        (lambda: train(5).resume(steps=0), "steps must be an integer, at least 1"),
        (lambda: train(5).resume(), "give steps="),
        (lambda: train(5).resume(steps=5, record=[3]), "record must hold steps after 5"),
        (lambda: train(5, stop=lambda snapshot: 3), "stop must return one JAX boolean"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            call()


def test_schedules_and_averages_of_updates_come_from_optax(network, data):
    rates = optax.cosine_decay_schedule(0.1, 50)
    trained = ds.descend(network(), TASK, optax.chain(optax.sgd(rates), optax.ema(0.9)), data=data, steps=50, record=50)
    assert trained.trace.loss[-1] < trained.trace.loss[0]


def test_a_member_may_make_its_own_task(network, data):
    x, y = data

    def with_its_own_loss(seed):
        task = ds.tasks.Supervised(lambda outputs, targets: jnp.mean(jnp.abs(outputs[:, 0] - targets)))
        return ds.Descent(network(), task, optax.sgd(0.1), data=(x, y + seed.astype(y.dtype)))

    many = ds.ensemble(with_its_own_loss, {"seed": [0, 1]}, steps=5)
    assert (many.trace.loss.isel(step=-1) < many.trace.loss.isel(step=0)).all()


def test_slips_in_functions_of_the_user_are_named(network, train, member, data):
    def whole_run(rate):
        return ds.descend(network(), TASK, optax.adam(rate), data=data, steps=2)

    for call, message in [
        (lambda: train(5, probes={"a": lambda model: model.loss()}), "called with the model"),
        (lambda: train(5, probes={"a": lambda model: float(model.layers[0].weight[0, 0])}), "JAX operations"),
        (lambda: train(5, stop=lambda model: TASK.loss(model, data) < 0.1), "called with a snapshot"),
        (lambda: train(5, stop=lambda snapshot: bool(snapshot.loss() < 1)), "turns an array into a Python value"),
        (lambda: ds.descend(network(), TASK, optax.sgd(0.1), data=data[0], steps=1), r"takes data=\(inputs, targets\)"),
        (lambda: train(5).member(seed=0), "single run"),
        (lambda: ds.ensemble(member, {"seed": 3, "rate": [0.1]}, steps=1), "a list, a range or an array"),
        (lambda: ds.ensemble(lambda rate: whole_run(rate), {"rate": [0.1]}, steps=1), "return ds.Descent"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_labels_that_are_no_classes_are_refused(data):
    x, y = data
    task, net = ds.tasks.Supervised("cross-entropy"), eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))
    for labels in (jnp.where(y > 0, 1, -1), jnp.where(y > 0, 1, 2)):
        with pytest.raises(ValueError, match="labels must be integers from 0 to 1; got values from"):
            ds.descend(net, task, optax.sgd(0.1), data=(x, labels), steps=2)
    trained = ds.descend(net, task, optax.adam(0.1), data=(x, (y > 0).astype(jnp.int32)), steps=60)
    assert trained.trace.loss[-1] < 0.2
    traced = jax.jit(lambda labels: task.loss(net, (x, labels)))(jnp.full(32, -1))
    assert np.isnan(traced)


def test_names_of_dimensions_and_labels_are_checked():
    def steady(inner_step):
        return ds.Map(lambda x: x * 0.5, jnp.ones(()), loss=lambda x: x)

    many = ds.ensemble(steady, {"inner_step": [1.0, 2.0]}, steps=9, record=1, stop=lambda snap: snap.loss() < 0.1)
    assert many.trace.stopped_at.values.tolist() == [4, 4]
    assert np.isnan(many.trace.state.values[:, 5:]).all()
    for wrong in ([1.0, 2.0], True, "a", 1.5):
        with pytest.raises((ValueError, TypeError), match="inner_step"):
            many.member(inner_step=wrong)
    with pytest.raises(ValueError, match="must be renamed"):
        ds.ensemble(lambda step: steady(step), {"step": [1.0]}, steps=1)
