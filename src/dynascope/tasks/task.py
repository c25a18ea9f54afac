"""The abilities of tasks: each is an abstract class, and a task's bases state its abilities.

A dynamics requires only the ability that it uses: gradient flow on a population needs a `PopulationTask`, training on a
data set a `DataTask`, fresh samples at every step a `SampledTask`. A plain function is a task too: `loss(model)`, or
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
    """A task that can draw any number of examples."""

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
        """The batch that the step uses: the same rows, changed at random, or with random numbers beside them.

        Args:
            key: Key of the changes.
            batch: The batch as it is stored.
        """


class VelocityTask(Task):
    """A task that gives the velocity of a flow itself, as one in reduced coordinates does."""

    @abstractmethod
    def velocity(self, model: Any, /) -> PyTree:
        """d(model)/dt.

        Args:
            model: The model.
        """
