"""Moving averages of the weights."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics import averaged, with_average

START = {"w": jnp.array([1.0, -2.0])}
DECAY = 0.7


def loss(model):
    return 0.5 * jnp.sum(jnp.array([1.0, 3.0]) * model["w"] ** 2)


def test_the_average_is_over_the_weights_after_each_step():
    trace = ds.descend(
        START,
        loss,
        with_average(optax.sgd(0.1), DECAY),
        steps=6,
        record=1,
        probes={"w": lambda model: model["w"], "average": ds.probes.probe(lambda snapshot: averaged(snapshot)["w"])},
    ).trace
    weights = np.array([1.0, -2.0]) * (1 - 0.1 * np.array([1.0, 3.0])) ** np.arange(7)[:, None]
    np.testing.assert_allclose(trace.w, weights, rtol=1e-5)  # the path is that of SGD
    np.testing.assert_allclose(trace.average[0], weights[0])
    for t in range(1, 7):
        shares = DECAY ** (t - np.arange(1, t + 1))
        np.testing.assert_allclose(trace.average[t], shares @ weights[1 : t + 1] / shares.sum(), rtol=1e-5)


def test_without_decay_the_average_is_the_model():
    trained = ds.descend(START, loss, with_average(optax.adam(0.1), 0), steps=3, record=3)
    np.testing.assert_allclose(averaged(trained)["w"], trained.model["w"], rtol=1e-6)


def test_a_run_goes_on_and_members_of_an_ensemble_have_averages():
    def member(decay):
        return ds.Descent(START, loss, with_average(optax.sgd(0.1), decay))

    many = ds.ensemble(member, {"decay": [0.0, DECAY]}, steps=5, record=5, keep=True)
    whole = ds.descend(START, loss, with_average(optax.sgd(0.1), DECAY), steps=5, record=5)
    parts = ds.descend(START, loss, with_average(optax.sgd(0.1), DECAY), steps=2, record=2).resume(steps=3)
    for found in (many.member(decay=DECAY), parts):
        np.testing.assert_allclose(averaged(found)["w"], averaged(whole)["w"], rtol=1e-6)
    assert abs(averaged(whole)["w"][0] - whole.model["w"][0]) > 1e-2
    with pytest.raises(ValueError, match="an ensemble has many models"):
        averaged(many)


def test_optimizers_that_want_more_than_the_gradient_get_it():
    rule = with_average(optax.polyak_sgd(), DECAY)
    assert ds.descend(START, loss, rule, steps=5, record=5).trace.loss[-1] < 1


def test_parameters_keep_their_precision():
    rule, parameters = with_average(optax.sgd(0.1), 0.9), jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), START)
    state = rule.update(parameters, rule.init(parameters), parameters)[1]
    assert state.average["w"].dtype == jnp.bfloat16


def test_what_has_no_average_is_refused_in_one_line():
    with pytest.raises(
        ValueError, match=r"no average was kept: descend needs optimizer=with_average\(optimizer, decay\)"
    ):
        averaged(ds.descend(START, loss, optax.sgd(0.1), steps=1))
    with pytest.raises(ValueError, match="decay must be a finite number, at least 0 and below 1; got 1"):
        with_average(optax.sgd(0.1), 1)
