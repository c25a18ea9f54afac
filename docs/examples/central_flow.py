"""The central flow: where gradient descent goes on average, once it oscillates."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.dynamics.oscillation import oscillation

jax.config.update("jax_enable_x64", True)


# a valley that gets sharper along its floor: curvature 15 + 2 y across it, a slope of 0.05 along it
def valley(point):
    x, y = point
    return (15 + 2 * y) * x**2 / 2 - 0.05 * y


rate, start = 0.1, jnp.array([0.2, 2.45])  # 2/rate = 20 is reached at y = 2.5
where = {"point": lambda point: point}

descent = ds.descend(start, valley, optax.sgd(rate), steps=1000, probes=where, record=1).trace
both = {**where, "oscillation": oscillation()}
central = ds.central_flow(start, valley, rate, steps=1000, probes=both, critical=1).trace
plain = ds.flow(start, valley, times=[0.0, rate * 1000], probes=where, solver=diffrax.Tsit5()).trace

x, y = descent.point.values.T
print(f"y: descent {y.mean():.3f} (mean), central flow {central.point[-1, 1]:.3f}, flow {plain.point[-1, 1]:.3f}")
print(f"sharpness: central flow {15 + 2 * central.point[-1, 1]:.3f}, flow {15 + 2 * plain.point[-1, 1]:.3f}")
print(f"variance of x: descent {np.mean(x**2):.4f}, central flow {central.oscillation[-1]:.4f}")


# where the curvature across the valley rises away from its floor, the oscillation feeds itself: D < 0 says so
def hardened(point):
    return valley(point) + 0.5 * point[0] ** 4


lost = ds.descend(start, hardened, optax.sgd(rate), steps=1000, probes=where, record=1).trace
calm = ds.central_flow(start, hardened, rate, steps=1000, probes=both, critical=1).trace
along = ds.geometry.directional_derivatives(hardened, jnp.array([0.0, 2.5]), jnp.array([1.0, 0.0]))
print(f"descent diverges at step {lost.diverged_at.item()}; central flow: y = {calm.point[-1, 1]:.3f}")
print(f"discriminant: {ds.geometry.discriminant(along):.0f}")
