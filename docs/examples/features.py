"""Feature learning: outer products of gradients, catapults on demand, rates and batches as a probe sees them."""

import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from dynascope.dynamics import rates

# a target of two directions among ten, and a network
task = ds.tasks.MultiIndex("rank-2", dim=10)
x, y = task.sample(jax.random.key(0), 200)
net = ds.models.MLP(10, 2, key=jax.random.key(1), width=64, out=1, activation="relu", parameterization="ntk")

# which directions does it depend on?
outer = ds.geometry.agop(net, x)
target = task.gradient_outer_product()
print("alignment at the start", float(ds.geometry.alignment(outer, target)))
print("of a model that depends on all equally", float(ds.theory.features.agop.isotropic_alignment(target)))

# any pytree will do, with apply(params, x) beside it
params = {"w": jax.random.normal(jax.random.key(2), (10, 3))}
own = ds.geometry.agop(params, x, apply=lambda params, point: jnp.tanh(point @ params["w"]))
print("of a model of one's own, three outputs", float(ds.geometry.alignment(own, target)))


# gradient descent through a catapult: the rate reacts, and a probe records it
class Learner(ds.Member):
    def __call__(self, count):
        optimizer = rates.catapults(lambda net: ds.geometry.critical_rate(net, x), count)
        probes = {
            "loss": ds.probes.loss(),
            "rate": ds.probes.learning_rate(),
            "alignment": ds.probes.agop_alignment(target, x),
        }
        return ds.Descent(net, task, optimizer, data=(x, y), probes=probes)


trace = ds.ensemble(Learner(), {"count": np.array([0, 1], np.int32)}, steps=150, record=5).trace
print(trace.alignment.isel(step=-1).values, trace.rate_catapults.isel(step=-1).values)

# a cyclic rate and minibatches: which rows a step takes, and the critical rate of just that batch
trace = ds.descend(
    net,
    task,
    rates.scheduled(rates.cyclic(0.5, 3.0, period=40)),
    steps=80,
    record=1,
    data=(x, y),
    batch=5,
    key=jax.random.key(3),
    probes={
        "rate": ds.probes.learning_rate(),
        "rows": ds.probes.batch_rows(),
        "critical": ds.probes.batch_critical_rate(),
    },
).trace
print("super-critical steps:", int((trace.rate.shift(step=-1) > trace.critical).sum()), "of 80")
