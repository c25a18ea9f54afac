"""Gradient flow against closed forms, stiff ones too."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds

TIMES = np.array([0.0, 0.1, 1.0, 3.0])


def quadratic(rates):
    return lambda x: 0.5 * jnp.sum(jnp.asarray(rates, x.dtype) * (x - 1) ** 2)


def test_a_stiff_quadratic_relaxes_at_its_rates():
    rates = np.array([1.0, 1e6])
    with jax.enable_x64(True):
        trace = ds.flow(jnp.zeros(2), quadratic(rates), times=TIMES, probes={"x": lambda x: x}).trace
        np.testing.assert_allclose(trace.x, 1 - np.exp(-rates * TIMES[:, None]), atol=1e-7)


def test_the_times_need_not_begin_at_zero():
    trace = ds.flow(jnp.zeros(1), quadratic([1.0]), times=[0.5, 2.0], probes={"x": lambda x: x}).trace
    np.testing.assert_allclose(trace.x[:, 0], 1 - np.exp([-0.5, -2.0]), atol=1e-4)
    assert trace.time.values.tolist() == [0.5, 2.0]


def test_large_problems_take_the_explicit_solver():
    assert isinstance(ds.Flow(jnp.zeros(1000), quadratic(1.0)).solver, diffrax.Dopri5)
    trace = ds.flow(jnp.zeros(1000), lambda x: 0.5 * jnp.sum((x - 1) ** 2), times=[1.0]).trace
    np.testing.assert_allclose(trace.loss[0], 500 * np.exp(-2.0), rtol=1e-3)


def test_dense_output_is_the_flow_at_any_time():
    with jax.enable_x64(True):
        at = ds.dense_flow(jnp.zeros(1), quadratic([2.0]), until=3.0)
        for time in (0.0, 0.123, 2.9):
            np.testing.assert_allclose(at(time)[0], 1 - np.exp(-2 * time), atol=1e-5)


def test_flows_form_ensembles():
    def member(rate):
        return ds.Flow(jnp.zeros(1), lambda x: 0.5 * rate * jnp.sum((x - 1) ** 2), probes={"x": lambda x: x})

    trace = ds.ensemble(member, {"rate": [1.0, 10.0]}, times=TIMES).trace
    np.testing.assert_allclose(trace.x[:, :, 0], 1 - np.exp(-np.outer([1, 10], TIMES)), atol=1e-4)


def test_a_flow_that_blows_up_is_an_outcome():
    def member(rate):  # dx/dt = rate x^3 reaches infinity at t = 1 / (2 rate)
        return ds.Flow(jnp.ones(1), lambda x: -rate * jnp.sum(x**4) / 4, max_steps=2000, probes={"x": lambda x: x})

    trace = ds.ensemble(member, {"rate": [0.01, 1.0]}, times=[0.25, 1.0, 2.0]).trace
    assert trace.diverged_at.values.tolist() == [-1.0, 0.25]
    assert np.isfinite(trace.x.values[:, :, 0]).tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize("times", [[], [-1.0], [np.inf]])
def test_wrong_times_get_one_clear_line(times):
    with pytest.raises(ValueError, match="times must"):
        ds.flow(jnp.zeros(1), quadratic([1.0]), times=times)


def test_a_task_may_say_itself_where_the_model_moves():
    class Turning(ds.tasks.PopulationTask, ds.tasks.VelocityTask):
        def population_loss(self, x):
            return jnp.sum(x**2)

        def velocity(self, x):
            return jnp.stack([-x[1], x[0]])

    trace = ds.flow(
        jnp.array([1.0, 0.0]), Turning(), times=TIMES, probes={"x": lambda x: x, "loss": ds.probes.loss()}
    ).trace
    np.testing.assert_allclose(trace.x, np.stack([np.cos(TIMES), np.sin(TIMES)], axis=1), atol=1e-3)
    np.testing.assert_allclose(trace.loss, 1.0, atol=1e-3)
