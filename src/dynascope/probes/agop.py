"""The alignment of the average gradient outer product, inside the loop."""

from __future__ import annotations

from jaxtyping import Array, Float

from dynascope.geometry.agop import Apply, Outer, alignment, call, smaller
from dynascope.probes.probe import Every, Probe, probe


def agop_alignment(target: Outer, x: Float[Array, "n ..."], every: Every = None, apply: Apply = call) -> Probe:
    """The alignment of the model's outer product over the points `x` with `target`, inside the loop."""
    return probe(lambda moment: alignment(smaller(moment.model, x, apply), target), every=every)
