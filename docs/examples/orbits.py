"""Orbits of gradient descent above 2/f'': their period, whether they attract, and diagrams over learning rates."""

import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from dynascope import geometry
from dynascope.curves import orbits
from dynascope.tasks.products import two_factors
from dynascope.tasks.scalar_losses import quartic
from dynascope.theory.edge import quartic_orbit

jax.config.update("jax_enable_x64", True)  # orbits close to 1e-9 or not at all: double precision

# f = (x^2 - 1)^2 / 4 above its threshold, 2/f'' = 1: gradient descent does not diverge, it settles in period two
loss, rate = quartic(1.0), 1.05
trace = ds.iterate(lambda x: loss.step(x, rate), 0.5, steps=3000, record=1).trace
cycle = orbits.last_cycle(trace.state, 2)
print("period", orbits.period(trace.state), "between", cycle, "in theory", quartic_orbit.orbit(1.0, rate))

# on the orbit: how exactly it closes, and by how much two steps shrink a small error; it attracts between -1 and 1
point = jnp.asarray(cycle[0])
print("residual", geometry.residual(lambda x: loss.step(x, rate), point))
print(
    "multiplier", geometry.multiplier(lambda x: loss.step(x, rate), point), "in theory", quartic_orbit.multiplier(rate)
)

# the diagram: every learning rate is an element of one array, and only the last iterates are kept
rates = jnp.linspace(0.9, 1.4, 501)
diagram = ds.dynamics.bifurcation(loss.step, rates, 0.5, burn_in=5000, keep=64)
periods = diagram.periods()
for p in (1, 2, 4, 8, 16, 0):
    print(f"period {p or 'none'}: {np.sum(periods == p)} of {len(rates)} rates")

# a state of several numbers: say what to observe. The two factors of (xy - 1)^2 / 2 become equal while they oscillate
pair = two_factors()
watched = ds.dynamics.bifurcation(
    pair.step,
    jnp.asarray([0.9, 1.05]),
    jnp.asarray([1.1, 0.8]),
    burn_in=3000,
    keep=8,
    observe=lambda x: {"product": x[0] * x[1], "gap": geometry.imbalance(x[0], x[1])},
)
print("products", orbits.last_cycle(watched.iterates["product"], 2), "gaps", watched.iterates["gap"][:, -1])

# how fast the gap decays: the mean logarithm of its factor, 1 + eta (xy - 1), against log(3 - 2 eta) / 2 in theory
exponent = orbits.transverse_exponent(1 + rate * (watched.iterates["product"][1] - 1))
print("transverse exponent", exponent, "in theory", np.log(3 - 2 * rate) / 2)

# which starts stay bounded: one flat axis of settings and starts, and the step at which each escapes (-1: never)
x, y = (grid.ravel() for grid in jnp.meshgrid(jnp.linspace(0.1, 3.0, 30), jnp.linspace(0.1, 3.0, 30)))
gone = ds.dynamics.escape_times(pair.step, jnp.full_like(x, rate), jnp.stack([x, y], axis=-1), steps=500)
print(f"{np.sum(gone < 0)} of {gone.size} starts stay finite")
