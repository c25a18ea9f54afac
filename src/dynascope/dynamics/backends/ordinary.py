"""The interface of a backend, and the ordinary one: the process takes its steps by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from jaxtyping import Array

from dynascope.dynamics.process import Process, State


class Backend(ABC):
    """Advances a member from one recording to the next. Hashable: a compiled program depends on it."""

    description: str
    """One line for the trace's attribute `loop`."""

    @abstractmethod
    def advance(self, process: Process[State], state: State, now: Array, until: Array) -> State:
        """The state at `until`, from the one at `now`, for one member; `jax.vmap` makes it many."""


@dataclass(frozen=True)
class Ordinary(Backend):
    """The process's own loop, which XLA compiles."""

    description: str = field(default="ordinary", compare=False)
    """The line for the attribute `loop`, with the reason why no other backend is used."""

    def advance(self, process: Process[State], state: State, now: Array, until: Array) -> State:
        return process.advance(state, now, until)
