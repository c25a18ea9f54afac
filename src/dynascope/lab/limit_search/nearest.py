"""The smallest change of the default setting that changes the verdict of a claim."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dynascope.lab.limit_search.crossings import Crossing
from dynascope.lab.limit_search.points import Point
from dynascope.lab.limit_search.ranges import Range


@dataclass(frozen=True)
class SmallestChange:
    """The change of verdict that is nearest to the default setting."""

    place: tuple[float, ...]
    distance: float
    """From the default setting, in shares of the ranges, each in its own scale."""
    uncertainty: float
    """0 if it is a point that was run."""
    point: Point
    """The nearest point that was run and has the other verdict."""


def smallest_change(
    origin: Point, points: Sequence[Point], found: Sequence[Crossing], ranges: Sequence[Range]
) -> SmallestChange | None:
    """The nearest limit to the default setting; None if that was not judged, has no place, or no point differs.

    Args:
        origin: The default setting.
        points: The points that were looked at.
        found: The limits between them.
        ranges: The ranges.
    """
    if origin.holds is None or not origin.place or not all(map(math.isfinite, origin.place)):
        return None
    others = [point for point in points if point.holds is not None and point.holds != origin.holds]
    if not others:
        return None
    nearest = min(others, key=lambda point: _apart(point.place, origin.place))
    place, uncertainty = min(_candidates(others, found, ranges), key=lambda pair: _apart(pair[0], origin.place))
    return SmallestChange(place, _apart(place, origin.place), uncertainty, nearest)


def _candidates(
    others: Sequence[Point], found: Sequence[Crossing], ranges: Sequence[Range]
) -> Iterator[tuple[tuple[float, ...], float]]:
    """Limits between points; if only integers lie between them, and elsewhere, the points themselves."""
    yield from ((point.place, 0.0) for point in others)
    whole = [number for number, span in enumerate(ranges) if span.whole]
    for each in found:
        if all(each.holds.values[number] == each.fails.values[number] for number in whole):
            yield each.place, each.uncertainty


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.linalg.norm(np.subtract(one, other)))
