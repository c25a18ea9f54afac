"""`iterate`: a reduced map in the place of a network."""

import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds

# gradient descent on (x y - 1)^2 / 2, written as the map it is; the state's names are the trace's
h = 0.1


def step(state):
    x, y = state["x"], state["y"]
    return {"x": x - h * (x * y - 1) * y, "y": y - h * (x * y - 1) * x}


trace = ds.iterate(step, {"x": 0.2, "y": 0.1}, steps=200, record=1).trace
print(trace)
np.testing.assert_allclose(trace.x[-1] * trace.y[-1], 1.0, rtol=1e-5)

# probes of the state; with `loss` also those that need one
probed = ds.iterate(
    step,
    {"x": 0.2, "y": 0.1},
    steps=200,
    probes={"imbalance": lambda state: state["x"] ** 2 - state["y"] ** 2, "loss": ds.probes.loss(every=50)},
    loss=lambda state: (state["x"] * state["y"] - 1) ** 2 / 2,
).trace
print("imbalance at start and end:", probed.imbalance.values[[0, -1]])


# thousands of parameters at once: the orbit diagram of the logistic map, in float64
def logistic(r):
    return ds.Map(lambda x: r * x * (1 - x), jnp.asarray(0.5))


with jax.enable_x64(True):
    rates = {"r": np.linspace(2.8, 4.2, 701).round(3)}
    orbits = ds.ensemble(logistic, rates, steps=1000, record=range(900, 1001)).trace
inside = orbits.where(orbits.diverged_at < 0, drop=True)
print(f"{inside.sizes['r']} of 701 orbits stay finite; at r = 3.2:", np.unique(inside.state.sel(r=3.2).round(6)))
