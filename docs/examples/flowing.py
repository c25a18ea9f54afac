"""`flow`: gradient flow at chosen times, as a function of time, and beside gradient descent."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.theory.concept import one_layer

task = ds.tasks.StructuredIdentity(mu=(1.0, 2.0), sigma=0.05, dim=2, norm="sum")
model = ds.models.MLP(dim=2, depth=1, key=jax.random.key(0))
times = np.linspace(0.0, 5.0, 26)

trace = ds.flow(model, task, times=times, probes={"output": ds.probes.output(task.test_point)}).trace

# one linear layer has a closed form: Theorem 4.1
theory = one_layer.output_terms(jnp.asarray(times, jnp.float32), task.test_point, model.matrix(), task.second_moment)
error = np.abs(trace.output - theory.output).max().item()
print(f"flow against Theorem 4.1: {error:.1e}")
assert error < 1e-4

# gradient descent with step h is at time h * steps, and off by a multiple of h
for h in (0.1, 0.01):
    steps = round(5.0 / h)
    descent = ds.descend(
        model, task, optax.sgd(h), steps=steps, record=steps // 25, probes={"output": ds.probes.output(task.test_point)}
    ).trace
    print(f"descent with h = {h}: {np.abs(descent.output.values - trace.output.values).max():.1e} from the flow")

# the flow as a function of time: what it returns is the model at that time
at = ds.dense_flow(model, task, until=5.0)
print("W(2.5) =", np.round(at(2.5).matrix(), 3).tolist())

# stiffness: rates of 1 and 10,000; in float64 the solver is implicit and the fast one costs nothing
with jax.enable_x64(True):
    stiff = ds.flow(
        jnp.ones(2),
        lambda x: jnp.sum(x**2 * jnp.array([1.0, 1e4])) / 2,
        times=[0.0, 1.0, 2.0],
        probes={"x": lambda x: x},
    ).trace
np.testing.assert_allclose(stiff.x[:, 0], np.exp([0.0, -1.0, -2.0]), rtol=1e-6)
