"""Probes of the learner itself: its loss, its outputs, its Jacobian, how far it has moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.probes.probe import Every, Probe, Snapshot, probe

Apply = Callable[[Any, Any], Any]


def _call(model: Any, x: Any) -> Any:
    return model(x)


def loss(every: Every = None) -> Probe:
    """The objective on all the data (the population, where the task knows it)."""
    return probe(lambda moment: snapshot.loss(snapshot.model), every=every)


def output(point: Float[Array, " d"], every: Every = None, apply: Apply = _call) -> Probe:
    """The model's output at one point. `apply(model, x)` lets any pytree be a model."""
    return probe(lambda moment: apply(snapshot.model, point), dims=("coordinate",), every=every)


def outputs(points: Float[Array, "n d"], every: Every = None, apply: Apply = _call) -> Probe:
    """The model's outputs at several points."""
    return probe(
        lambda moment: jax.vmap(lambda x: apply(snapshot.model, x))(points),
        dims=("point", "coordinate"),
        every=every,
    )


def jacobian(point: Float[Array, " d"], every: Every = None, apply: Apply = _call) -> Probe:
    """The Jacobian of the output with respect to the input, at a point (of a linear model: its matrix)."""

    def measure(snapshot: Snapshot) -> Any:
        return jax.jacfwd(lambda x: apply(snapshot.model, x))(point)

    return probe(measure, dims=("row", "column"), every=every)


def displacement(every: Every = None) -> Probe:
    """The Euclidean distance of the parameters from where they started."""

    def parameters(model: Any) -> list[Any]:
        return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))

    def measure(snapshot: Snapshot, start: Any) -> tuple[Any, Any]:
        squares = [
            jnp.sum(jnp.abs(now - then) ** 2) for now, then in zip(parameters(snapshot.model), start, strict=True)
        ]
        return jnp.sqrt(sum(squares)), start

    return Probe(measure, every=every, remember=lambda moment: parameters(snapshot.model))
