"""Weights without their small singular values: at one point, and many at a time inside the loop."""

import jax
import numpy as np
import optax

import dynascope as ds

# a two-layer transformer on noisy recall: after token 0 comes this sequence's own target, or a noise token
task = ds.tasks.NoisyRecall.uniform(10, length=24, alpha=0.5, loss_at="triggers")
model = ds.models.RecallTransformer(task.vocabulary, task.length, dim=16, key=jax.random.key(0))
clean = ds.tasks.NoisyRecall.uniform(10, length=24, alpha=0.0).sample(jax.random.key(1), 64)

# one weight of any model, cut to a rank or to a share of it; the model that is given stays as it is
cut = ds.geometry.truncate(model, lambda m: m.blocks[1].feed.into, rank=2)
half = ds.geometry.truncate(model, lambda m: (m.blocks[0].value, m.blocks[1].value), share=0.5)
print("rank:", np.linalg.matrix_rank(cut.blocks[1].feed.into, tol=1e-4))

# many truncations at every recording, inside the loop
weights = {"F1": lambda m: m.blocks[0].feed.into, "F2": lambda m: m.blocks[1].feed.into}
seen = ds.probes.truncations(weights, (0, 4, 16), lambda m: task.scores(m, clean))
trained = {"steps": 20, "batch": 32, "key": jax.random.key(2), "record": 10}
trace = ds.descend(model, task, optax.sgd(0.03, momentum=0.9), **trained, probes={"cut": seen}).trace
print(trace.cut_noise.dims)  # step, weight, rank
print(trace.cut_noise.sel(weight="F2").isel(step=-1).to_pandas().round(3))
