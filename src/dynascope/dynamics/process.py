"""What the loop runs: an objective, a start, a rule that moves the state on, what probes may see of it, and who
monitors it."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.dynamics.watching import Recording, Rows, Wanted
from dynascope.probes.probe import Probe, Snapshot, as_probe
from dynascope.tasks.task import DataTask, PopulationTask, SampledTask, Task, VelocityTask


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


class SteppedProcess(Process):
    """A process in steps. Each draws what it needs by its number alone, reads rows of a source, changes the state.

    These can run apart: a kernel that takes many steps is given what was drawn for all of them, and reads the rows.
    """

    @abstractmethod
    def drawn(self, t: Any) -> PyTree:
        """What step t takes besides the state: numbers of the source's rows, where there is one; a batch; or None."""

    def source(self) -> PyTree:
        """Arrays of which a step reads the rows that were drawn; None where it reads none."""
        return None

    def read(self, drawn: PyTree) -> PyTree:
        """The rows of the source that were drawn."""
        return jax.tree.map(lambda leaf: leaf[drawn], self.source())

    @abstractmethod
    def step(self, t: Any, state: Any, drawn: PyTree, rows: PyTree) -> Any:
        """The state after step t, of what was drawn and the rows that were read."""

    def settled(self, state: Any, last: Any) -> Any:
        """The state as `advance` leaves it after step `last`, where that holds more than steps change."""
        return state


def named_probes(probes: Mapping[str, Probe | Callable] | None, usual: Mapping[str, Probe]) -> dict[str, Probe]:
    """The probes by name, plain functions of the model made into probes; the usual ones where None are given."""
    if not isinstance(probes, Mapping | None):
        raise TypeError(f"probes must be a dict of probes by name; got {checks.shown(probes)}")
    if any(not isinstance(name, str) for name in probes or {}):
        raise TypeError(f"probes must be named by strings; got {checks.shown(list(probes or {}))}")
    return {name: as_probe(thing, name) for name, thing in (usual if probes is None else probes).items()}


class Objective(eqx.Module):
    """The loss that a process moves on: a task with the data it is evaluated on, as a function of the model alone."""

    task: Any
    data: PyTree
    batch: int | None
    key: PRNGKeyArray | None

    def __init__(
        self,
        task: Any,
        model: PyTree,
        *,
        data: PyTree = None,
        batch: int | None = None,
        key: PRNGKeyArray | None = None,
    ) -> None:
        if data is not None:
            checks.rows(data=data)
        if batch is not None:
            batch = self._check_batch(task, data, batch, key)
        elif key is not None:
            checks.key("key", key)
        if isinstance(task, Task):
            needed = PopulationTask if data is None and batch is None else DataTask
            if not isinstance(task, needed | VelocityTask):
                name, has = type(task).__name__, isinstance(task, DataTask)
                raise TypeError(f"{name} has no {'population loss: give data=' if has else 'loss(model, batch)'}")
        elif not callable(task):
            got = checks.shown(task)
            raise TypeError(f"task must be a task or a function loss(model) or loss(model, batch); got {got}")
        else:
            self._check_arguments(task, model, data is not None or batch is not None)
        self.task, self.data, self.batch, self.key = task, data, batch, key

    def __call__(self, model: PyTree) -> Array:
        """The loss on the data, on the population, or on one fixed sample where the task can only sample."""
        if self.data is not None:
            return self.on(model, self.data)
        if isinstance(self.task, PopulationTask):
            return self.task.population_loss(model)
        if self.batch is not None:
            return self.on(model, self.task.sample(self.key, self.batch))
        if isinstance(self.task, Task):
            raise TypeError(f"{type(self.task).__name__} has no loss; use flow, with probes that need none")
        return self.task(model)

    def on(self, model: PyTree, batch: PyTree) -> Array:
        """The loss on one batch."""
        return self.task.loss(model, batch) if isinstance(self.task, DataTask) else self.task(model, batch)

    def check(self, model: PyTree) -> None:
        """Evaluate it abstractly: its value must be one real number, an array that depends on arrays."""
        try:
            drawn = self.data is None and self.batch is not None  # what a step takes, not the population
            value = self.on(model, self.task.sample(self.key, self.batch)) if drawn else self(model)
        except jax.errors.ConcretizationTypeError:
            raise TypeError("the loss must be made of JAX operations; it turns an array into a Python number") from None
        if not isinstance(value, jax.Array):
            raise TypeError(f"the loss must return a JAX array; got {checks.shown(value)} of {type(value).__name__}")
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise TypeError(f"the loss must return one real number, shape (); got {value.shape} of {value.dtype}")

    @staticmethod
    def _check_batch(task: Any, data: PyTree, batch: Any, key: Any) -> int:
        most = None if data is None else checks.rows(data=data)
        batch = checks.whole("batch", batch, at_least=1, at_most=most)
        if key is None:
            raise ValueError("batches are drawn at random: give key=, such as jax.random.key(0)")
        checks.key("key", key)
        if data is None and not isinstance(task, SampledTask):
            raise ValueError("a batch without data needs a SampledTask, which has sample(key, count); or give data=")
        return batch

    @staticmethod
    def _check_arguments(task: Any, model: PyTree, with_batch: bool) -> None:
        """A plain function takes (model), or (model, batch) where there is data."""
        try:
            signature = inspect.signature(task)
        except (TypeError, ValueError):  # a builtin without a signature
            return
        try:
            signature.bind(*((model, None) if with_batch else (model,)))
        except TypeError:
            wanted = (
                "loss(model, batch), since data= is given" if with_batch else "loss(model), since data= is not given"
            )
            raise TypeError(f"the task is called as {wanted}, but it takes {signature}") from None


def check_model(model: PyTree) -> None:
    """A model has something to train."""
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    if not leaves or sum(leaf.size for leaf in leaves) == 0:
        raise ValueError(f"the model has no floating-point arrays to train; got {checks.shown(model)}")


class Monitor:
    """Hears of progress and keeps checkpoints. This one sees nothing and keeps nothing; the lab's own does both."""

    keep_every: float = math.inf
    """Seconds between two calls of `keep`; infinite for a monitor that keeps nothing."""
    watch_every: float = math.inf
    """Seconds between two calls of `watched`; the compiled loop pauses as often."""
    _runs: int = 0

    def next_name(self) -> str:
        """The name of the run that begins now: runs are numbered in the order they are started."""
        self._runs += 1
        return f"{self._runs:03d}"

    def progress(self, done: float, total: float, what: str) -> None:
        """`done` of `total` member-steps (or units of flow time) of `what` are behind us."""

    def kept_names(self) -> Iterable[str]:
        """The names under which something is kept. Only a monitor that tells them lets an ensemble go on in other
        batches, as it needs to on another number of devices."""
        return ()

    def restore(self, name: str) -> Mapping[str, np.ndarray] | None:
        """What `keep` last received under this name, or None."""
        return None

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep these arrays under this name, replacing what was there, wholly or not at all."""

    def watch(self, recording: Recording) -> Mapping[str, Wanted]:
        """A run begins that records this. Which part of it is wanted while it goes on, by the names of variables."""
        return {}

    def watched(self, found: Sequence[Rows]) -> None:
        """What was recorded of the wanted part since the last call."""


_current: ContextVar[Monitor | None] = ContextVar("dynascope_monitor", default=None)


def current_monitor() -> Monitor:
    """The monitor in force, or one that does nothing."""
    return _current.get() or Monitor()


@contextmanager
def monitored_by(monitor: Monitor) -> Iterator[Monitor]:
    """Let `monitor` see every run started inside the block."""
    token = _current.set(monitor)
    try:
        yield monitor
    finally:
        _current.reset(token)
