"""Descents: each way of feeding the gradient, against a plain Python loop."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics.descend import epoch_words, permuted

CURVATURE = np.array([1.0, 4.0], np.float32)


def bowl(x):
    return 0.5 * jnp.sum(jnp.asarray(CURVATURE) * (x - 1) ** 2)


def squared_error(w, rows):
    return jnp.mean((rows @ w - 1) ** 2)


class Lines(ds.tasks.SampledTask):
    """A task that can only sample."""

    def sample(self, key, count):
        return jax.random.normal(key, (count, 2))

    def loss(self, w, rows):
        return squared_error(w, rows)


def test_full_batch_steps_are_those_of_the_closed_form():
    trace = ds.descend(jnp.zeros(2), bowl, optax.sgd(0.1), steps=50, record=1, probes={"x": lambda x: x}).trace
    exact = 1 - (1 - 0.1 * CURVATURE) ** np.arange(51)[:, None]
    np.testing.assert_allclose(trace.x, exact, atol=2e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(0.05, momentum=0.9),
        optax.adam(0.05),
        optax.polyak_sgd(),
        optax.sgd(optax.cosine_decay_schedule(0.1, 20)),
    ],
    ids=["momentum", "adam", "one that needs the loss", "schedule"],
)
def test_any_optax_optimizer_steps_as_it_does_by_hand(optimizer):
    x = jnp.zeros(2)
    state = optimizer.init(x)
    for _ in range(20):
        value, gradient = jax.value_and_grad(bowl)(x)
        extra = optax.with_extra_args_support(optimizer)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = extra.update(gradient, state, x, value=value, grad=gradient, value_fn=bowl)
        x = optax.apply_updates(x, updates)
    trace = ds.descend(jnp.zeros(2), bowl, optimizer, steps=20, record=20, probes={"x": lambda x: x}).trace
    np.testing.assert_allclose(trace.x[-1], x, rtol=1e-5)


def test_minibatches_visit_every_row_once_an_epoch_in_a_new_order():
    rows, key = jax.random.normal(jax.random.key(0), (10, 2)), jax.random.key(5)
    w = jnp.zeros(2)
    for t in range(10):  # two epochs of five batches
        order = permuted(epoch_words(key, jnp.asarray(t // 5)), jnp.arange(10, dtype=jnp.int32), 10)
        batch = rows[order[2 * (t % 5) : 2 * (t % 5) + 2]]
        w = w - 0.1 * jax.grad(squared_error)(w, batch)
    trace = ds.descend(
        jnp.zeros(2), squared_error, optax.sgd(0.1), steps=10, record=1, data=rows, batch=2, key=key,
        probes={"w": lambda w: w, "loss": ds.probes.loss()},
    ).trace  # fmt: skip
    np.testing.assert_allclose(trace.w[-1], w, rtol=1e-5)
    np.testing.assert_allclose(trace.loss[-1], squared_error(w, rows), rtol=1e-5)  # of all the data, not of a batch


def test_without_reshuffling_every_epoch_has_the_first_one_s_order():
    rows, key = jax.random.normal(jax.random.key(0), (4, 2)), jax.random.key(5)
    process = ds.Descent(jnp.zeros(2), squared_error, optax.sgd(0.1), data=rows, batch=2, key=key, reshuffle=False)
    first = process.draw(jnp.asarray(0))
    np.testing.assert_array_equal(process.draw(jnp.asarray(6)), first)


def test_fresh_samples_are_new_at_every_step():
    key, w = jax.random.key(3), jnp.zeros(2)
    for t in range(6):
        w = w - 0.1 * jax.grad(squared_error)(w, Lines().sample(jax.random.fold_in(key, t), 7))
    trace = ds.descend(
        jnp.zeros(2), Lines(), optax.sgd(0.1), steps=6, record=6, batch=7, key=key, probes={"w": lambda w: w}
    ).trace
    np.testing.assert_allclose(trace.w[-1], w, rtol=1e-5)


def test_a_plain_dict_of_arrays_is_a_model():
    model = {"layer": {"w": jnp.ones((2, 2)), "steps": jnp.arange(3)}}  # the integers are no parameters
    trace = ds.descend(model, lambda m: jnp.sum(m["layer"]["w"] ** 2), optax.sgd(0.1), steps=5, record=5).trace
    assert trace.loss[-1] < trace.loss[0]


def test_divergence_is_an_outcome_with_a_step():
    trace = ds.descend(jnp.zeros(2), bowl, optax.sgd(0.6), steps=500, record=100).trace
    assert 0 < int(trace.diverged_at) < 500
    assert int(ds.descend(jnp.zeros(2), bowl, optax.sgd(0.1), steps=5).trace.diverged_at) == -1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 2}, "drawn at random: give key="),
        ({"key": 0, "data": jnp.ones((10, 2))}, "key= draws the batches: pass batch= as well, or omit key="),
        ({"batch": 2, "key": 0}, "needs a SampledTask"),
        ({"batch": 11, "key": 0, "data": jnp.ones((10, 2))}, "batch must be .* at most 10; got 11"),
        ({"record": [5, 99], "data": jnp.ones((10, 2))}, "record must hold steps from 0 to 10"),
        ({"steps": -1, "data": jnp.ones((10, 2))}, "steps must be an integer, at least 0.*; got -1"),
    ],
)
def test_wrong_use_gets_one_clear_line(options, message):
    if "key" in options:
        options["key"] = jax.random.key(options["key"])
    with pytest.raises(ValueError, match=message):
        ds.descend(jnp.zeros(2), squared_error, optax.sgd(0.1), **{"steps": 10, **options})


def test_equinox_modules_train():
    net = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (8, 2))
    trace = ds.descend(net, lambda net, x: jnp.mean(jax.vmap(net)(x) ** 2), optax.sgd(0.1), steps=30, data=x).trace
    assert float(trace.loss[-1]) < 0.2 * float(trace.loss[0])
