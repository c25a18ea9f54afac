"""The abilities of tasks: each is an abstract class, and a task's bases say what it can be asked for.

A dynamics asks only for what it needs: gradient flow on a population for a `PopulationTask`, training on a data set for
a `DataTask`, fresh samples at every step for a `SampledTask`. A plain function is a task too: `loss(model)`, or
`loss(model, batch)` with data.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray, PyTree


class Task(eqx.Module):
    """A data-generating process and its loss."""


class PopulationTask(Task):
    """A task whose expected loss is known in closed form."""

    @abstractmethod
    def population_loss(self, model: Any, /) -> Float[Array, ""]:
        """The loss over the whole distribution.

        Args:
            model: The model.
        """


class DataTask(Task):
    """A task that is trained on examples."""

    @abstractmethod
    def loss(self, model: Any, batch: Any, /) -> Float[Array, ""]:
        """The mean loss over the examples of a batch.

        Args:
            model: The model.
            batch: A pytree whose leaves have shape (n, ...).
        """


class SampledTask(DataTask):
    """A task that can draw as many examples as it is asked for."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, count: int) -> Any:
        """A batch of fresh examples.

        Args:
            key: Key of the draw.
            count: Number of examples.
        """


class AugmentedTask(DataTask):
    """A task that changes every minibatch at random before it is used."""

    @abstractmethod
    def augment(self, key: PRNGKeyArray, batch: Any) -> Any:
        """The batch as the step sees it: the same rows, changed at random, or with random numbers beside them.

        Args:
            key: Key of the changes.
            batch: The batch as it is stored.
        """


class VelocityTask(Task):
    """A task that says itself how a flow moves, as one in reduced coordinates does."""

    @abstractmethod
    def velocity(self, model: Any, /) -> PyTree:
        """d(model)/dt.

        Args:
            model: The model.
        """
