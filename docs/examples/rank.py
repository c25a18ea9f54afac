"""Gradual rank increase: Algorithm 1, the exact flow beside it, the assumptions, and the stages of a recorded curve."""

import jax
import jax.numpy as jnp
import numpy as np

from dynascope import curves
from dynascope.models import AttentionHead
from dynascope.tasks.diagonal import DiagonalRegression, QuadraticLoss, exit_and_return, toy_head
from dynascope.theory.rank import assumptions, diagonal_flow, greedy_ranks

jax.config.update("jax_enable_x64", True)  # theory is float64

# any loss of a product beta = u * v will do: here a quadratic in four coordinates
example = exit_and_return()
loss = QuadraticLoss(jnp.asarray(example.S), jnp.asarray(example.c))

# Algorithm 1: what is learned when, as the initial scale goes to zero
stages = greedy_ranks.greedy_stages(loss, size=4)
for stage in stages:
    print(f"T = {stage.time:.4f}  learned: {stage.winner}  left: {stage.left}  beta = {np.round(stage.beta, 4)}")

# the flow itself, from starts of 1e-8 and 1e-32, at rescaled times t / log(1/alpha)
times = np.linspace(0.0, 8.9, 300)
trace = diagonal_flow.reduced_flow(loss, example.u, example.v, scales=[1e-8, 1e-32], times=times)
limit = greedy_ranks.staircase(stages, times)
print("mean |loss - staircase|:", np.round(np.abs(trace.loss - limit.loss).mean("time").values, 4))

# do the assumptions hold? 4.3 and 4.4, and whether the stages can be distinguished at 1e-32
findings = assumptions.non_degeneracy(stages, example.u, example.v, scale=1e-32)
findings += [assumptions.strict_minimum(loss, stage) for stage in stages]
print("violated:", [finding.name for finding in findings if not finding.holds])

# the stages of any recorded curve, with uncertainties
curve = trace.loss.sel(scale=1e-32).values
for jump in curves.jumps(curve, times, smallest=0.01):
    print(f"jump at {jump.time:.2f} ± {jump.uncertainty:.2f}, half done at {jump.half:.2f}")
for i, stretches in enumerate(curves.switches(trace["product"].sel(scale=1e-32).values, times)):
    print(f"|entry {i}| > 1e-3:", [(f"{one.on:.2f} to {one.off:.2f}", f"sign {one.sign:+d}") for one in stretches])

# an attention head: teacher and student of Appendix A, small
head = toy_head(seed=0, dim=4, tokens=3, samples=100)
network, x = AttentionHead(4), jnp.asarray(head.x)
y = jax.vmap(lambda one: network(one, jnp.asarray(head.teacher)))(x)
task = DiagonalRegression(network, x, y)
first = greedy_ranks.greedy_stages(task, network.size, until=2.0)
print("learned first:", [("KQ", "VO")[stage.winner // 4] + f" {stage.winner % 4}" for stage in first[1:]])
