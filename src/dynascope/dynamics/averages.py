"""A moving average of the weights beside a descent: it does not change the path, and is often the better model."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from dynascope import checks
from dynascope.dynamics.trajectory import Trajectory
from dynascope.probes.probe import Snapshot


class AverageState(NamedTuple):
    """The state of the optimizer that is followed, the average of the trainable arrays, and the number of steps."""

    optimizer: PyTree
    average: PyTree
    steps: Int[Array, ""]


def with_average(
    optimizer: optax.GradientTransformation, decay: float | int | Float[Array, ""]
) -> optax.GradientTransformationExtraArgs:
    """Make an optimizer keep an average of the weights, too; `averaged` returns the model with these weights.

    After t steps it is `sum_k decay^(t-k) w_k / sum_k decay^(t-k)` over the weights w_1, ..., w_t after each step, so
    that it covers about 1 / (1 - decay) of them and never the start.

    Args:
        optimizer: The optimizer that is followed.
        decay: From 0 to below 1.

    Returns:
        The same optimizer with the average in its state. It must be the outermost transformation.
    """
    if not isinstance(optimizer, optax.GradientTransformation):
        got = checks.shown(optimizer)
        raise TypeError(f"optimizer must be an optax transformation, such as optax.sgd(0.1); got {got}")
    checks.real("decay", decay, at_least=0, below=1)
    followed = optax.with_extra_args_support(optimizer)

    def init(params: PyTree) -> AverageState:
        return AverageState(followed.init(params), params, jnp.asarray(0, jnp.int32))

    def update(updates: PyTree, state: PyTree, params: PyTree = None, **extra: Any) -> tuple[PyTree, AverageState]:
        updates, memory = followed.update(updates, state.optimizer, params, **extra)
        count, share = state.steps + 1, jnp.asarray(1 - decay, float)
        weight = share / -jnp.expm1(
            count.astype(share.dtype) * jnp.log1p(-share)
        )  # 1 / (1 + decay + ... + decay^(t-1))

        def moved(average: Array, now: Array) -> Array:
            return average + weight.astype(now.dtype) * (now - average)

        average = jax.tree.map(moved, state.average, optax.apply_updates(params, updates))
        return updates, AverageState(memory, average, count)

    return optax.GradientTransformationExtraArgs(init, update)


def averaged(at: Snapshot | Trajectory) -> PyTree:
    """Take the model with the averaged weights.

    Args:
        at: A probe's snapshot, or the trajectory of a single run, at its end.

    Returns:
        The model, of the type that was given.
    """
    if not isinstance(at, Snapshot | Trajectory):
        raise TypeError(f"at must be a snapshot, or the trajectory that descend returned; got {checks.shown(at)}")
    snapshot = at.snapshot() if isinstance(at, Trajectory) else at
    if not isinstance(snapshot.optimizer, AverageState):
        raise ValueError("no average was kept: descend needs optimizer=with_average(optimizer, decay)")
    return eqx.combine(snapshot.optimizer.average, snapshot.model)
