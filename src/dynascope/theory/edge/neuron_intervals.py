"""Interval propagation for the single neuron: from a box that contains v wx, v - wx and wy to one a step later.

"Simple structures in neural networks", Appendix B.9, for every K in (1, 1.1]. The document's bound (B.90) on wy uses
the ratio R = (S - d1/2)/(S + d1/2) > 1, but an enclosure needs its inverse, so the printed intervals for wy are too
small (a gap in the proof, not in the conclusion). Both variants are here. The arithmetic is not rounded outward.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from dynascope.theory.domains import check_arguments

STEP = 1.1


class Box(NamedTuple):
    """Bounds on v wx, v - wx and wy >= 0."""

    product_low: float
    """Least v wx."""
    product_high: float
    """Largest v wx."""
    gap_low: float
    """Least v - wx."""
    gap_high: float
    """Largest v - wx."""
    height: float
    """Largest wy."""


@check_arguments
def split(box: Box) -> list[Box]:
    """The parts of a box with v wx <= 1 and v wx >= 1, or the box alone if it is on one side, as `propagate` needs it.

    Args:
        box: The box.
    """
    if box.product_low < 1 < box.product_high:
        return [box._replace(product_high=1.0), box._replace(product_low=1.0)]
    return [box]


@check_arguments
def propagate(box: Box, ratio: Literal["printed", "valid"] = "valid", cap: bool = False) -> Box:
    """A box that holds all images of a box after one step.

    Args:
        box: A box on one side of v wx = 1.
        ratio: The bound on wy: (B.90) as printed, or a valid one. Default: "valid".
        cap: Keep wy from growing, as is known in stage 2. Default: False.
    """
    m1, m2, d1, d2, e = (float(end) for end in box)
    if m1 < 1 < m2 or not (d1 < 0 < d2 and 0 < m1 <= m2 and e >= 0):
        raise ValueError(f"box must lie on one side of v wx = 1 (see split) and contain v = wx > 0; got {box}")
    slope = e / (_mean(m1, d2) - d2 / 2)
    h = (math.atan(slope) - slope / (1 + slope**2)) / math.pi
    largest = max(abs(d1), abs(d2))
    if m1 >= 1:
        low = m2 * (1 + STEP * (1 - m2 - h)) ** 2 + STEP * (1 - m2 - h) * largest**2 - STEP * e**2 * m2
        high = m1 * (2 - m1) ** 2
    else:
        low = min(x * (2 - x - h) ** 2 - STEP * e**2 * x for x in _candidates(2 - h, 1.0, STEP * e**2, m1, m2))
        high = max(
            x * (1 + STEP * (1 - x)) ** 2 + STEP * (1 - x) * largest**2
            for x in _candidates(1 + STEP, STEP, STEP * largest**2, m1, m2)
        )
    c = 1 + STEP * (m2 - 1 + h)
    gap_low = d1 * c - STEP * e**2 * (_mean(m2, d2) + d2 / 2)
    j1 = 1 - STEP * m2 * (_mean(m1, d2) + d2 / 2) / (_mean(m1, d2) - d2 / 2)
    R = (_mean(m1, d1) - d1 / 2) / (_mean(m1, d1) + d1 / 2)
    j2 = 1 - (R if ratio == "printed" else 1 / R) * (m1 - 1 / (2 * math.pi))
    height = e * max(abs(j1), abs(j2))
    return Box(low, high, gap_low, d2 * c, min(height, e) if cap else height)


def _mean(product: float, gap: float) -> float:
    """S = sqrt(m + d^2/4) = (v + wx)/2."""
    return math.sqrt(product + gap**2 / 4)


def _candidates(a: float, b: float, c: float, low: float, high: float) -> list[float]:
    """The points at which x (a - b x)^2 - c x can be extreme on [low, high]: its ends, and the roots of (a - b x)(a - 3
    b x) = c."""
    root = math.sqrt(a**2 + 3 * c)
    inside = [x for x in ((2 * a - root) / (3 * b), (2 * a + root) / (3 * b)) if low < x < high]
    return [low, high, *inside]


I1, I4, I7 = (
    Box(0.213, 0.4, -0.017, 0.17, 0.44),
    Box(0.55, 0.8, -0.162, 0.068, 0.416),
    Box(1.0, 1.12131, -0.162, 0.068, 0.416),
)
PRINTED = {
    I1: {"product_low": 0.551, "product_high": 1.12131, "gap_low": -0.162, "height": 0.416},
    I4: {"product_low": 0.942, "product_high": 1.25786, "gap_low": -0.309, "height": 0.214},
    I7: {"product_low": 0.595, "product_high": 1.0, "gap_low": -0.394, "gap_high": 0.078, "height": 0.134},
}
"""Boxes of Appendix B.9 and their images, as printed."""


def printed_misses() -> list[float]:
    """How far the images of the printed boxes are from the printed numbers."""
    misses = []
    for box, printed in PRINTED.items():
        found = propagate(box, "printed")._asdict()
        misses += [abs(found[name] - value) / LAST_DIGIT.get(name, 1e-3) for name, value in printed.items()]
    return misses


LAST_DIGIT = {"product_high": 1e-5}
