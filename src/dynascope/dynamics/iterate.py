"""A reduced map, iterated: x, f(x), f(f(x)), ..."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from dynascope import checks
from dynascope.dynamics.ensemble import run_single
from dynascope.dynamics.process import SteppedProcess
from dynascope.dynamics.schedule import Record
from dynascope.dynamics.stopping import Stop
from dynascope.dynamics.trajectory import Trajectory
from dynascope.probes.probe import Probe, Probes, Snapshot, as_probe, name_probes


def _no_loss(model: PyTree) -> Array:
    raise TypeError("a map has no loss of its own; give iterate(..., loss=...) to use probes that need one")


MapState = tuple[PyTree, Array]
"""The state of the map, and the step at which it diverged."""


class Map(SteppedProcess[MapState]):
    """`state <- rule(state)`.

    Args:
        rule: Maps a state to the next one, of the same shapes and types.
        initial: The state at step 0: an array, or a pytree of arrays.
        probes: Quantities to record, by name: probes, or functions of the state. Default: the state itself, as
            `state` (an array) or by its names (a mapping).
        loss: A function of the state, for probes that need a loss.
    """

    rule: Callable[[PyTree], PyTree]
    initial: PyTree
    probes: Mapping[str, Probe]
    loss: Callable[[PyTree], Array]

    def __init__(
        self,
        rule: Callable[[PyTree], PyTree],
        initial: PyTree,
        *,
        probes: Probes | None = None,
        loss: Callable[[PyTree], Array] = _no_loss,
    ) -> None:
        self.rule, self.loss = (
            checks.function("rule", rule, "rule(state)"),
            checks.function("loss", loss, "loss(state)"),
        )
        self.initial = checks.numbers("initial", initial)
        if not jax.tree.leaves(self.initial):
            raise ValueError(f"initial must hold numbers or arrays; got {checks.shown(initial)}")
        self.initial = _as_made(rule, self.initial)
        names = initial if isinstance(initial, Mapping) else {"state": None}
        usual = {name: as_probe(_part(name if isinstance(initial, Mapping) else None)) for name in names}
        self.probes = name_probes(usual if probes is None else probes)

    def check(self) -> None:
        there = self.rule(self.initial)
        if any(not isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(there)):
            raise TypeError(f"rule must return JAX arrays; got {checks.shown(there)}")
        shapes = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) for state in (self.initial, there)]
        if shapes[0] != shapes[1]:
            raise TypeError(f"rule must return a state like the one it is given; got {checks.shown(shapes[1])}")

    def start(self) -> MapState:
        return self.initial, jnp.asarray(-1, jnp.int32)

    def advance(self, state: MapState, now: Array, until: Array) -> MapState:
        return lax.fori_loop(now, until, lambda t, state: self.step(t, state, None, None), state)

    def draw(self, t: Array) -> None:
        return None

    def step(self, t: Array, state: MapState, draw: None, rows: None) -> MapState:
        here, diverged_at = state
        there = self.rule(here)
        finite = functools.reduce(jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(there)])
        return there, jnp.where(~finite & (diverged_at < 0), t + 1, diverged_at)

    def snapshot(self, state: MapState, now: Array) -> Snapshot:
        return Snapshot(state[0], now, self.loss)

    def diverged_at(self, state: MapState) -> Array:
        return state[1]


def _as_made(rule: Callable[[PyTree], PyTree], state: PyTree) -> PyTree:
    """The state, with integers as real numbers if the rule makes such of them."""
    if not any(_is_integer(leaf) for leaf in jax.tree.leaves(state)):
        return state
    there = jax.eval_shape(rule, state)
    if jax.tree.structure(there) != jax.tree.structure(state):
        return state
    return jax.tree.map(lambda leaf, new: leaf.astype(new.dtype) if _is_integer(leaf) else leaf, state, there)


def _is_integer(leaf: Array) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jnp.signedinteger))


def _part(name: str | None) -> Callable[[PyTree], Array]:
    return eqx.Partial(lambda state: state if name is None else state[name])


def iterate(
    rule: Callable[[PyTree], PyTree],
    initial: PyTree,
    *,
    steps: int,
    probes: Probes | None = None,
    record: Record = None,
    loss: Callable[[PyTree], Array] = _no_loss,
    stop: Stop = None,
) -> Trajectory:
    """Iterate a map.

    Args:
        rule: Maps a state to the next one, of the same shapes and types.
        initial: The state at step 0: an array, or a pytree of arrays.
        steps: Number of steps.
        probes: Quantities to record, by name: probes, or functions of the state. Default: the state itself.
        record: Record every `record`-th step, or exactly the listed steps. Default: about 1,000 recordings.
        loss: A function of the state, for probes that need a loss.
        stop: Ends the run at the first recording at which it is true.

    Returns:
        The trajectory, with the trace of the probes; its `model` is the last state.
    """
    return run_single(Map(rule, initial, probes=probes, loss=loss), steps=steps, record=record, stop=stop)
