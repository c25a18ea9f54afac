"""Probes of the model itself: its loss, its outputs, its Jacobian and the alignment of that, how far it has moved."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.geometry.agop import Apply, Outer, alignment, call, check_outer, smaller
from dynascope.probes.probe import Every, Probe, Snapshot, probe


def loss(*, every: Every = None) -> Probe:
    """The objective on all the data (the population, where the task knows it); a scalar."""
    return probe(lambda snapshot: snapshot.loss(), every=every)


def output(point: Float[Array, " d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The model's output (coordinate,) at one point (d,). `apply(model, x)` lets any pytree be a model."""
    point = jnp.asarray(checks.array("point", point))
    checks.function("apply", apply, "apply(model, x)")
    return probe(lambda snapshot: apply(snapshot.model, point), dims=("coordinate",), every=every)


def outputs(points: Float[Array, "n d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The model's outputs (point, coordinate) at several points (n, d)."""
    points = jnp.asarray(checks.array("points", points, min_ndim=1))
    checks.function("apply", apply, "apply(model, x)")

    def measure(snapshot: Snapshot) -> Any:
        return jax.vmap(lambda x: apply(snapshot.model, x))(points)

    return probe(measure, dims=("point", "coordinate"), every=every)


def jacobian(point: Float[Array, " d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The Jacobian (row, column) of the output with respect to the input, at a point (d,); of a linear model, its
    matrix."""
    point = jnp.asarray(checks.array("point", point, ndim=1))
    checks.function("apply", apply, "apply(model, x)")

    def measure(snapshot: Snapshot) -> Any:
        return jax.jacfwd(lambda x: apply(snapshot.model, x))(point)

    return probe(measure, dims=("row", "column"), every=every)


def agop_alignment(target: Outer, x: Float[Array, "n ..."], *, every: Every = None, apply: Apply = call) -> Probe:
    """The alignment, between 0 and 1, of the model's outer product over the n points `x` with `target`, which is a
    matrix (d, d) or factored; d is the size of one point."""
    checks.function("apply", apply, "apply(model, x)")
    checks.array("x", x, min_ndim=2)
    check_outer("target", target)
    return probe(lambda snapshot: alignment(smaller(snapshot.model, x, apply), target), every=every)


def displacement(*, every: Every = None) -> Probe:
    """The Euclidean distance of the parameters from where they started; a scalar."""

    def parameters(model: Any) -> list[Any]:
        return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))

    def measure(snapshot: Snapshot, start: Any) -> tuple[Any, Any]:
        moved = [now - then for now, then in zip(parameters(snapshot.model), start, strict=True)]
        return jnp.sqrt(sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in moved)), start

    return Probe(measure, every=every, initial_state=lambda snapshot: parameters(snapshot.model))
