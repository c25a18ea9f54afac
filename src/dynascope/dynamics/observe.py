"""Probes over models that were trained elsewhere: a list, a generator, or checkpoints on disk."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, PyTree

from dynascope import checks
from dynascope.compilation import ONCE_ON_CPU, SELDOM_ON_CPU, jit_cached
from dynascope.dynamics.convolutions import channels_last
from dynascope.dynamics.monitor import current_monitor
from dynascope.dynamics.objective import Loss, Objective
from dynascope.dynamics.process import Process
from dynascope.dynamics.schema import examine, make_schema
from dynascope.probes.basic import loss
from dynascope.probes.descriptions import describe_trace
from dynascope.probes.probe import Every, Probe, Probes, Snapshot, Value, name_probes


def _no_loss(model: PyTree) -> Array:
    raise TypeError("this probe needs a loss: give observe(..., task=..., data=...)")


class _Observed(Process[PyTree]):
    """A fixed model, which nothing moves."""

    model: PyTree
    objective: Callable[[PyTree], Array]
    probes: Mapping[str, Probe]

    def check(self) -> None:
        if isinstance(self.objective, Objective):
            self.objective.check(self.model)

    def start(self) -> PyTree:
        return eqx.filter(self.model, eqx.is_array)

    def advance(self, state: PyTree, now: Array, until: Array) -> PyTree:
        return state

    def snapshot(self, state: PyTree, now: Array) -> Snapshot:
        model = eqx.combine(state, self.model)
        if not isinstance(self.objective, Objective):
            return Snapshot(model, now, self.objective)
        return Snapshot(model, now, self.objective, data=self.objective.data, loss_on=self.objective.on)

    def diverged_at(self, state: PyTree) -> Array:
        return jnp.asarray(-1, jnp.int32)


def observe(
    models: Iterable[Any] | Mapping[int, Any],
    task: Loss | None = None,
    *,
    data: PyTree = None,
    steps: Sequence[int] | np.ndarray | None = None,
    load: Callable[[Any], PyTree] | None = None,
    probes: Probes | None = None,
) -> xr.Dataset:
    """Measure a sequence of models, such as the checkpoints of a training.

    The probes are compiled once for all models, and continue from one to the next: a search for eigenvalues begins with
    the eigenvectors of the model before. A model that cannot be loaded, or has other shapes than the first one, is left
    out with a warning.

    Args:
        models: Pytrees of arrays of the same structure, or items that `load` turns into them: a list, a generator, or a
            mapping from steps to models. One at a time is held in memory.
        task: A task, or a function `loss(model)`, or `loss(model, batch)` with `data`. None if no probe needs a loss.
        data: Arrays with one row for each example, on which the loss is evaluated.
        steps: The step of each model, increasing. Default: the keys of a mapping; else 0, 1, 2, ...
        load: Makes a model of an item, such as `lambda path: eqx.tree_deserialise_leaves(path, like)`.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.

    Returns:
        The trace, as `descend` returns it: the probes' values along `step`, and `diverged_at`, the first step at which
        a parameter is not finite (-1: none). The attribute `left_out` lists the steps without a model.
    """
    named = name_probes({"loss": loss()} if probes is None else probes)
    if probes is None and task is None:
        raise ValueError("give a task, whose loss is recorded, or probes")
    observation, left_out = None, []
    total = len(models) if isinstance(models, Sized) else 0
    for done, (step, model) in enumerate(_loaded(models, steps, load, left_out)):
        current_monitor().progress(done, total, "models")
        if observation is None:
            objective = _no_loss if task is None else Objective(task, model, data=data)
            observation = _Observation(_Observed(probes=named, model=model, objective=objective))
        if reason := observation.refuses(model):
            _leave_out(step, reason, left_out)
        else:
            observation.add(step, model)
    if observation is None:
        raise ValueError("models must hold at least one model; got none")
    return observation.trace().assign_attrs(left_out=left_out)


class _Observation:
    """The measurements of the models so far."""

    def __init__(self, process: _Observed):
        self.process = process
        self.outline = examine(lambda: process, {}, {})
        self.shapes = _shapes(process.model)
        self.memory: PyTree = None
        """The state that each probe carries from one model to the next; None before the first."""
        self.recorded: dict[str, list[int]] = {name: [] for name in process.probes}
        self.values: dict[str, list[Value]] = {name: [] for name in process.probes}
        self.diverged_at = -1
        self.seconds: list[float] = []

    def refuses(self, model: PyTree) -> str:
        """Why a model cannot be measured as the first one; "" if it can."""
        shapes = _shapes(model)
        if shapes.keys() != self.shapes.keys():
            odd = sorted(shapes.keys() ^ self.shapes.keys())[0]
            return f"its arrays are others than those of the first model: {odd}"
        found = [name for name, shape in shapes.items() if shape != self.shapes[name]]
        return f"{found[0]} is {shapes[found[0]]}, in the first model {self.shapes[found[0]]}" if found else ""

    def add(self, step: int, model: PyTree) -> None:
        began = time.perf_counter()
        arrays, now = eqx.filter(model, eqx.is_array), jnp.asarray(step, jnp.int32)
        if self.memory is None:
            self.memory = jit_cached(_begin, ONCE_ON_CPU)(self.process, arrays, now)
        due = tuple(name for name, probe in self.process.probes.items() if _is_due(probe.every, step))
        values, self.memory, finite = jit_cached(_measure, SELDOM_ON_CPU)(self.process, arrays, self.memory, now, due)
        for name, value in jax.device_get(values).items():
            self.recorded[name].append(step)
            self.values[name].append(value)
        if not finite and self.diverged_at < 0:
            self.diverged_at = step
        self.seconds.append(time.perf_counter() - began)

    def trace(self) -> xr.Dataset:
        recorded = {name: np.asarray(steps, np.int32) for name, steps in self.recorded.items()}
        blank = self.outline.values
        records = {
            name: jax.tree.map(
                lambda like, *leaves: np.stack(leaves) if leaves else np.zeros((0, *like.shape), like.dtype),
                blank[name],
                *values,
            )
            for name, values in self.values.items()
        }
        trace = make_schema(self.outline, recorded, {}).label(records, diverged_at=np.asarray(self.diverged_at))
        return describe_trace(trace, self.process.probes).assign_attrs(
            compile_seconds=self.seconds[0], run_seconds=sum(self.seconds[1:])
        )


def _begin(process: _Observed, arrays: PyTree, now: Array) -> PyTree:
    snapshot = process.snapshot(arrays, now)
    return {name: probe.initial_state(snapshot) for name, probe in process.probes.items()}


def _measure(
    process: _Observed, arrays: PyTree, memory: PyTree, now: Array, due: tuple[str, ...]
) -> tuple[dict[str, Value], PyTree, Array]:
    def measure(arrays: PyTree, memory: PyTree, now: Array) -> tuple[dict[str, Value], PyTree, Array]:
        snapshot, values, after = process.snapshot(arrays, now), {}, dict(memory)
        for name in due:
            values[name], after[name] = process.probes[name].measure(snapshot, memory[name])
        numbers = jax.tree.leaves(eqx.filter(arrays, eqx.is_inexact_array))
        return values, after, jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))

    return channels_last(measure)(arrays, memory, now)


def _loaded(
    models: Iterable[Any] | Mapping[int, Any],
    steps: Sequence[int] | np.ndarray | None,
    load: Callable[[Any], PyTree] | None,
    left_out: list[int],
) -> Iterator[tuple[int, PyTree]]:
    """The models with their steps, one at a time."""
    if load is not None:
        checks.function("load", load, "load(item)")
    before = -1
    for step, item in _numbered(models, steps):
        checks.whole("steps", step, at_least=before + 1)
        before = step
        try:
            model = item if load is None else load(item)
        except Exception as error:
            _leave_out(step, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", left_out)
        else:
            yield step, checks.jax_model(model)


def _numbered(
    models: Iterable[Any] | Mapping[int, Any], steps: Sequence[int] | np.ndarray | None
) -> Iterator[tuple[int, Any]]:
    if isinstance(models, Mapping):
        if steps is not None:
            raise ValueError("models is a mapping, whose keys are the steps: omit steps=")
        return iter(sorted(models.items()))
    if not isinstance(models, Iterable) or isinstance(models, str | bytes | jax.Array | np.ndarray):
        raise TypeError(f"models must be a list, a generator, or a mapping from steps; got {checks.shown(models)}")
    if steps is None:
        return enumerate(models)
    return ((int(step), model) for step, model in zip(steps, models, strict=True))


def _shapes(model: PyTree) -> dict[str, str]:
    """Shape and type of each array of a model, by its place."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    return {jax.tree_util.keystr(path): f"{leaf.dtype}{list(leaf.shape)}" for path, leaf in leaves}


def _is_due(every: Every, step: int) -> bool:
    return every is None or (step % every == 0 if isinstance(every, int) else step in np.asarray(every))


def _leave_out(step: int, reason: str, left_out: list[int]) -> None:
    left_out.append(step)
    warnings.warn(f"observe: the model of step {step} is left out ({reason})", stacklevel=3)
