"""Probes: what is measured inside the loop, when, and with which uncertainty."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.probes import Probe, Snapshot, probe

task = ds.tasks.StructuredIdentity(mu=(1.0, 2.0), sigma=0.05, dim=4)
model = ds.models.MLP(dim=4, depth=2, key=jax.random.key(0))


# a plain function of the model is a probe
def weight_norm(model):
    return jnp.sqrt(sum(jnp.sum(weight**2) for weight in model.weights))


# `probe` names its dimensions and gives it a cadence; the snapshot has the model, the step and the loss
def singular_values(snapshot: Snapshot):
    return jnp.linalg.svd(snapshot.model.matrix(), compute_uv=False)


spectrum = probe(singular_values, dims=("index",), coords={"index": [1, 2, 3, 4]}, every=50)


# a `Probe` with a state: the average of the loss over all recordings so far, with its standard error
def average_loss(snapshot: Snapshot, state):
    count, total, squares = state
    value = snapshot.loss()
    count, total, squares = count + 1, total + value, squares + value**2
    spread = jnp.sqrt(jnp.maximum(squares / count - (total / count) ** 2, 0) / count)
    return {"value": total / count, "standard_error": spread}, (count, total, squares)


average = Probe(average_loss, initial_state=lambda snapshot: (jnp.zeros(()), jnp.zeros(()), jnp.zeros(())))

trace = ds.descend(
    model,
    task,
    optax.sgd(0.1),
    steps=200,
    record=10,
    probes={
        "loss": ds.probes.loss(),
        "weight_norm": weight_norm,
        "spectrum": spectrum,
        "average": average,
        "moved": ds.probes.displacement(every=[0, 100, 200]),
        "jacobian": ds.probes.jacobian(task.test_point, every=100),
    },
).trace
print(trace)
assert trace.spectrum.dims == ("spectrum_step", "index")
assert trace.average_standard_error.dims == ("step",)
np.testing.assert_array_equal(trace.moved_step, [0, 100, 200])


# any model: `apply(model, x)` says how to call it
parameters = {"w": jnp.eye(2) / 2, "b": jnp.zeros(2)}


def apply(parameters, x):
    return parameters["w"] @ x + parameters["b"]


def squared_error(parameters, x):
    return jnp.mean((jax.vmap(lambda row: apply(parameters, row))(x) - x) ** 2)


rows = jax.random.normal(jax.random.key(1), (100, 2))
point = jnp.array([1.0, 1.0])
plain = ds.descend(
    parameters, squared_error, optax.sgd(0.1), steps=50, data=rows,
    probes={"output": ds.probes.output(point, apply=apply)},
).trace  # fmt: skip
assert plain.output.dims == ("step", "coordinate")
