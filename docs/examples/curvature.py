"""Curvature: how sharp the loss is, along which direction, how it bends there; in the loop and at one point."""

import jax
import jax.numpy as jnp
import optax

import dynascope as ds
from dynascope.theory.edge import optimizer_edges

rate = 0.1
net = ds.models.MLP(8, 3, width=16, out=1, key=jax.random.key(0), activation="tanh", bias=True)
x = jax.random.normal(jax.random.key(1), (100, 8))
y = jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def loss(net):
    return jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2)


# in the loop: at every step, with as many Hessian-vector products as the residual needs
trace = ds.descend(
    net, loss, optax.sgd(rate), steps=600, record=1,
    probes={
        "loss": ds.probes.loss(),
        "sharpness": ds.probes.sharpness(),
        "flip": ds.probes.flip_discriminant(rate, every=20),
    },
).trace  # fmt: skip
edge = trace.sharpness > 2 / rate
print(f"beyond 2/rate in {float(edge.mean()):.0%} of the steps; products: {float(trace.sharpness_products.mean()):.2f}")
print(f"largest relative error, as estimated: {float((trace.sharpness_error / trace.sharpness).max()):.1e}")
print(f"median alignment there: {float(trace.sharpness_alignment.where(edge).median()):.2f}")
print(f"an oscillation stays bounded in {float((trace.flip > 0).mean()):.0%} of the recordings")

# with Adam: the Hessian in the optimizer's own geometry, and its edge (2 + 2 b1) / ((1 - b1) rate)
adam = optax.inject_hyperparams(optax.adam)(0.01)
probes = {"own": ds.probes.preconditioned_sharpness()}
own = ds.descend(net, loss, adam, steps=200, record=20, probes=probes).trace.own
print(f"at {float(own[-1]) / float(optimizer_edges.adam(0.01, 0.9)):.2f} of Adam's edge")

# at one point: eigenpairs with their residuals
found = ds.geometry.top_eigenpairs(loss, net, k=3, tolerance=1e-5)
for value, residual, error in zip(found.values, found.residuals, found.errors, strict=True):
    print(f"  {float(value):8.4f}   residual {float(residual):.0e}   estimated error {float(error):.0e}")
assert found.converged.all()

# along a line: f, f', f'', f''', f'''' in the direction of the top eigenvector
f0, f1, f2, f3, f4 = ds.geometry.directional_derivatives(loss, net, found.vectors[0])
print(f"curvature {float(f2):.4f}; D = {float(3 * f3**2 - f2 * f4):.1f}")

# the minimum of the line of one gradient step, and D at it along the unit gradient
minimum = ds.geometry.line_search_minimum(loss, net, rate)
print(f"the loss is least at {float(minimum.fraction):.2f} of the step; D = {ds.geometry.flip(loss, net, rate)[0]:.1f}")

# which way the sharpness grows
uphill = ds.geometry.sharpness_gradient(loss, net, found.vectors[0])
moved = jax.tree.map(lambda weight, slope: weight + 1e-3 * slope, net, uphill)
print(f"uphill of it: {float(ds.geometry.top_eigenpairs(loss, moved).values[0]):.4f}")

# the whole spectrum, from 16 random vectors, with standard errors
spectrum = ds.geometry.spectral_density(loss, net, jax.random.key(2), draws=16, degree=32)
trace_of_hessian, standard_error = spectrum.moment(1)
print(f"trace {float(trace_of_hessian):.2f} +- {float(standard_error):.2f}")
