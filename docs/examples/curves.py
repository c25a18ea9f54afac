"""Reading recorded curves: descents, learning times, the shape of a path, the order of concepts."""

import jax
import numpy as np
import optax

import dynascope as ds
from dynascope.curves import order, paths, stages
from dynascope.theory.concept.starts import gaussian_factor

mu = (1.0, 2.0)


def member(start):
    task = ds.tasks.StructuredIdentity(mu, 0.05, 2, norm="sum")
    return ds.Descent(
        ds.models.Symmetric(start),
        task,
        optax.sgd(0.01),
        probes={
            "test_loss": task.test_loss,
            "output": ds.probes.output(task.test_point),
            "W": ds.probes.jacobian(task.test_point),
            "hierarchy": lambda model: jax.vmap(lambda x: ((model(x) - x) ** 2).sum() / 2)(task.test_points(nodes)),
        },
    )


nodes = order.hierarchy(2)
with jax.enable_x64(True):
    trace = ds.ensemble(member, {"start": gaussian_factor(range(100), 0.1, 2)}, steps=2000, record=1).trace

# descents: the loss has turned once it came back by 1 % of its first value
count = stages.descents(trace.test_loss, tolerance=0.01)
print("runs by number of descents:", dict(zip(*np.unique(count, return_counts=True), strict=True)))

one = trace.isel(start=3)
for turn in stages.turning_points(one.test_loss):
    print(f"  {turn.kind} at step {turn.at}: {turn.value / one.test_loss[0].item():.4f} of the first value")
print("  depth of transient memorization:", stages.memorization_depth(one.test_loss))

# learning times, interpolated, with the width of the recorded interval as their uncertainty
z = trace.output / np.array(mu)
half = paths.half_times(z, trace.step)
print("half-times of run 3:", half.time[3], "+-", half.uncertainty[3])

# the path: which concept is first, does the weaker one fall back, how learning slows
area = paths.signed_area(z[..., 0], z[..., 1])
print(f"concept 2 first in {np.sum(area > 0)} of 100 runs; concept 1 falls back by", paths.reversal(z[3, :, 0]))
rate = paths.terminal_rate(one.output, one.step, one.test_loss)
print(f"log speed falls by {rate.slope:.5f} +- {rate.standard_error:.5f} a step")

# everything that happens in one run, in order
for event in stages.stage_log(one.W, concepts=2, loss=one.test_loss):
    print(f"  {event.time:7.1f}  {event.what} {event.where or ''}")

# the hierarchy of test points: a combination should not be learned before its parts
pairs = order.comparable_pairs(nodes)
violated = order.violation_share(trace.hierarchy, pairs, tolerance=1e-6)
print(f"pairs out of order, over all runs and steps: {violated.mean():.1%}")
