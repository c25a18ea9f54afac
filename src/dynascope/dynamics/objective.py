"""The loss that a process descends: a task with the data it is evaluated on, as a function of the model alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.tasks.task import DataTask, PopulationTask, SampledTask, Task, VelocityTask

Loss = Task | Callable[..., Array]
"""A task, or a plain function `loss(model)` or `loss(model, batch)`."""


class Objective(eqx.Module):
    """A task with the data it is evaluated on.

    Args:
        task: A `Task`, or a function `loss(model)`, or `loss(model, batch)` if there is data or a batch.
        model: The model that is trained; it is checked, and so are the function's arguments.
        data: Arrays with one row for each example; None for the population.
        batch: Rows in a minibatch; None for all of them.
        key: Draws the minibatches; required with `batch`.
    """

    task: Loss
    data: PyTree
    batch: int | None
    key: PRNGKeyArray | None

    def __init__(
        self,
        task: Loss,
        model: PyTree,
        *,
        data: PyTree = None,
        batch: int | None = None,
        key: PRNGKeyArray | None = None,
    ) -> None:
        trained = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
        if sum(leaf.size for leaf in trained) == 0:
            raise ValueError(f"the model has no floating-point arrays to train; got {checks.shown(model)}")
        if data is not None:
            checks.rows(data=data)
            data = checks.numbers("data", data)  # NumPy's cannot be indexed by traced numbers
        if batch is not None:
            batch = _check_batch(task, data, batch, key)
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
            _check_arguments(task, model, data is not None or batch is not None)
        self.task, self.data, self.batch, self.key = task, data, batch, key

    def __call__(self, model: PyTree) -> Array:
        """Evaluate the loss on the data, on the population, or on one fixed sample if the task can only sample."""
        if self.data is not None:
            return self.on(model, self.data)
        if isinstance(self.task, PopulationTask):
            return self.task.population_loss(model)
        if self.batch is not None:
            return self.on(model, self.sample(self.key))
        if isinstance(self.task, Task):
            raise TypeError(f"{type(self.task).__name__} has no loss; use flow, with probes that need none")
        return self.task(model)

    def on(self, model: PyTree, batch: PyTree) -> Array:
        """Evaluate the loss on one batch."""
        if isinstance(self.task, DataTask):
            return self.task.loss(model, batch)
        assert not isinstance(self.task, Task)  # checked when it was made
        return self.task(model, batch)

    def sample(self, key: PRNGKeyArray | None) -> PyTree:
        """Draw a batch of fresh examples."""
        assert isinstance(self.task, SampledTask)  # checked when it was made
        assert self.batch is not None
        assert key is not None
        return self.task.sample(key, self.batch)

    def check(self, model: PyTree) -> None:
        """Evaluate it abstractly: its value must be one real number, an array that depends on arrays."""
        try:
            samples = self.data is None and self.batch is not None  # as a step does, not on the population
            value = self.on(model, self.sample(self.key)) if samples else self(model)
        except jax.errors.ConcretizationTypeError:
            raise TypeError("the loss must be made of JAX operations; it turns an array into a Python number") from None
        if not isinstance(value, jax.Array):
            raise TypeError(f"the loss must return a JAX array; got {checks.shown(value)} of {type(value).__name__}")
        if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
            raise TypeError(f"the loss must return one real number, shape (); got {value.shape} of {value.dtype}")


def _check_batch(task: Loss, data: PyTree, batch: int, key: PRNGKeyArray | None) -> int:
    most = None if data is None else checks.rows(data=data)
    batch = checks.whole("batch", batch, at_least=1, at_most=most)
    if key is None:
        raise ValueError("batches are drawn at random: give key=, such as jax.random.key(0)")
    checks.key("key", key)
    if data is None and not isinstance(task, SampledTask):
        raise ValueError("a batch without data needs a SampledTask, which has sample(key, count); or give data=")
    return batch


def _check_arguments(task: Callable[..., Array], model: PyTree, with_batch: bool) -> None:
    """A plain function takes (model), or (model, batch) if there is data."""
    try:
        signature = inspect.signature(task)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*((model, None) if with_batch else (model,)))
    except TypeError:
        wanted = "loss(model, batch), since data= is given" if with_batch else "loss(model), since data= is not given"
        raise TypeError(f"the task is called as {wanted}, but it takes {signature}") from None
