# %% [markdown]
# # Curvature along training
#
# How sharp is the loss along the path of gradient descent, and is the step size small enough? This tutorial follows
# the largest eigenvalue of the Hessian through a training run, then computes the whole spectrum at its end.

# %%
import jax
import jax.numpy as jnp
import optax
from matplotlib import pyplot

import dynascope as ds
from dynascope.figures import FAINT, THEORY

rate = 0.1
net = ds.models.MLP(8, 3, width=16, out=1, key=jax.random.key(0), activation="tanh", bias=True)
x = jax.random.normal(jax.random.key(1), (100, 8))
y = jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def loss(net):
    return jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2)


# %% [markdown]
# ## Sharpness at every step
#
# The probe starts each search from the vectors of the last one, and takes as many Hessian-vector products as its
# residual requires: about three per step.

# %%
trace = ds.descend(
    net,
    loss,
    optax.sgd(rate),
    steps=600,
    record=1,
    probes={"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness()},
).trace
print(f"products a step: {float(trace.sharpness_products.mean()):.1f}")
print(f"largest relative error, as estimated: {float((trace.sharpness_error / trace.sharpness).max()):.1e}")

# %%
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.semilogy(trace.step, trace.loss)
left.set(xlabel="step", ylabel="loss")
right.plot(trace.step, trace.sharpness)
right.axhline(2 / rate, **THEORY)
right.set(xlabel="step", ylabel="sharpness")
# %% [markdown]
# The sharpness rises to 2 divided by the learning rate (dashed) and stays near it. The loss oscillates from
# step to step, and still falls over longer times: this is the [edge of stability](../edge.md).
#
# ## Eigenpairs at one point
#
# The functions of `ds.geometry` measure at one point. Every estimate comes with its residual and its error.

# %%
found = ds.geometry.top_eigenpairs(loss, net, k=3, tolerance=1e-6)
for value, residual, error in zip(found.values, found.residuals, found.errors, strict=True):
    print(f"{float(value):8.4f}   residual {float(residual):.0e}   estimated error {float(error):.0e}")

# %% [markdown]
# ## The whole spectrum
#
# Random vectors give the density of all eigenvalues, with standard errors, from Hessian-vector products alone.

# %%
spectrum = ds.geometry.spectral_density(loss, net, jax.random.key(2), draws=16, degree=32)
at = jnp.linspace(-1, 6, 300)
density, standard_error = spectrum.density(at, 0.1)
figure, axes = pyplot.subplots(figsize=(5.5, 3.2), layout="constrained")
axes.fill_between(at, density - standard_error, density + standard_error, color=FAINT, alpha=0.5)
axes.semilogy(at, density)
axes.set(xlabel="eigenvalue", ylabel="density", ylim=(1e-4, None))

trace_of_hessian, error_of_trace = spectrum.moment(1)
print(f"trace of the Hessian: {float(trace_of_hessian):.2f} ± {float(error_of_trace):.2f}")

# %% [markdown]
# The page on [curvature](../curvature-probes.md) has the cost and the tests of these functions. The time average of
# the oscillation is a [central flow](../central-flow.md).
