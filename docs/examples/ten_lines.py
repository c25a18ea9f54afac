"""The library in ten lines: train a deep linear network on two concepts and read its trace."""

import jax
import optax

import dynascope as ds

task = ds.tasks.StructuredIdentity(mu=(1.0, 2.0), sigma=(0.05, 0.05), dim=2)
model = ds.models.MLP(dim=2, depth=4, key=jax.random.key(3))
trained = ds.descend(
    model,
    task,
    optax.sgd(0.1),
    steps=1500,
    batch=128,  # fresh samples at every step; give `data=` for a finite set, or neither for the population loss
    key=jax.random.key(1),
    probes={"output": ds.probes.output(task.test_point), "test_loss": task.test_loss},
)
print(trained.trace)  # an xarray.Dataset: output(step, coordinate), test_loss(step), diverged_at
print(trained.model(task.test_point))  # the trained network, of the type that was given
print(ds.curves.turning_points(trained.trace.test_loss))  # it falls, rises while it memorizes, falls again
