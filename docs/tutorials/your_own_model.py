# %% [markdown]
# # Your own model
#
# Any pytree of arrays can be the model: a dictionary of weights, an Equinox module, Flax parameters. Any arrays can
# be the data. This tutorial trains a hand-written network, with measurements inside the loop.

# %%
import jax
import jax.numpy as jnp
import optax
from matplotlib import pyplot

import dynascope as ds

x = jax.random.normal(jax.random.key(0), (256, 4))
y = jnp.sin(x[:, 0]) * x[:, 1]
train, test = (x[:192], y[:192]), (x[192:], y[192:])

# %% [markdown]
# ## A model is a pytree
#
# The parameters are the model, and `apply(parameters, x)` calls it on one example.


# %%
def initialize(key, width=32):
    first, second = jax.random.split(key)
    return {
        "inner": jax.random.normal(first, (width, 4)) / 2,
        "outer": jax.random.normal(second, (width,)) / width**0.5,
    }


def apply(model, x):
    return model["outer"] @ jnp.tanh(model["inner"] @ x)


task = ds.tasks.Supervised("mse", apply=apply)

# %% [markdown]
# ## Measure while it learns
#
# A probe is any function of the model. The probes in `ds.probes` measure loss and curvature, and report the errors of
# their estimates. Each can have its own cadence, and all of them run inside the compiled loop.

# %%
trained = ds.descend(
    initialize(jax.random.key(1)),
    task,
    optax.adam(3e-3),
    data=train,
    batch=32,
    key=jax.random.key(2),
    steps=1000,
    record=20,
    probes={
        "train_loss": ds.probes.loss(),
        "test_loss": lambda model: task.loss(model, test),
        "alive": lambda model: jnp.sum(jnp.abs(model["outer"]) > 0.1),
        "sharpness": ds.probes.sharpness(every=50),
    },
)
trained.trace

# %% [markdown]
# The trace is an [xarray](https://docs.xarray.dev) dataset. `sharpness` comes with `sharpness_error`.

# %%
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for name in ("train_loss", "test_loss"):
    left.semilogy(trained.trace.step, trained.trace[name], label=name.replace("_", " "))
left.set(xlabel="step", ylabel="loss")
left.legend()
right.plot(trained.trace.sharpness_step, trained.trace.sharpness)
right.set(xlabel="step", ylabel="sharpness")
# %% [markdown]
# ## Continue the training
#
# The trajectory holds the trained model, of the type that you passed, and everything that it needs to continue: here
# Adam's moments and the order of the data.

# %%
longer = trained.resume(steps=1000)
for name, run in {"1,000 steps": trained, "2,000 steps": longer}.items():
    print(f"{name}: test loss {float(task.loss(run.model, test)):.4f}")

# %% [markdown]
# ## Read the curves
#
# Curve readers turn a recorded curve into events: turning points, plateaus, spikes, crossings.

# %%
below = ds.curves.first_crossing(longer.trace.test_loss, 0.1, longer.trace.step, falling=True)
print(f"the test loss falls below 0.1 at step {float(below.time):.0f}")

# %% [markdown]
# The page on [trajectories](../trajectory.md) shows Equinox, Flax and PyTorch models, and the page on
# [probes](../probes.md) more measurements.
