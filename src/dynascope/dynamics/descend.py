"""Gradient descent by any optax optimizer: full batch, minibatches shuffled every epoch, or fresh samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import xarray as xr
from jax import lax
from jaxtyping import Array, PRNGKeyArray, PyTree

from dynascope.dynamics.ensemble import solo
from dynascope.dynamics.process import Process
from dynascope.dynamics.record import Record
from dynascope.dynamics.shuffle import ROUNDS, epoch_words, permuted
from dynascope.probes import basic
from dynascope.probes.probe import Batch, Probe, Snapshot, as_probe

NO_EPOCH = 2**31 - 1
"""Sets the keys of augmentation apart from those of the epochs' orders."""


class DescentState(eqx.Module):
    """Where a descent is: the trainable arrays, the optimizer's memory, this epoch's order, when it blew up."""

    parameters: PyTree
    optimizer: PyTree
    order: Array | None
    diverged_at: Array


class Descent(Process):
    """Steps of an optax optimizer. What the gradient is taken of follows from `data` and `batch`:

    | data | batch | the loss at a step |
    |---|---|---|
    | none | none | `task.population_loss(model)`, or `task(model)` for a plain function |
    | given | none | `task.loss(model, data)`, or `task(model, data)` |
    | given | n | the same on n rows, from an order drawn anew every epoch (what does not fill a batch is left out) |
    | none | n | the same on `task.sample(key, n)`, drawn anew every step |

    With `reshuffle=False` the first epoch's order serves for all. A task with `augment(key, batch)` has every batch of
    rows changed by it before the step.
    """

    model: PyTree
    task: Any
    optimizer: optax.GradientTransformation
    data: PyTree
    batch: int | None
    key: PRNGKeyArray | None
    reshuffle: bool
    probes: Mapping[str, Probe]

    def __init__(
        self,
        model: PyTree,
        task: Any,
        optimizer: optax.GradientTransformation,
        *,
        data: PyTree = None,
        batch: int | None = None,
        key: PRNGKeyArray | None = None,
        reshuffle: bool = True,
        probes: Mapping[str, Probe | Callable] | None = None,
    ) -> None:
        self.model, self.task, self.optimizer = model, task, optimizer
        self.data, self.batch, self.key, self.reshuffle = data, batch, key, reshuffle
        self.probes = {name: as_probe(thing) for name, thing in (probes or {"loss": basic.loss()}).items()}
        if batch is not None:
            if key is None:
                raise ValueError("batches are drawn at random: give descend a key")
            if data is None and not hasattr(task, "sample"):
                raise ValueError("batches without data need a task with sample(key, count); or give the data")
            if batch < 1 or (data is not None and batch > self._rows()):
                allowed = "at least 1" if data is None else f"1 to {self._rows()} (the rows of the data)"
                raise ValueError(f"batch must be {allowed}; got {batch}")

    def _rows(self) -> int:
        return jax.tree.leaves(self.data)[0].shape[0]

    def _loss(self, model: PyTree, batch: PyTree) -> Array:
        return self.task.loss(model, batch) if hasattr(self.task, "loss") else self.task(model, batch)

    def objective(self, model: PyTree) -> Array:
        """The loss on all the data: on the population, or on a fixed sample where the task only knows to sample."""
        if self.data is not None:
            return self._loss(model, self.data)
        if hasattr(self.task, "population_loss"):
            return self.task.population_loss(model)
        if self.batch is not None:
            return self._loss(model, self.task.sample(self.key, self.batch))
        return self.task(model)

    def start(self) -> DescentState:
        parameters = eqx.filter(self.model, eqx.is_inexact_array)
        order = None
        if self.data is not None and self.batch is not None:
            order = jnp.zeros(ROUNDS, jnp.uint32)
        return DescentState(parameters, self.optimizer.init(parameters), order, jnp.asarray(-1, jnp.int32))

    def advance(self, state: DescentState, now: Array, until: Array) -> DescentState:
        fixed = eqx.filter(self.model, eqx.is_inexact_array, inverse=True)
        optimizer = optax.with_extra_args_support(self.optimizer)

        def step(t: Array, state: DescentState) -> DescentState:
            order, batch = self._draw(t, state.order)

            def loss(parameters: PyTree) -> Array:
                model = eqx.combine(parameters, fixed)
                return self.objective(model) if self.batch is None else self._loss(model, batch.data)

            value, gradient = jax.value_and_grad(loss)(state.parameters)
            with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes, also where its user forbids that
                updates, memory = optimizer.update(
                    gradient, state.optimizer, state.parameters, value=value, grad=gradient, value_fn=loss
                )
            first_time = ~jnp.isfinite(value) & (state.diverged_at < 0)
            diverged_at = jnp.where(first_time, t, state.diverged_at)
            return DescentState(optax.apply_updates(state.parameters, updates), memory, order, diverged_at)

        return lax.fori_loop(now, until, step, state)

    def _draw(self, t: Array, order: Array | None) -> tuple[Array | None, Batch]:
        """This step's batch, and the epoch's order it comes from."""
        if self.batch is None:
            return order, Batch(None, self.data)
        key = self.key
        assert key is not None  # checked when it was made
        if order is None:
            return None, Batch(None, self.task.sample(jax.random.fold_in(key, t), self.batch))
        per_epoch = self._rows() // self.batch
        epoch, place = t // per_epoch, t % per_epoch
        drawn = epoch if self.reshuffle else jnp.zeros_like(epoch)
        words = lax.cond(place == 0, lambda: epoch_words(key, drawn), lambda: order)
        rows = permuted(words, place * self.batch + jnp.arange(self.batch, dtype=jnp.int32), self._rows())
        data = jax.tree.map(lambda leaf: leaf[rows], self.data)
        if hasattr(self.task, "augment"):
            data = self.task.augment(jax.random.fold_in(jax.random.fold_in(key, NO_EPOCH), t), data)
        return words, Batch(rows, data)

    def snapshot(self, state: DescentState, now: Array) -> Snapshot:
        def batch() -> Batch:
            return self._draw(now, state.order)[1]

        model = eqx.combine(state.parameters, self.model)
        return Snapshot(model, now, self.objective, state.optimizer, batch)

    def diverged_at(self, state: DescentState) -> Array:
        return state.diverged_at

    def work(self, state: DescentState) -> int:
        whole = 1 if self.data is None else self._rows()
        return sum(leaf.size for leaf in jax.tree.leaves(state.parameters)) * (self.batch or whole)


def descend(
    model: PyTree,
    task: Any,
    optimizer: optax.GradientTransformation,
    *,
    steps: int,
    data: PyTree = None,
    batch: int | None = None,
    key: PRNGKeyArray | None = None,
    reshuffle: bool = True,
    probes: Mapping[str, Probe | Callable] | None = None,
    record: Record = None,
) -> xr.Dataset:
    """Train `model` and return the trace of its probes (the loss, where none are given).

    `record` says at which steps: every so many, exactly these, or about a thousand of them. What the gradient is of
    is told by `data` and `batch`: see `Descent`, which is also what an `ensemble`'s member returns.
    """
    process = Descent(model, task, optimizer, data=data, batch=batch, key=key, reshuffle=reshuffle, probes=probes)
    return solo(process, steps=steps, record=record)
