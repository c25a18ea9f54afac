"""What a probe is: a pure function of the learner at one moment, run inside the compiled loop at its own cadence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree


class Batch(NamedTuple):
    """What one step's gradient is taken of."""

    rows: Any
    """Which rows of the data; None where it is all of them, or a fresh sample."""
    data: Any
    """Those rows; None where the loss needs no data."""


def _no_batch() -> Batch:
    return Batch(None, None)


class Snapshot(NamedTuple):
    """What a probe sees."""

    model: PyTree
    """The parameters: a callable module, or any pytree of arrays."""
    step: Any
    """The number of steps taken, or the time of a flow."""
    loss: Callable[[PyTree], Any]
    """The objective as a function of the model, on all the data (not on a minibatch)."""
    optimizer: Any = None
    """A descent's memory of its optimizer, as it is after the last step; None for what has no optimizer."""
    batch: Callable[[], Batch] = _no_batch
    """The batch of the step to come, drawn when it is called."""


Dims = tuple[str, ...]
Names = Mapping[str, Dims]
Every = int | Sequence[int] | None
"""A cadence: every so many steps, or exactly these; None follows the run's."""


def _remember_nothing(snapshot: Snapshot) -> None:
    return None


@dataclass(frozen=True, eq=False)
class Probe:
    """A measurement.

    `measure(snapshot, memory)` returns `(value, memory)`. A value is an array or a mapping of arrays: its entry `value`
    goes into the trace under the probe's name, the others become `<probe>_<entry>`, so that an estimate can carry its
    uncertainty. `remember(snapshot)` makes the memory at the start: for warm starts, or for what the start was.
    """

    measure: Callable[[Snapshot, Any], tuple[Any, Any]]
    dims: Dims | Names = ()
    """Names of the value's own dimensions; one tuple for each entry where the value is a mapping."""
    coords: Mapping[str, Sequence[Any] | np.ndarray] = field(default_factory=dict)
    """Labels along those dimensions."""
    every: Every = None
    """Its own cadence: every so many steps, or exactly these; None follows the run's."""
    remember: Callable[[Snapshot], Any] = _remember_nothing


def probe(
    function: Callable[[Snapshot], Any],
    dims: Dims | Names = (),
    coords: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
    every: Every = None,
) -> Probe:
    """A probe without memory, from a function of the moment."""
    return Probe(lambda moment, memory: (function(snapshot), memory), dims, coords or {}, every)


def as_probe(thing: Probe | Callable[[PyTree], Any]) -> Probe:
    """A probe as it is; a plain function is taken as a function of the model."""
    if isinstance(thing, Probe):
        return thing
    return probe(lambda moment: thing(snapshot.model))
