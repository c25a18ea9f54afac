"""Learning rates that react, cycle or step, as optax transformations whose state a probe can read.

Each turns gradients into steps, -rate x gradient (or -rate x the update from earlier in an optax chain), and keeps in
its state the rate of the last step, under the name `learning_rate`: `probes.learning_rate()` records it. At the start
that is the rate of the first step.

The controller `catapults` is that of "Toward Understanding the Dynamics of Over-parameterized Neural Networks",
Section 4.4, where the rate is raised above the critical one again after each catapult; fixed lists of iterations and
rates, as printed there, depend on the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from dynascope import checks

Real = float | int | Float[Array, ""]
Schedule = Callable[[Array], Array]

WARM, RAISED, SETTLED, GAVE_UP = range(4)
"""Phases of the controller: below the critical rate before a catapult; above it; done; done without the last one."""


class ScheduleState(NamedTuple):
    """The state of a rate that follows a schedule."""

    learning_rate: Float[Array, ""]
    steps: Int[Array, ""]


class CatapultState(NamedTuple):
    """The state of the controller; each a scalar."""

    learning_rate: Float[Array, ""]
    phase: Int[Array, ""]
    catapults: Int[Array, ""]
    """How many are complete."""
    since: Int[Array, ""]
    """Steps taken in this phase."""
    before: Float[Array, ""]
    """The loss at which the rate was last raised."""
    peak: Float[Array, ""]
    """The largest loss since then."""


def scheduled(schedule: Schedule) -> optax.GradientTransformationExtraArgs:
    """Steps at the rate `schedule(steps taken)`: one of this file, or any of optax."""
    checks.function("schedule", schedule, "schedule(steps)")

    def rate(steps: Array) -> Array:
        return jnp.asarray(schedule(steps), jnp.result_type(float))

    def init(params: PyTree) -> ScheduleState:
        start = jnp.zeros((), jnp.int32)
        return ScheduleState(rate(start), start)

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra: Any) -> tuple[PyTree, ScheduleState]:
        now = rate(state.steps)
        return _scaled(updates, now), ScheduleState(now, state.steps + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def cyclic(low: Real, high: Real, period: int | Int[Array, ""]) -> Schedule:
    """A triangular wave: `low` at 0, `high` half a period later, `low` again at `period`."""
    checks.real("low", low, at_least=0)
    checks.real("high", high, at_least=0)
    checks.whole("period", period, at_least=1)

    def schedule(steps: Array) -> Array:
        number = jnp.result_type(float)
        phase = (steps % period).astype(number) / jnp.asarray(period, number)
        return low + (high - low) * (1 - jnp.abs(2 * phase - 1))

    return schedule


def piecewise(rates: Sequence[float] | Float[Array, " k"], at: Sequence[int] | Int[Array, " l"]) -> Schedule:
    """`rates[0]` until step `at[0]`, from that step on `rates[1]`, and so on: one rate more than steps."""
    given, steps_at = checks.array("rates", rates, ndim=1), checks.array("at", at, ndim=1, empty=True)
    if len(given) != len(steps_at) + 1:
        raise ValueError(f"rates must be one more than the steps in `at`, {len(steps_at)}; got {len(given)}")
    if not isinstance(at, Array) and ([checks.whole("at", step, at_least=0) for step in steps_at] != sorted(steps_at)):
        raise ValueError(f"at must increase; got {checks.shown(at)}")

    def schedule(steps: Array) -> Array:
        return jnp.asarray(rates)[jnp.sum(steps >= jnp.asarray(at, jnp.int32))]

    return schedule


def decay(rate: Real, factor: Real, every: int | Int[Array, ""]) -> Schedule:
    """`rate`, multiplied by `factor` after each `every` steps."""
    checks.real("rate", rate, at_least=0)
    checks.real("factor", factor, at_least=0)
    checks.whole("every", every, at_least=1)

    def schedule(steps: Array) -> Array:
        return rate * factor ** (steps // every).astype(jnp.result_type(float))

    return schedule


def catapults(
    critical_rate: Callable[[PyTree], Float[Array, ""]],
    count: int | Int[Array, ""],
    *,
    factor: Real = 1.4,
    warm: int = 30,
    refresh: int = 10,
    rise: float = 1.5,
    patience: int = 200,
) -> optax.GradientTransformationExtraArgs:
    """Gradient descent that goes through `count` catapults, one after the other, and then settles.

    1. At half the critical rate for `warm` steps. 2. Note the loss and raise the rate to `factor` times the critical
    one. 3. The catapult is complete when the loss has been above `rise` times the noted one and is below it again.
    4. Start over; after the last one, stay at half the critical rate. 5. If there is no such peak within `patience`
    steps, give up and settle.

    `critical_rate(parameters)` is evaluated every `refresh` steps and when the phase changes. `count = 0` is gradient
    descent at half the critical rate. Needs the loss, which `descend` gives to every optimizer.
    """
    checks.function("critical_rate", critical_rate, "critical_rate(parameters)")
    checks.whole("count", count, at_least=0)
    for name, steps, least in (("warm", warm, 0), ("refresh", refresh, 1), ("patience", patience, 1)):
        checks.whole(name, steps, at_least=least)
    for name, value in (("factor", factor), ("rise", rise)):
        checks.real(name, value, above=0)

    def init(params: PyTree) -> CatapultState:
        half = critical_rate(params) / 2
        zero, none = jnp.zeros((), jnp.int32), jnp.zeros_like(half)
        phase = jnp.where(jnp.asarray(count) > 0, WARM, SETTLED).astype(jnp.int32)
        return CatapultState(half, phase, zero, zero, none, none)

    def update(updates: PyTree, state: Any, params: PyTree = None, **extra: Any) -> tuple[PyTree, CatapultState]:
        value = extra["value"].astype(state.before.dtype)
        peak = jnp.maximum(state.peak, value)
        raised = state.phase == RAISED
        flew = peak > rise * state.before
        landed = raised & flew & (value < state.before)
        gives_up = raised & ~flew & (state.since >= patience)
        raises = (state.phase == WARM) & (state.since >= warm)

        done = state.catapults + landed.astype(jnp.int32)
        after = jnp.where(done < jnp.asarray(count), WARM, SETTLED)
        phase = jnp.where(landed, after, jnp.where(gives_up, GAVE_UP, jnp.where(raises, RAISED, state.phase)))
        changes = landed | gives_up | raises
        since = jnp.where(changes, 0, state.since)
        anew = changes | ((phase != RAISED) & (since > 0) & (since % refresh == 0))
        share = jnp.where(phase == RAISED, jnp.asarray(factor, state.learning_rate.dtype), 0.5)
        rate = when(anew, lambda: share * critical_rate(params), state.learning_rate)
        new = CatapultState(
            rate,
            phase.astype(jnp.int32),
            done,
            (since + 1).astype(jnp.int32),
            jnp.where(raises, value, state.before),
            jnp.where(raises, value, peak),
        )
        return _scaled(updates, rate), new

    return optax.GradientTransformationExtraArgs(init, update)


def when(condition: Array, function: Callable[[], Array], otherwise: Array) -> Array:
    """`function()` if the condition holds, evaluated only then.

    `lax.cond` does the same until it is batched; then both its branches are always evaluated. A loop that runs once or
    not at all is entered only if some member needs it, batched or not.
    """

    def once(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        return jnp.zeros_like(carry[0]), function().astype(otherwise.dtype)

    return lax.while_loop(lambda carry: carry[0], once, (condition, otherwise))[1]


OPTIMIZERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "gd": optax.sgd,
    "sgd": optax.sgd,
    "momentum": lambda rate: optax.sgd(rate, momentum=0.9),
    "rmsprop": lambda rate: optax.rmsprop(rate, decay=0.99, eps=1e-8, eps_in_sqrt=False),
    "adagrad": lambda rate: optax.adagrad(rate, initial_accumulator_value=0.0, eps=1e-20),
    "adadelta": lambda rate: optax.adadelta(rate, rho=0.9, eps=1e-6),
    "adam": lambda rate: optax.adam(rate, b1=0.9, b2=0.999, eps=1e-8),
}
"""The optimizers of Figure 4.11, with PyTorch's default constants (momentum: 0.9). "gd" and "sgd" differ only in the
data: all of it, or batches."""


def optimizer(name: str, learning_rate: Real) -> optax.GradientTransformation:
    """One of `OPTIMIZERS` by name."""
    checks.real("learning_rate", learning_rate, at_least=0)
    return OPTIMIZERS[checks.one_of("name", name, OPTIMIZERS)](learning_rate)


def _scaled(updates: PyTree, rate: Array) -> PyTree:
    return jax.tree.map(lambda update: -rate.astype(update.dtype) * update, updates)
