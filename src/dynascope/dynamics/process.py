"""What the loop runs: a start, a rule that moves the state on, and what probes may see of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax

from dynascope.checks import shown
from dynascope.probes.probe import Probe, Snapshot, as_probe


class Process(eqx.Module):
    """A model and how it moves. `Descent`, `Flow`, `Map` and `CentralFlow` are the kinds there are.

    All methods run inside a compiled program. The state is a pytree of arrays: a checkpoint keeps it.
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
        """The step (time) at which the model was first found not finite; -1 if it never was."""

    def check(self) -> None:
        """Raise where it cannot run; called once, on abstract values, before anything is compiled."""

    def work(self, state: Any) -> int:
        """About how many multiplications a step costs: it decides if members run side by side on a CPU."""
        return sum(leaf.size for leaf in jax.tree.leaves(state))


def named_probes(probes: Mapping[str, Probe | Callable] | None, usual: Mapping[str, Probe]) -> dict[str, Probe]:
    """The probes by name, plain functions of the model made into probes; the usual ones where None are given."""
    if not isinstance(probes, Mapping | None):
        raise TypeError(f"probes must be a dict of probes by name; got {shown(probes)}")
    if any(not isinstance(name, str) for name in probes or {}):
        raise TypeError(f"probes must be named by strings; got {shown(list(probes or {}))}")
    return {name: as_probe(thing, name) for name, thing in (usual if probes is None else probes).items()}
