"""Examples of the names of `dynascope.dynamics`, one for each cell."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds


def valley(w):
    """A loss of two weights whose minima are w[0] * w[1] = 1."""
    return (w[0] * w[1] - 1) ** 2 / 2


start = jnp.array([2.0, 0.1])

# %% averaged
optimizer = ds.dynamics.with_average(optax.sgd(0.1), decay=0.9)
trained = ds.descend(start, valley, optimizer, steps=50)
ds.dynamics.averaged(trained)

# %% clipped_network
optimizer = ds.dynamics.clipped_network(optax.adam(1e-3), 1.0, schedule=optax.adam(1e-3))
type(optimizer).__name__


# %% Member
class Learner(ds.Member):
    width: int

    def __call__(self, seed):
        start = jax.random.normal(jax.random.key(seed), (2, self.width))
        return ds.Descent(
            start, lambda w: (w[0] @ w[1] - 1) ** 2 / 2, optax.sgd(0.1), probes={"loss": ds.probes.loss()}
        )


ds.ensemble(Learner(width=4), {"seed": range(3)}, steps=50).trace["loss"][:, -1].values

# %% with_average
optimizer = ds.dynamics.with_average(optax.sgd(0.1), decay=0.9)
average = ds.probes.probe(ds.dynamics.averaged, dims=("weight",))
ds.descend(start, valley, optimizer, steps=20, probes={"average": average}).trace.average[-1].values

# %% Bifurcation
found = ds.dynamics.bifurcation(lambda x, r: r * x * (1 - x), jnp.array([2.8, 3.2, 3.5]), jnp.array(0.5), burn_in=2000)
print(found.iterates.shape, found.periods(tolerance=1e-4))

# %% bifurcation
logistic = ds.dynamics.bifurcation(lambda x, r: r * x * (1 - x), jnp.linspace(2.8, 4.0, 5), jnp.array(0.5), keep=4)
np.round(logistic.iterates, 3)

# %% escape_times
rates = jnp.array([0.5, 1.9, 2.1])
ds.dynamics.escape_times(lambda x, rate: x - rate * x, rates, jnp.ones(3), steps=200)

# %% RMSProp
optimizer = ds.dynamics.RMSProp(decay=0.99, moments=1.01)
probes = {"oscillation": ds.dynamics.oscillation()}
trace = ds.central_flow(
    jnp.array([0.1, 0.0]), lambda w: 10 * w[0] ** 2 - 0.6 * w[1], 0.1, steps=50, optimizer=optimizer, probes=probes
).trace
print(f"variance {trace.oscillation[-1]:.5f}; in theory, eta^2/4 = {0.1**2 / 4:.5f}")

# %% ScalarRMSProp
optimizer = ds.dynamics.ScalarRMSProp(decay=0.99, moments=1.01)
trace = ds.central_flow(
    jnp.array([0.1, 0.0]), lambda w: 10 * w[0] ** 2 - 0.6 * w[1], 0.1, steps=50, optimizer=optimizer, probes=probes
).trace
print(f"variance {trace.oscillation[-1]:.5f}; in theory {0.1**2 / 4 - (0.6 / 20) ** 2:.5f}")

# %% CentralFlow
member = ds.CentralFlow(jnp.array([0.1, 2.5]), lambda w: (1 + w[1] ** 2) * w[0] ** 2 / 2, 0.4, critical=1)
dict(ds.ensemble(lambda seed: member, {"seed": [0]}, steps=20).trace.loss.sizes)

# %% central_flow
trained = ds.central_flow(jnp.array([0.1, 2.5]), lambda w: (1 + w[1] ** 2) * w[0] ** 2 / 2, 0.4, steps=50, critical=1)
trained.model

# %% oscillation
probes = {"oscillation": ds.dynamics.oscillation()}
valley_of = lambda w: (1 + w[1] ** 2) * w[0] ** 2 / 2
trace = ds.central_flow(jnp.array([0.1, 2.5]), valley_of, 0.4, steps=50, critical=1, probes=probes).trace
list(trace.data_vars)


# %% Descent
def member(learning_rate):
    return ds.Descent(start, valley, optax.sgd(learning_rate))


ds.ensemble(member, {"learning_rate": [0.05, 0.1]}, steps=20).trace.loss.isel(step=-1).values

# %% descend
trained = ds.descend(start, valley, optax.sgd(0.1), steps=100, probes={"product": jnp.prod}, record=25)
print(trained.trace["product"].values)
print(trained.model)


# %% ensemble
def member(seed, learning_rate):
    weights = jax.random.normal(jax.random.key(seed), (2,))
    return ds.Descent(weights, valley, optax.sgd(learning_rate))


many = ds.ensemble(member, {"seed": range(8), "learning_rate": [0.03, 0.1, 0.3]}, steps=100)
many.trace.loss.isel(step=-1).median("seed").values

# %% member_seeds
ds.dynamics.member_seeds(seed=2, count=3)

# %% Flow
many = ds.ensemble(lambda scale: ds.Flow(scale * start, valley), {"scale": [0.5, 1.0]}, times=[0.0, 1.0, 10.0])
many.trace.loss.values

# %% dense_flow
at = ds.dense_flow(start, valley, until=5.0)
at(2.5)

# %% flow
ds.flow(start, valley, times=[0.0, 1.0, 10.0], probes={"product": jnp.prod}).trace["product"].values

# %% Map
many = ds.ensemble(lambda r: ds.Map(lambda x: r * x * (1 - x), jnp.asarray(0.5)), {"r": [2.8, 3.2]}, steps=1000)
many.trace.state.isel(step=slice(-2, None)).values

# %% iterate
ds.iterate(lambda x: 0.5 * (x + 2 / x), jnp.asarray(1.0), steps=4, record=1).trace.state.values

# %% linear_steps
ds.linear_steps(10, every=4)

# %% log_steps
ds.log_steps(1000, count=10)


# %% Monitor
class Print(ds.Monitor):
    """Says how far a run is."""

    def progress(self, done, total, members=1):
        print(f"{done} of {total}")


with ds.monitored_by(Print()):
    ds.descend(start, valley, optax.sgd(0.1), steps=100)

# %% monitored_by
with ds.monitored_by(ds.Monitor()) as monitor:
    ds.descend(start, valley, optax.sgd(0.1), steps=10)
type(monitor).__name__

# %% Trajectory
trained = ds.descend(start, valley, optax.sgd(0.1), steps=50)
longer = trained.resume(steps=50)
print(trained.at, longer.at, longer.model)

# %% observe
checkpoints = {step: ds.descend(start, valley, optax.sgd(0.1), steps=step).model for step in (1, 10, 100)}
ds.observe(checkpoints, valley, probes={"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness()})
