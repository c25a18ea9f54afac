"""Data of other kinds than JAX arrays: NumPy's, and what NumPy takes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds

X = np.random.default_rng(0).standard_normal((32, 3))
KINDS = {"float64": np.asarray, "float32": np.float32, "jax": jax.numpy.asarray}
PROBES = {
    "rows": ds.probes.batch_rows(),
    "critical": ds.probes.batch_critical_rate(),
    "loss": ds.probes.loss(),
    "noise": ds.probes.gradient_noise(),
    "curvature": ds.probes.batch_sharpness(4),
}


def model():
    return ds.models.MLP(3, 2, key=jax.random.key(0))


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_any_arrays_are_drawn_and_probed(kind):
    data = KINDS[kind](X)
    call = {"batch": 8, "key": jax.random.key(1), "probes": PROBES, "steps": 10}
    trained = ds.descend(model(), ds.tasks.Supervised("mse"), optax.sgd(0.1), data=(data, data), **call)
    wanted = jax.numpy.asarray(X, "float32")
    same = ds.descend(model(), ds.tasks.Supervised("mse"), optax.sgd(0.1), data=(wanted, wanted), **call)
    np.testing.assert_array_equal(trained.trace.loss, same.trace.loss)
    np.testing.assert_array_equal(trained.trace.rows, same.trace.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_all_dynamics_take_any_arrays(kind):
    data = KINDS[kind](X)
    task = ds.tasks.Supervised("mse")

    def member(rate):
        how = {"data": (data, data), "batch": 8, "key": jax.random.key(1), "probes": PROBES}
        return ds.Descent(model(), task, optax.sgd(rate), **how)

    trace = ds.ensemble(member, {"rate": [0.1, 0.2]}, steps=5).trace
    assert all(np.isfinite(trace[name]).all() for name in PROBES)
    assert np.isfinite(ds.flow(model(), task, data=(data, data), times=[0.0, 1.0]).trace.loss).all()
    flow = ds.central_flow(model(), task, learning_rate=0.1, data=(data, data), steps=5)
    assert np.isfinite(flow.trace.loss).all()


def test_tensors_of_torch_are_data():
    torch = pytest.importorskip("torch")
    data = torch.tensor(X)
    found = ds.descend(
        model(), ds.tasks.Supervised("mse"), optax.sgd(0.1), data=(data, data), batch=8, key=jax.random.key(1), steps=5
    )
    assert np.isfinite(found.trace.loss).all()


@pytest.mark.parametrize(
    "model", [np.ones(3), np.ones(3, np.float32), {"w": np.ones((1, 3))}], ids=["float64", "float32", "tree"]
)
def test_a_model_may_be_arrays_of_numpy(model):
    def loss(model):
        return sum((leaf**2).sum() for leaf in jax.tree.leaves(model))

    same = jax.tree.map(jnp.asarray, model)
    runs = [
        lambda model: ds.descend(model, loss, optax.sgd(0.1), steps=2),
        lambda model: ds.flow(model, loss, times=[0.0, 1.0]),
        lambda model: ds.central_flow(model, loss, 0.1, steps=2),
    ]
    for run in runs:
        xr.testing.assert_equal(run(model).trace, run(same).trace)
    xr.testing.assert_equal(ds.observe([model], loss), ds.observe([same], loss))
