"""Processes: a start, a rule that advances the state, and the view of the state for probes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from dynascope.probes.probe import Probe, Snapshot

State = TypeVar("State")


class Process(eqx.Module, Generic[State]):
    """A model and how it moves. `Descent`, `Flow`, `Map` and `CentralFlow` are the kinds there are.

    All methods run inside a compiled program. The state is a pytree of arrays: a checkpoint keeps it.
    """

    axis: ClassVar[str] = "step"
    """The name of the recording dimension: `step`, or `time` for a flow."""

    probes: eqx.AbstractVar[Mapping[str, Probe]]

    @abstractmethod
    def start(self) -> State:
        """The state at 0."""

    @abstractmethod
    def advance(self, state: State, now: Array, until: Array) -> State:
        """The state at `until`, from the one at `now`."""

    @abstractmethod
    def snapshot(self, state: State, now: Array) -> Snapshot:
        """The view of the state that probes are given."""

    @abstractmethod
    def diverged_at(self, state: State) -> Array:
        """The step (time) at which the model was first found not finite; -1 if it never was."""

    def check(self) -> None:
        """Raise an error if the process cannot run; called once, on abstract values, before anything is compiled."""

    def work(self, state: State) -> int:
        """The approximate number of multiplications in a step, which decides if members run side by side on a CPU."""
        return sum(leaf.size for leaf in jax.tree.leaves(state))


class SteppedProcess(Process[State]):
    """A process in steps. Each step makes a draw that depends on its number alone, reads rows of a source, and changes
    the state.

    The three can run apart: a kernel that takes many steps is given the draws of all of them, and reads the rows.
    """

    @abstractmethod
    def draw(self, t: Array) -> PyTree:
        """The draw of step t: numbers of the source's rows if there is a source; a batch; or None."""

    def source(self) -> PyTree:
        """Arrays from which a step reads the drawn rows; None if it reads none."""
        return None

    def read(self, draw: PyTree) -> PyTree:
        """The rows of the source that were drawn."""
        return jax.tree.map(lambda leaf: leaf[draw], self.source())

    @abstractmethod
    def step(self, t: Array, state: State, draw: PyTree, rows: PyTree) -> State:
        """The state after step t, from the draw and the rows that were read."""

    def settle(self, state: State, last: Array) -> State:
        """The state as `advance` leaves it after step `last`, if it holds more than steps change."""
        return state
