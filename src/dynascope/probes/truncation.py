"""Measurements of a model without parts of its weights, inside the loop: many truncations at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from dynascope import checks
from dynascope.geometry.truncation import Where, cut_to, directions, pick_weights, replace_weights
from dynascope.probes.probe import Every, Probe, Snapshot, Value, probe

Measure = Callable[[PyTree], PyTree]
"""From a model to an array, or to a mapping of arrays, all with the same number of axes."""


def truncations(
    weights: Mapping[str, Where],
    ranks: Sequence[int],
    measure: Measure,
    *,
    every: Every = None,
    dims: tuple[str, ...] = (),
) -> Probe:
    """A measurement of the model with one of its weights truncated to one of several ranks.

    The singular vectors are found once for each weight; the ranks are measured one after another, in one compiled loop.

    Args:
        weights: Names, and functions that pick a matrix, or a tuple of them, from the model.
        ranks: The ranks. 0 removes a matrix; the smaller side or more leaves its bits as they are.
        measure: From a model to an array, or to several by name, each of which becomes an entry of the trace.
        every: The cadence, in steps; see `Probe`.
        dims: Names of the axes of the value of `measure`.

    Returns:
        A probe with the dimensions (weight, rank), then `dims`.
    """
    if not isinstance(weights, Mapping) or not weights or not all(isinstance(name, str) for name in weights):
        raise TypeError(f"weights must map names to functions that pick a matrix; got {checks.shown(weights)}")
    for name, where in weights.items():
        checks.function(f"weights[{name!r}]", where, "where(model)")
    if isinstance(ranks, str) or not isinstance(ranks, Sequence) or not ranks:
        raise TypeError(f"ranks must be a list of integers, 0 or more; got {checks.shown(ranks)}")
    for rank in ranks:
        checks.whole("each of ranks", rank, at_least=0, at_most=2**31 - 1)
    checks.function("measure", measure, "measure(model)")
    if not isinstance(dims, tuple | list) or not all(isinstance(name, str) for name in dims):
        raise TypeError(f"dims must be a tuple of names, one for each axis; got {checks.shown(dims)}")

    def measure_all(snapshot: Snapshot) -> Value:
        found = [_at_ranks(snapshot.model, where, ranks, measure) for where in weights.values()]
        return jax.tree.map(lambda *each: jnp.stack(each), *found)

    names = ("weight", "rank", *dims)
    return probe(measure_all, names, coords={"weight": tuple(weights), "rank": tuple(ranks)}, every=every)


def _at_ranks(model: PyTree, where: Where, ranks: Sequence[int], measure: Measure) -> PyTree:
    matrices = pick_weights(model, where)
    vectors = [directions(matrix) for matrix in matrices]

    def at(rank: Array) -> PyTree:
        cut = tuple(cut_to(matrix, each, rank) for matrix, each in zip(matrices, vectors, strict=True))
        return measure(replace_weights(model, where, cut))

    return lax.map(at, jnp.asarray(ranks, jnp.int32))
