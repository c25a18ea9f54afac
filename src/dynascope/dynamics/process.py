"""What the loop runs: a start, a rule that moves the state on, and what probes may see of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax

from dynascope.probes.probe import Probe, Snapshot


class Process(eqx.Module):
    """One learner and how it moves. `Descent`, `Flow` and `Map` are the kinds there are.

    All methods run inside a compiled program. The state is a pytree of arrays (no PRNG keys: derive those from the
    step), since it is what a checkpoint keeps.
    """

    axis: ClassVar[str] = "step"
    """The name of the recording dimension: `step`, or `time` for a flow."""

    probes: eqx.AbstractVar[Mapping[str, Probe]]

    @abstractmethod
    def start(self) -> Any:
        """The state at 0."""

    @abstractmethod
    def advance(self, state: Any, now: Any, until: Any) -> Any:
        """The state at `until`, from the one at `now`."""

    @abstractmethod
    def snapshot(self, state: Any, now: Any) -> Snapshot:
        """What probes see."""

    @abstractmethod
    def diverged_at(self, state: Any) -> Any:
        """The step (time) at which the learner was first found not finite; -1 if it never was."""

    def work(self, state: Any) -> int:
        """About how many multiplications a step costs: it decides if members run side by side on a CPU."""
        return sum(leaf.size for leaf in jax.tree.leaves(state))
