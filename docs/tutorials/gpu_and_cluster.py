# %% [markdown]
# # On a GPU and a cluster
#
# The same code runs on a laptop, on the GPUs of one machine, and on a cluster. The outputs below show the devices of
# one machine; run the notebook to see yours.
#
# ## Which devices are there?

# %%
import jax
import jax.numpy as jnp
import optax

import dynascope as ds

print(jax.default_backend(), jax.device_count())

# %% [markdown]
# JAX finds GPUs when its CUDA wheels are installed: `pip install 'jax[cuda13]'`, or `cuda12`, depending on your driver.
# `JAX_PLATFORMS=cpu` switches back.
#
# ## Ensembles fill a device
#
# One run of a small network does not fill a GPU; a thousand runs do. The members of an ensemble run side by side, as
# many as fit into memory, and on all devices of the machine.


# %%
def member(seed, learning_rate):
    weights = jax.random.normal(jax.random.key(seed), (8,))
    return ds.Descent(weights, lambda w: (jnp.prod(w) - 1) ** 2, optax.sgd(learning_rate))


many = ds.ensemble(member, {"seed": range(64), "learning_rate": [0.003, 0.01, 0.03]}, steps=500, record=100)
print("members:", many.statistics["members"], "devices:", many.statistics["devices"])
print(many.trace.loss.isel(step=-1).median("seed").to_series())

# %% [markdown]
# ## Several devices, tried on a CPU
#
# A CPU can act as several devices, so you can test code for eight GPUs.

# %% devices.py
import jax
import jax.numpy as jnp
import optax

import dynascope as ds


def member(seed):
    weights = jax.random.normal(jax.random.key(seed), (8,))
    return ds.Descent(weights, lambda w: (jnp.prod(w) - 1) ** 2, optax.sgd(0.01))


many = ds.ensemble(member, {"seed": range(64)}, steps=100)
print("devices:", many.statistics["devices"])

# %%
# !XLA_FLAGS=--xla_force_host_platform_device_count=4 JAX_PLATFORMS=cpu python devices.py

# %% [markdown]
# ## Many runs: processes, then a queue
#
# A sweep runs an experiment over a grid. `--jobs 2` uses two processes, and two GPUs if the machine has them. Every
# run is stored as soon as it is finished, and the same command resumes an interrupted sweep.
#
# On a cluster, a job array needs only a shared folder. Each job takes its part of the runs, here the first of two:

# %%
# !dynascope sweep graphs.your-own --grid depth=2,4 --part 1/2

# %% [markdown]
# The same command without `--part` does the runs that are not stored yet, and writes the summary. After the last job
# of an array only the summary remains.

# %%
# !dynascope sweep graphs.your-own --grid depth=2,4

# %% [markdown]
# As a Slurm script:
#
# ```sh
# #!/bin/sh
# #SBATCH --array=1-100
# #SBATCH --cpus-per-task=4
# #SBATCH --time=04:00:00
# dynascope sweep concept.signal-order --preset quick --grid dim=4,16,64 --seeds 9 --yes --part $SLURM_ARRAY_TASK_ID/100
# ```
#
# With [dask](https://distributed.dask.org) the command starts the jobs itself, and replaces lost ones:
#
# ```sh
# dynascope sweep concept.signal-order --preset quick --grid dim=4,16,64 --executor dask:cluster.toml
# ```
#
# The page on [clusters](../clusters.md) describes this file, and what happens when workers die.
