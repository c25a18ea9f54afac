"""Graphs: a graph isomorphism network and a graph-augmented MLP learn to count walks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope import graphs, models, tasks

# a graph isomorphism network learns to count walks through blue nodes
colored = graphs.parity_colors(graphs.random_regular(6, 200, seed=0))
counts = jnp.asarray(graphs.walk_counts(colored, np.arange(200) % 2, [0, 0, 0]), float)
inputs = models.FeaturedGraph(colored)
data = jnp.arange(150, dtype=jnp.int32), counts[:150]
start = models.GIN(features=2, depth=2, out=1, width=16, key=jax.random.key(0))
task = tasks.NodeTask(inputs)
trained = ds.descend(start, task, optax.adam(0.01), data=data, batch=32, key=jax.random.key(1), steps=600)
error = jnp.mean((trained.model(inputs)[150:, 0] - counts[150:]) ** 2) / counts.var()
print(f"test error over variance, message passing: {error:.3f}")

# a graph-augmented MLP reads features that are propagated once, before training
columns = graphs.powers(graphs.adjacency(colored), colored.features, 2).transpose(1, 0, 2).reshape(200, -1)
x = jnp.asarray(columns, float)
head = models.GAMLP(features=6, out=1, key=jax.random.key(0))
trained = ds.descend(head, tasks.Supervised("mse"), optax.adam(0.01), data=(x[:150], counts[:150]), steps=600)
error = jnp.mean((trained.model(x)[150:, 0] - counts[150:]) ** 2) / counts.var()
print(f"test error over variance, powers of A: {error:.3f}")
