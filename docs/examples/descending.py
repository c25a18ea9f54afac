"""`descend`: three kinds of data, any optax optimizer, any pytree as a model, and when to record."""

import jax
import jax.numpy as jnp
import optax

import dynascope as ds

key = jax.random.key(0)
task = ds.tasks.StructuredIdentity(mu=(1.0, 2.0), sigma=0.05, dim=8)
model = ds.models.MLP(dim=8, depth=2, key=key)

# 1. the population loss: no data, no batch
population = ds.descend(model, task, optax.sgd(0.1), steps=400).trace

# 2. a finite set: all of it at every step, or minibatches from an order drawn anew every epoch
data = task.dataset(jax.random.key(1), per_cluster=500).x
full_batch = ds.descend(model, task, optax.sgd(0.1), steps=400, data=data).trace
minibatch = ds.descend(model, task, optax.sgd(0.1), steps=400, data=data, batch=50, key=jax.random.key(2)).trace

# 3. fresh samples at every step
fresh = ds.descend(model, task, optax.sgd(0.1), steps=400, batch=50, key=jax.random.key(3)).trace

for name, trace in {"population": population, "full batch": full_batch, "minibatch": minibatch, "fresh": fresh}.items():
    print(f"{name:10} loss at step 100: {trace.loss.sel(step=100):.2e}")

# any optax optimizer
schedule = optax.cosine_decay_schedule(0.05, decay_steps=400)
adam = ds.descend(model, task, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule)), steps=400).trace
assert adam.diverged_at.item() == -1  # never

# a moving average of the weights beside the path, which it leaves as it is
averaging = ds.dynamics.with_average(optax.adam(0.05), decay=0.95)
of_average = ds.probes.probe(lambda snapshot: snapshot.loss(ds.dynamics.averaged(snapshot)))
probes = {"loss": ds.probes.loss(), "of_average": of_average}
noisy = ds.descend(model, task, averaging, steps=400, batch=5, key=jax.random.key(3), probes=probes)
smooth_model = ds.dynamics.averaged(noisy)  # noisy.model is the one at the last step
end = noisy.trace.isel(step=slice(-100, None)).mean()
print(f"last 100 steps: loss {end.loss:.1e}, of the averaged model {end.of_average:.1e}")


# a task can be a plain function of the model (or of model and batch), a model any pytree of arrays
def rosenbrock(point):
    return (1 - point["x"]) ** 2 + 100 * (point["y"] - point["x"] ** 2) ** 2


start = {"x": jnp.asarray(-1.0), "y": jnp.asarray(1.0)}
valley = ds.descend(
    start, rosenbrock, optax.adam(0.02), steps=2000, probes={"x": lambda p: p["x"], "loss": ds.probes.loss()}
).trace
print(f"x after 2000 steps: {valley.x.values[-1]:.3f}")

# when to record: every so many steps, at exactly these, or (the default) about a thousand times
every_tenth = ds.descend(start, rosenbrock, optax.adam(0.02), steps=400, record=10).trace
logarithmic = ds.descend(start, rosenbrock, optax.adam(0.02), steps=400, record=ds.log_steps(400, count=30)).trace
assert every_tenth.step.values[:3].tolist() == [0, 10, 20]
assert logarithmic.step.values[:4].tolist() == [0, 1, 2, 3]

# a run that diverges is an outcome
unstable = ds.descend(start, rosenbrock, optax.sgd(0.1), steps=50).trace
print("not finite from step", unstable.diverged_at.item())
