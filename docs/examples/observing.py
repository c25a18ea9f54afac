"""Measure a training that is already there: an Equinox model, a loop of one's own, and a folder of checkpoints."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import dynascope as ds

x = jax.random.normal(jax.random.key(0), (64, 4))
y = jnp.sin(2 * x[:, :1]) * x[:, 1:2]
start = eqx.nn.MLP(4, 1, 16, 2, activation=jnp.tanh, key=jax.random.key(1))
optimizer, folder = optax.sgd(0.2), Path("checkpoints")


def loss(model, batch):
    inputs, targets = batch
    return jnp.mean((jax.vmap(model)(inputs) - targets) ** 2)


# a training loop as it was: it writes a checkpoint now and then
@eqx.filter_jit
def step(model, state):
    gradient = eqx.filter_grad(loss)(model, (x, y))
    updates, state = optimizer.update(gradient, state)
    return eqx.apply_updates(model, updates), state


folder.mkdir(exist_ok=True)
model, state = start, optimizer.init(eqx.filter(start, eqx.is_array))
for k in range(201):
    if k % 20 == 0:
        eqx.tree_serialise_leaves(folder / f"{k}.eqx", model)
    model, state = step(model, state)

# the probes are compiled once; each search for eigenvalues begins where the last one ended
trace = ds.observe(
    {int(path.stem): path for path in folder.glob("*.eqx")},
    loss,
    data=(x, y),
    load=lambda path: eqx.tree_deserialise_leaves(path, start),
    probes={
        "loss": ds.probes.loss(),
        "sharpness": ds.probes.sharpness(),
        "noise": ds.probes.gradient_noise(),
        "ranks": ds.probes.weight_ranks(change=True),
        "alike": ds.probes.cka(lambda model: jax.vmap(model)(x)),
    },
)
print(trace)
print(trace.ranks.isel(step=-1).to_series())
