"""The alignment of the average gradient outer product, inside the loop."""

from __future__ import annotations

from jaxtyping import Array, Float

from dynascope import checks
from dynascope.geometry.agop import Apply, Outer, alignment, call, check_outer, smaller
from dynascope.probes.probe import Every, Probe, probe


def agop_alignment(target: Outer, x: Float[Array, "n ..."], *, every: Every = None, apply: Apply = call) -> Probe:
    """The alignment, between 0 and 1, of the model's outer product over the n points `x` with `target`, which is a
    matrix (d, d) or factored; d is the size of one point."""
    checks.function("apply", apply, "apply(model, x)")
    checks.array("x", x, min_ndim=2)
    check_outer("target", target)
    return probe(lambda snapshot: alignment(smaller(snapshot.model, x, apply), target), every=every)
