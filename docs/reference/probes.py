"""Examples of the names of `dynascope.probes`, one for each cell."""

import jax
import jax.numpy as jnp
import optax

import dynascope as ds

net = ds.models.MLP(3, 2, width=8, out=1, key=jax.random.key(0), activation="tanh")
x = jax.random.normal(jax.random.key(1), (20, 3))
y = x[:, :1] * x[:, 1:2]


def trace(probe, **options):
    """What a probe records in a short run of gradient descent."""
    task = ds.tasks.Supervised("mse")
    return ds.descend(
        net, task, optax.sgd(0.1), steps=20, record=10, data=(x, y), probes={"it": probe}, **options
    ).trace


# %% agop_alignment
trace(ds.probes.agop_alignment(jnp.diag(jnp.array([1.0, 1.0, 0.0])), x)).it.values

# %% batch_rows
trace(ds.probes.batch_rows(), batch=4, key=jax.random.key(2)).it.values

# %% displacement
trace(ds.probes.displacement()).it.values

# %% jacobian
trace(ds.probes.jacobian(x[0])).it.dims

# %% learning_rate
from dynascope.dynamics import rates

optimizer = rates.scheduled(rates.cyclic(0.05, 0.2, period=10))
probes = {"rate": ds.probes.learning_rate()}
task = ds.tasks.Supervised("mse")
ds.descend(net, task, optimizer, steps=10, record=5, data=(x, y), probes=probes).trace.rate.values

# %% loss
trace(ds.probes.loss()).it.values

# %% output
trace(ds.probes.output(x[0])).it.dims

# %% outputs
dict(trace(ds.probes.outputs(x[:4])).it.sizes)

# %% flip_discriminant
trace(ds.probes.flip_discriminant(0.1)).it.values

# %% gradient_alignment
trace(ds.probes.gradient_alignment()).it.values

# %% hessian_density
dict(trace(ds.probes.hessian_density(jnp.linspace(0, 3, 4), 0.3, draws=4, degree=8)).it.sizes)

# %% output_hessian_norm
trace(ds.probes.output_hessian_norm(lambda net: net(x[0])[0])).it.values

# %% preconditioned_sharpness
adam = optax.inject_hyperparams(optax.adam)(0.01)
probes = {"it": ds.probes.preconditioned_sharpness()}
found = ds.descend(net, ds.tasks.Supervised("mse"), adam, steps=20, record=10, data=(x, y), probes=probes).trace
print(found.it.values, found.it_converged.values)

# %% sharpness
found = trace(ds.probes.sharpness(every=10))
print(found.it.values, found.it_error.values)

# %% top_eigenvalues
trace(ds.probes.top_eigenvalues(2)).it.values

# %% batch_critical_rate
trace(ds.probes.batch_critical_rate(), batch=4, key=jax.random.key(2)).it.values

# %% kernel_distance
trace(ds.probes.kernel_distance(x)).it.values

# %% kernel_norm
found = trace(ds.probes.kernel_norm(x, y, splits=(1, 5)))
print(found.it.values, found.it_top.dims)

# %% polyak
found = trace(ds.probes.polyak(x))
list(found.data_vars)


# %% Batch
def largest_row(snapshot):
    return jnp.max(snapshot.batch().rows)


trace(ds.probes.probe(largest_row), batch=4, key=jax.random.key(2)).it.values

# %% Probe
norm = ds.probes.Probe(lambda snapshot, state: (jnp.linalg.norm(snapshot.model.weights[0]), state), every=5)
trace(norm).it.values

# %% Snapshot
trace(ds.probes.probe(lambda snapshot: snapshot.loss() ** 0.5)).it.values

# %% probe
trace(ds.probes.probe(lambda snapshot: snapshot.model.weights[0][0], dims=("input",))).it.dims

# %% perturbation_spectrum
pairs = lambda net: (net.weights[1], net.weights[0].T)
dict(trace(ds.probes.perturbation_spectrum(pairs, dims=("singular",))).it.sizes)

# %% product_spectrum
pairs = lambda net: (net.weights[1], net.weights[0].T)
trace(ds.probes.product_spectrum(pairs, dims=("singular",))).it.values

# %% truncations
weights = {"inner": lambda net: net.weights[0]}
dict(trace(ds.probes.truncations(weights, (1, 3), lambda net: jnp.mean(jax.vmap(net)(x) ** 2))).it.sizes)

# %% gradient_noise
trace(ds.probes.gradient_noise())[["it", "it_error"]].isel(step=0)

# %% batch_sharpness
trace(ds.probes.batch_sharpness(4))[["it", "it_error"]].isel(step=0)

# %% weight_ranks
trace(ds.probes.weight_ranks()).it.isel(step=-1)

# %% cka
trace(ds.probes.cka(lambda net: jax.vmap(net)(x))).it.values
