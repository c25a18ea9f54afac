"""Probes: pure functions of a snapshot of the run, called inside the compiled loop at their own cadence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Array, PyTree

from dynascope import checks


class Batch(NamedTuple):
    """The data of one step's gradient."""

    rows: Array | None
    """The rows of the data; None if it is all of them, or a fresh sample."""
    data: PyTree
    """Those rows; None if the loss needs no data."""


def _no_batch() -> Batch:
    return Batch(None, None)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a run, as a probe sees it."""

    model: PyTree
    """The parameters: a callable module, or any pytree of arrays."""
    step: Array | float
    """The number of steps taken, or the time of a flow."""
    objective: Callable[[PyTree], Array]
    """The loss as a function of the model, on all the data (not on a minibatch)."""
    optimizer: PyTree = None
    """The state of a descent's optimizer after the last step; None if there is no optimizer."""
    batch: Callable[[], Batch] = _no_batch
    """Draws the batch of the next step when called."""
    data: PyTree = None
    """The data that the objective is evaluated on, one row for each example; None if there is none."""
    loss_on: Callable[[PyTree, PyTree], Array] | None = None
    """`loss_on(model, rows)`: the loss on some rows of the data; None if the loss takes no data."""

    def loss(self, model: PyTree = None) -> Array:
        """Evaluate the objective on all the data.

        Args:
            model: The model to evaluate. Default: that of the snapshot.

        Returns:
            The loss, a scalar.
        """
        return self.objective(self.model if model is None else model)


Value = Array | Mapping[str, Array]
"""The return value of a probe: an array, or several by name."""
Memory = TypeVar("Memory")
"""The state that a probe carries from one recording to the next."""
Dims = tuple[str, ...]
Coords = Mapping[str, Sequence[Any] | np.ndarray]
Names = Mapping[str, Dims]
Every = int | Sequence[int] | np.ndarray | None
"""A cadence: a number of steps, or exactly these steps; None follows the run's."""


def _no_state(snapshot: Any) -> Any:
    return None


@dataclass(frozen=True, eq=False)
class Probe(Generic[Memory]):
    """A measurement, possibly with a state of its own."""

    measure: Callable[[Any, Memory], tuple[Any, Memory]]
    """`measure(snapshot, state)` returns `(value, state)`; the snapshot is a `Snapshot` or, in PyTorch, a
    `torch.Snapshot`. A value is an array of any shape, or a mapping of arrays: its entry `value` goes into the trace
    under the probe's name, the others become `<probe>_<entry>`, so that an estimate can carry its uncertainty."""
    dims: Dims | Names = ()
    """Names of the value's own dimensions; a mapping of entries to names if the value is a mapping."""
    coords: Coords | Callable[[Any], Coords] = field(default_factory=dict)
    """Labels along those dimensions; a function of the snapshot, if they are known from the model only."""
    every: Every = None
    """The cadence: a number of steps, or exactly the listed steps. None follows the run's."""
    initial_state: Callable[[Any], Memory] = _no_state
    """Makes the state at the start of the run: for a search that continues from the last recording, or to keep the
    first model."""

    def __post_init__(self) -> None:
        checks.function("measure", self.measure, "measure(snapshot, state)")
        checks.function("initial_state", self.initial_state, "initial_state(snapshot)")
        for names in self.dims.values() if isinstance(self.dims, Mapping) else (self.dims,):
            if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
                raise TypeError(f"dims must be a tuple of names, one for each axis; got {checks.shown(names)}")
        if not isinstance(self.coords, Mapping) and not callable(self.coords):
            raise TypeError(f"coords must map names of dimensions to labels; got {checks.shown(self.coords)}")
        _check_cadence(self.every)


def _check_cadence(every: Every) -> None:
    if every is None:
        return
    if np.ndim(np.asarray(every, object)) == 0:
        checks.whole("every", every, at_least=1)
    elif len(steps := checks.array("every", every, ndim=1)) != len(
        {checks.whole("every", s, at_least=0) for s in steps}
    ):
        raise ValueError(f"every must list distinct steps; got {checks.shown(every)}")


def probe(
    function: Callable[[Any], Any],
    dims: Dims | Names = (),
    *,
    coords: Coords | Callable[[Any], Coords] | None = None,
    every: Every = None,
) -> Probe:
    """A probe without a state.

    Args:
        function: From the snapshot to an array of any shape, or to a mapping of arrays; see `Probe`.
        dims: Names of the value's own dimensions; a mapping of entries to names if the value is a mapping.
        coords: Labels along those dimensions, or a function of the snapshot that gives them.
        every: The cadence, in steps; see `Probe`.

    Returns:
        The probe.
    """
    checks.function("function", function, "function(snapshot)")
    return Probe(lambda snapshot, state: (function(snapshot), state), dims, {} if coords is None else coords, every)


def as_probe(thing: Probe | Callable[[PyTree], Value], name: str = "") -> Probe:
    """A probe as it is; a plain function is taken as a function of the model."""
    if isinstance(thing, Probe):
        return thing
    if (home := getattr(thing, "__module__", "") or "").startswith(("dynascope.probes", "dynascope.torch")):
        called = f"{home.split('.')[1]}.{getattr(thing, '__name__', type(thing).__name__)}"
        raise TypeError(f"probe {name!r}: {called} must be called: {called}()")
    if not callable(thing):
        raise TypeError(f"probe {name!r} must be a Probe or a function of the model; got {checks.shown(thing)}")
    return probe(lambda snapshot: thing(snapshot.model))


Probes = Mapping[str, Probe | Callable[[PyTree], Value]]
"""Probes by name; a plain function is a function of the model."""


def name_probes(probes: Probes) -> dict[str, Probe]:
    """Check a user's probes and make plain functions of the model into probes."""
    if not isinstance(probes, Mapping):
        raise TypeError(f"probes must be a dict of probes by name; got {checks.shown(probes)}")
    if any(not isinstance(name, str) for name in probes):
        raise TypeError(f"probes must be named by strings; got {checks.shown(list(probes))}")
    return {name: as_probe(thing, name) for name, thing in probes.items()}
