"""Probes of the model and its optimizer: loss, outputs, the Jacobian and its alignment, the distance from the start,
the current learning rate, the rows of the next step."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.agop import Apply, Outer, alignment, call, check_outer, smaller_agop
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, Snapshot, Value, probe


def loss(*, every: Every = None) -> Probe:
    """The objective on all the data, or on the population if the task knows it.

    Args:
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with a scalar value.
    """
    return describe_probe(probe(lambda snapshot: snapshot.loss(), every=every), "loss")


def output(point: Float[Array, " d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The model's output at one point.

    Args:
        point: The input, `(d,)`.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.

    Returns:
        A probe with the dimension `coordinate`.
    """
    point = checks.jax_array("point", point)
    checks.function("apply", apply, "apply(model, x)")
    return describe_probe(
        probe(lambda snapshot: apply(snapshot.model, point), dims=("coordinate",), every=every), "output"
    )


def outputs(points: Float[Array, "n d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The model's outputs at several points.

    Args:
        points: The inputs, `(n, d)`.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.

    Returns:
        A probe with the dimensions `point` and `coordinate`.
    """
    points = checks.jax_array("points", points, min_ndim=1)
    checks.function("apply", apply, "apply(model, x)")

    def measure(snapshot: Snapshot) -> Value:
        return jax.vmap(lambda x: apply(snapshot.model, x))(points)

    return describe_probe(probe(measure, dims=("point", "coordinate"), every=every), "outputs")


def jacobian(point: Float[Array, " d"], *, every: Every = None, apply: Apply = call) -> Probe:
    """The Jacobian of the output with respect to the input: the matrix of a linear model.

    Args:
        point: The input at which it is taken, `(d,)`.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.

    Returns:
        A probe with the dimensions `row` and `column`.
    """
    point = checks.jax_array("point", point, ndim=1)
    checks.function("apply", apply, "apply(model, x)")

    def measure(snapshot: Snapshot) -> Value:
        return jax.jacfwd(lambda x: apply(snapshot.model, x))(point)

    return describe_probe(probe(measure, dims=("row", "column"), every=every), "jacobian")


def agop_alignment(target: Outer, x: Float[Array, "n ..."], *, every: Every = None, apply: Apply = call) -> Probe:
    """The alignment, between 0 and 1, of the model's average gradient outer product with that of a target.

    Args:
        target: The outer product of the target: a matrix `(d, d)`, or factored.
        x: The points to average over, `(n, ...)`; d numbers each.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.

    Returns:
        A probe with a scalar value.
    """
    checks.function("apply", apply, "apply(model, x)")
    checks.array("x", x, min_ndim=2)
    check_outer("target", target)
    return describe_probe(
        probe(lambda snapshot: alignment(smaller_agop(snapshot.model, x, apply), target), every=every), "agop_alignment"
    )


def displacement(*, every: Every = None) -> Probe:
    """The Euclidean distance of the parameters from their start.

    Args:
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with a scalar value.
    """

    def parameters(model: PyTree) -> list[Array]:
        return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))

    def measure(snapshot: Snapshot, start: PyTree) -> tuple[Value, PyTree]:
        moved = [now - then for now, then in zip(parameters(snapshot.model), start, strict=True)]
        return jnp.sqrt(sum(jnp.sum(jnp.abs(leaf) ** 2) for leaf in moved)), start

    return describe_probe(
        Probe(measure, every=every, initial_state=lambda snapshot: parameters(snapshot.model)), "displacement"
    )


def learning_rate(*, every: Every = None) -> Probe:
    """The learning rate of the last step (at the start: of the first one).

    The optimizer's state must hold it: those of `dynamics.rates` do, and any that is made with
    `optax.inject_hyperparams`.

    Args:
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with a scalar value. With `rates.catapults` there are further entries: `phase` (0 warm, 1 raised, 2
        settled, 3 gave up) and `catapults` (how many are complete).
    """

    def measure(snapshot: Snapshot) -> dict[str, Array]:
        rate = _in_state(snapshot.optimizer, "learning_rate")
        if rate is None:
            raise ValueError(
                "the state of this optimizer does not hold its learning rate: use one of dynascope.dynamics.rates, or "
                "make it with optax.inject_hyperparams"
            )
        beside = {name: _in_state(snapshot.optimizer, name) for name in ("phase", "catapults")}
        return {"value": rate} | {name: entry for name, entry in beside.items() if entry is not None}

    return describe_probe(probe(measure, every=every), "learning_rate")


def batch_rows(*, every: Every = None) -> Probe:
    """The rows of the data that the next step will use.

    Args:
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with the dimension `place`, shape (batch,).
    """

    def measure(snapshot: Snapshot) -> Value:
        rows = snapshot.batch().rows
        if rows is None:
            raise ValueError("probes.batch_rows needs a descent with `data` and a `batch` smaller than the data")
        return rows

    return describe_probe(probe(measure, dims=("place",), every=every), "batch_rows")


def _in_state(state: PyTree, name: str) -> Array | None:
    """The first array of that name in the optimizer's state."""
    found = optax.tree_utils.tree_get_all_with_path(state, name)
    return next((value for _, value in found if eqx.is_array(value)), None)
