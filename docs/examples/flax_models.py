"""Flax models, linen and nnx: trained, probed and taken out again."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx

import dynascope as ds

x = jax.random.normal(jax.random.key(0), (256, 4))
y = jnp.sin(x[:, 0]) * x[:, 1]
train, test = (x[:192], y[:192]), (x[192:], y[192:])
probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness(every=100)}

# linen: the parameters are the model, and `apply` calls them
mlp = nn.Sequential([nn.Dense(32), nn.tanh, nn.Dense(1)])
task = ds.tasks.Supervised("mse", apply=mlp.apply)
start = mlp.init(jax.random.key(1), x[0])
trained = ds.descend(start, task, optax.adam(1e-2), data=train, steps=300, probes=probes)
print("linen: test loss", float(task.loss(trained.model, test)), "sharpness", float(trained.trace.sharpness[-1]))

# nnx: split the module into its graph and its parameters, and merge them where it is called
module = nnx.Sequential(nnx.Linear(4, 32, rngs=nnx.Rngs(2)), nnx.tanh, nnx.Linear(32, 1, rngs=nnx.Rngs(3)))
graph, parameters, rest = nnx.split(module, nnx.Param, ...)
task = ds.tasks.Supervised("mse", apply=lambda parameters, x: nnx.merge(graph, parameters, rest)(x))
trained = ds.descend(parameters, task, optax.adam(1e-2), data=train, steps=300, probes=probes)
module = nnx.merge(graph, trained.model, rest)  # an nnx module again
print("nnx: test loss", float(jnp.mean((module(test[0])[:, 0] - test[1]) ** 2)))
