"""The long-run behavior of a map over a grid of learning rates (or other settings), as one array program.

The grid is one axis of one compiled loop. Nothing is recorded before the last steps, and small states take several
steps per iteration of the loop: two thousand rates by twenty thousand steps of a scalar map take a fraction of a
second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, PyTree

from dynascope import checks
from dynascope.curves.orbits import PERIODS, period
from dynascope.geometry.orbits import has_diverged

SettingRule = Callable[[Any, Any], Any]
"""rule(state, setting) -> state; a setting is a learning rate, or a pytree of numbers."""

UNROLL, SMALL = 16, 4
"""Steps per iteration of the loop, and the largest state for which it is unrolled: larger ones are slower that way."""
STEPS = 2**31 - 1
"""Steps are counted in 32 bits."""


class Bifurcation(NamedTuple):
    """The last iterates at every setting: for each leaf of the observed state an array `(setting, *its axes, step)`."""

    settings: PyTree
    """The settings that were given."""
    iterates: PyTree
    """The observed values at the last steps."""
    burn_in: int
    """The number of steps before them."""

    def periods(self, tolerance: float = 1e-7) -> Int[np.ndarray, " ..."]:
        """Find the period at every setting, for one observed array.

        Args:
            tolerance: The relative distance up to which two iterates are the same.

        Returns:
            The periods, 0 if there is none.
        """
        kept = np.asarray(checks.array("iterates", self.iterates, min_ndim=2))
        return period(kept, tolerance=tolerance, periods=tuple(p for p in PERIODS if 2 * p <= kept.shape[-1]))


def _itself(state: Any) -> Any:
    return state


def bifurcation(
    rule: SettingRule,
    settings: PyTree,
    initial: PyTree,
    *,
    burn_in: int = 20_000,
    keep: int = 64,
    observe: Callable[[Any], Any] = _itself,
) -> Bifurcation:
    """Iterate `state <- rule(state, setting)` for every setting, and keep the last steps.

    Compiled once for a function, or for the `step` of any task of the same kind.

    Args:
        rule: Maps a state and a setting to the next state.
        settings: An array of rates `(setting,)`, or a pytree of arrays with a common first axis.
        initial: The state at the start, the same for all settings.
        burn_in: Steps to take before any is kept.
        keep: Steps to keep.
        observe: A function of the state, whose values are kept. Default: the state.

    Returns:
        The iterates; they are not finite at settings that diverge.
    """
    checks.function("observe", observe, "observe(state)")
    checks.whole("burn_in", burn_in, at_least=0, at_most=STEPS)
    checks.whole("keep", keep, at_least=1, at_most=STEPS)
    settings, started = _checked(rule, settings, "initial", initial)
    started = _check_rule(rule, settings, started)
    kept = _orbits(rule, observe, settings, started, jnp.asarray(burn_in, jnp.int32), keep)
    return Bifurcation(settings, kept, burn_in)


@eqx.filter_jit
def _orbits(
    rule: SettingRule, observe: Callable, settings: PyTree, initial: PyTree, burn_in: Int[Array, ""], keep: int
) -> PyTree:
    state = _copies(initial, _count(settings))
    step = jax.vmap(rule)
    at_once = UNROLL if sum(leaf.size for leaf in jax.tree.leaves(initial)) <= SMALL else 1
    turns = burn_in // at_once
    state = lax.fori_loop(0, turns, lambda _, s: _several(step, s, settings, at_once), state)
    state = lax.fori_loop(0, burn_in - turns * at_once, lambda _, s: step(s, settings), state)

    def record(state: PyTree, _: None) -> tuple[PyTree, PyTree]:
        there = step(state, settings)
        return there, jax.vmap(observe)(there)

    _, kept = lax.scan(record, state, None, length=keep)
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), kept)


def _several(step: Callable, state: PyTree, settings: PyTree, count: int) -> PyTree:
    for _ in range(count):
        state = step(state, settings)
    return state


def escape_times(
    rule: SettingRule, settings: PyTree, starts: PyTree, *, steps: int, bound: float = 1e3
) -> Int[Array, " setting"]:
    """Find when the iteration of a map diverges, for every cell of a map of divergence, flattened.

    Args:
        rule: Maps a state and a setting to the next state.
        settings: Arrays with a common first axis.
        starts: The states at the start, with the same first axis.
        steps: Number of steps.
        bound: A state with a larger entry has diverged.

    Returns:
        The first step `(setting,)` at which some entry is not finite or larger than `bound`; -1 if there is none.
    """
    checks.whole("steps", steps, at_least=0, at_most=STEPS)
    checks.real("bound", bound, above=0)
    settings, started = _checked(rule, settings, "starts", starts)
    checks.rows(settings=settings, starts=started)
    started = _check_rule(rule, settings, started, lambda leaf: leaf[0])
    return _escapes(rule, settings, started, jnp.asarray(steps, jnp.int32), bound)


def _checked(rule: SettingRule, settings: PyTree, name: str, states: PyTree) -> tuple[PyTree, PyTree]:
    """The settings and the states as arrays."""
    checks.function("rule", rule, "rule(state, setting)")
    checks.rows(settings=settings)
    if not jax.tree.leaves(states):
        raise TypeError(f"{name} must hold arrays; got {checks.shown(states)}")
    arrays = jax.tree.map(lambda leaf: checks.jax_array(name, leaf), states)
    return checks.numbers("settings", settings), arrays


def _check_rule(
    rule: SettingRule, settings: PyTree, states: PyTree, one: Callable[[Array], Array] = lambda leaf: leaf
) -> PyTree:
    """The states, with integers as real numbers if the rule turns them into real numbers. The rule must keep the shapes
    of `one`."""
    state = jax.tree.map(one, states)
    there = jax.eval_shape(rule, state, jax.tree.map(lambda leaf: leaf[0], settings))
    before, after = ([leaf.shape for leaf in jax.tree.leaves(tree)] for tree in (state, there))
    if before != after or jax.tree.structure(state) != jax.tree.structure(there):
        raise ValueError(f"rule must return a state of the same shapes, {before}, for one of the settings; got {after}")
    integer = jnp.signedinteger
    return jax.tree.map(
        lambda leaf, new: leaf.astype(new.dtype) if jnp.issubdtype(leaf.dtype, integer) else leaf, states, there
    )


@eqx.filter_jit
def _escapes(rule: SettingRule, settings: PyTree, starts: PyTree, steps: Int[Array, ""], bound: float) -> Array:
    def one(t: Array, state: PyTree, escaped: Array, setting: PyTree) -> tuple[PyTree, Array]:
        there = rule(state, setting)
        out = has_diverged(there, bound) & (escaped < 0)
        # a diverged member keeps its last state: no overflow, no slow arithmetic with NaN
        held = jax.tree.map(lambda new, old: jnp.where(out | (escaped >= 0), old, new), there, state)
        return held, jnp.where(out, t + 1, escaped)

    def step(t: Array, carry: tuple[PyTree, Array]) -> tuple[PyTree, Array]:
        return jax.vmap(partial(one, t))(*carry, settings)

    never = jnp.full(_count(settings), -1, jnp.int32)
    return lax.fori_loop(jnp.zeros_like(steps), steps, step, (starts, never))[1]


def _count(settings: PyTree) -> int:
    return jax.tree.leaves(settings)[0].shape[0]


def _copies(initial: PyTree, count: int) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), initial)
