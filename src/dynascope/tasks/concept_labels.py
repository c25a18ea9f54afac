"""The task of a classifier of concepts, on fresh pictures of every class at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.image_concepts import ImageConcepts
from dynascope.tasks.task import SampledTask


class LabeledPictures(NamedTuple):
    """Pictures, and the value of each of their concepts."""

    x: Float[Array, "n height width 3"]
    y: Int[Array, "n s"]


class ConceptLabels(SampledTask):
    """Pictures of all classes, for a model that returns two logits for each concept.

    The loss is the sum of the concepts' cross-entropies.

    Args:
        processes: The pictures come in equal parts from each of these, such as the extreme separations.
    """

    processes: tuple[ImageConcepts, ...]

    def __init__(self, processes: Sequence[ImageConcepts]) -> None:
        found = tuple(processes) if isinstance(processes, Sequence) else ()
        if not found or not all(isinstance(process, ImageConcepts) for process in found):
            raise TypeError(f"processes must be one ImageConcepts or more; got {checks.shown(processes)}")
        if len({(process.concepts, process.pixels) for process in found}) > 1:
            raise ValueError("processes must have the same concepts and the same size of pictures")
        self.processes = found

    def sample(self, key: PRNGKeyArray, count: int) -> LabeledPictures:
        """`count` pictures of random classes."""
        checks.sizes(count=count)
        kinds = len(self.processes)
        drawn = []
        for i, process in enumerate(self.processes):
            labels, draw = jax.random.split(jax.random.fold_in(key, i))
            n = count * (i + 1) // kinds - count * i // kinds
            y = jax.random.randint(labels, (n, len(process.concepts)), 0, 2)
            drawn.append(LabeledPictures(process.pictures(draw, y).x, y))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *drawn)

    def loss(self, model: Any, batch: LabeledPictures) -> Float[Array, ""]:
        """The mean over the pictures of the sum over concepts of the cross-entropies."""
        logits = jax.nn.log_softmax(jax.vmap(model)(batch.x))
        return -jnp.mean(jnp.sum(jnp.take_along_axis(logits, batch.y[..., None], axis=-1), axis=(1, 2)))

    def accuracy(self, model: Any, batch: LabeledPictures) -> Float[Array, " s"]:
        """The share of pictures in which the larger logit is the right one, for each concept.

        Args:
            model: From one picture to logits (concepts, 2).
            batch: Pictures and the values of their concepts.
        """
        return jnp.mean(jnp.argmax(jax.vmap(model)(batch.x), axis=-1) == batch.y, axis=0, dtype=batch.x.dtype)
