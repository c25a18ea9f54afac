"""Data of other kinds than JAX arrays: NumPy's, and what NumPy takes."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest

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
