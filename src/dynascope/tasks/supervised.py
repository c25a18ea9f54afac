"""Supervised learning on any data: inputs, targets and a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PyTree

from dynascope import checks
from dynascope.tasks.task import DataTask


def mean_squared_error(outputs: Float[Array, "n ..."], targets: Float[Array, "n ..."]) -> Float[Array, ""]:
    """The mean of the squared errors over all examples and outputs; (n, 1) and (n,) go together."""
    if targets.shape not in (outputs.shape, (*outputs.shape, 1)) and outputs.shape != (*targets.shape, 1):
        got = f"{outputs.shape} and {targets.shape}"
        raise ValueError(f"outputs and targets must have one shape, but for a last axis of length 1; got {got}")
    return jnp.mean((outputs.reshape(targets.shape) - targets) ** 2)


def cross_entropy(logits: Float[Array, "n classes"], labels: Int[Array, " n"]) -> Float[Array, ""]:
    """The mean negative log-likelihood of the labels, integers from 0 to classes - 1 (NaN if one is not)."""
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not jnp.issubdtype(labels.dtype, jnp.integer):
        got = f"logits {logits.shape} and labels {labels.shape} of {labels.dtype}"
        raise ValueError(f"cross-entropy takes logits (n, classes) and integer labels (n,); got {got}")
    if not isinstance(labels, Tracer):
        values, classes = np.asarray(labels), logits.shape[1]
        low, high = values.min(initial=0), values.max(initial=0)
        if low < 0 or high >= classes:
            raise ValueError(f"labels must be integers from 0 to {classes - 1}; got values from {low} to {high}")
    classes = jnp.arange(logits.shape[1], dtype=labels.dtype)
    scores = jnp.sum(jnp.where(labels[:, None] == classes, jax.nn.log_softmax(logits), 0), axis=1)
    return -jnp.mean(jnp.where((labels >= 0) & (labels < logits.shape[1]), scores, jnp.nan))


LOSSES: dict[str, Callable[[Any, Any], Any]] = {"mse": mean_squared_error, "cross-entropy": cross_entropy}


class Supervised(DataTask):
    """Examples (x, y), a model that is called on one x, and a loss of all outputs against all targets.

    The data come with the call: `ds.descend(model, ds.tasks.Supervised("mse"), optimizer, data=(x, y), steps=1000)`.

    Args:
        loss: "mse", "cross-entropy", or a function `loss(outputs, targets)` of arrays (n, ...) with a scalar value.
        apply: `apply(model, x)`, for a model that is not callable, such as the parameters of a Flax module.
    """

    criterion: Callable[[Any, Any], Any]
    apply: Callable[[Any, Any], Any] | None

    def __init__(
        self,
        loss: str | Callable[[Any, Any], Any] = "mse",
        *,
        apply: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        if not callable(loss) and loss not in list(LOSSES):
            allowed = f"one of {', '.join(map(repr, LOSSES))}, or a function loss(outputs, targets)"
            raise ValueError(f"loss must be {allowed}; got {checks.shown(loss)}")
        self.criterion = loss if callable(loss) else LOSSES[loss]
        self.apply = apply if apply is None else checks.function("apply", apply, "apply(model, x)")

    def outputs(self, model: PyTree, x: PyTree) -> Array:
        """The outputs of the model on every example.

        Args:
            model: The model.
            x: Examples; leaves of shape (n, ...).
        """
        apply = self.apply
        if apply is None and not callable(model):
            raise TypeError(f"model must be callable, or Supervised must be given apply=; got {checks.shown(model)}")
        call: Callable[[Any], Any] = model if apply is None else lambda one: apply(model, one)
        return jax.vmap(call)(x)

    def loss(self, model: PyTree, batch: Any, /) -> Float[Array, ""]:
        """The loss of the model on a batch (x, y)."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TypeError(f"Supervised takes data=(inputs, targets); got {checks.shown(batch)}")
        x, y = batch
        return self.criterion(self.outputs(model, x), y)
