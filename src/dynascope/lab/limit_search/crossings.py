"""Limits between points: pairs of neighbors with different verdicts, and how well each of them is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dynascope.lab.limit_search.points import Point
from dynascope.lab.limit_search.ranges import Range
from dynascope.lab.limit_search.search import COARSE, few_integers

JUMP = 100
"""If two margins differ by more than this factor, the margin jumps, and no straight line is drawn between them."""


@dataclass(frozen=True)
class Crossing:
    """A limit between a point at which the claim holds and a neighbor at which it fails."""

    holds: Point
    fails: Point
    place: tuple[float, ...]
    """The estimate: the zero of a straight line through the margins, else the middle."""
    uncertainty: float
    """How far the limit may be from the estimate, as a share of the ranges: to the farther of the two points, or to the
    farthest point nearby at which seeds disagree, in the direction from the one to the other."""
    by_margin: bool
    """Whether the margins gave the estimate."""


def crossings(points: Sequence[Point], ranges: Sequence[Range]) -> list[Crossing]:
    """The limits between neighboring points; between neighboring integers too, unless each has its own limits.

    Args:
        points: The points that were looked at.
        ranges: The ranges.
    """
    judged = judged_within(points)
    steps = [span.step for span in ranges]
    fixed = few_integers(steps)
    free = [number for number in range(len(ranges)) if number not in fixed]
    groups: dict[tuple[int, ...], list[Point]] = {}
    for point in judged:
        groups.setdefault(tuple(int(point.values[number]) for number in fixed), []).append(point)
    found = []
    for group in groups.values():
        places = np.array([[point.place[number] for number in free] for point in group])
        for a, b in sorted(set(_edges(places))):
            if group[a].holds != group[b].holds:
                holds, fails = (group[a], group[b]) if group[a].holds else (group[b], group[a])
                found.append(_crossing(holds, fails, group))
    return found


def judged_within(points: Sequence[Point]) -> list[Point]:
    """The points within the ranges at which the claim was judged: the default setting may lie outside.

    Args:
        points: The points that were looked at.
    """
    return [point for point in points if point.holds is not None and all(0 <= at <= 1 for at in point.place)]


def _crossing(holds: Point, fails: Point, group: Sequence[Point]) -> Crossing:
    by_margin = holds.smooth and fails.smooth and holds.margin > 0 >= fails.margin
    by_margin &= fails.margin == 0 or -fails.margin / JUMP <= holds.margin <= -fails.margin * JUMP
    share = holds.margin / (holds.margin - fails.margin) if by_margin else 0.5
    one, other = np.array(holds.place), np.array(fails.place)
    place = one + share * (other - one)
    apart = float(np.linalg.norm(other - one))
    spacing = max(share, 1 - share) * apart
    mixed = np.array([point.place for point in group if point.disagree]).reshape(-1, len(place)) - place
    across = np.abs(mixed[np.linalg.norm(mixed, axis=1) < COARSE] @ (other - one)) / apart
    uncertainty = max(spacing, float(across.max(initial=0.0)))
    return Crossing(holds, fails, tuple(map(float, place)), uncertainty, by_margin)


def _edges(places: np.ndarray) -> Iterator[tuple[int, int]]:
    """Pairs of neighbors: next to each other on a line, else joined by an edge of Delaunay's triangulation."""
    from scipy.spatial import Delaunay, QhullError

    count, dimensions = places.shape
    if dimensions == 1:
        order = np.argsort(places[:, 0])
        yield from ((int(a), int(b)) for a, b in itertools.pairwise(order))
    elif count > dimensions:
        try:
            simplices = Delaunay(places).simplices
        except QhullError:
            return
        for simplex in simplices:
            yield from ((int(min(pair)), int(max(pair))) for pair in itertools.combinations(simplex, 2))


def share_holding(points: Sequence[Point], ranges: Sequence[Range], drawn: int = 4096) -> float:
    """The share of the ranges in which the claim holds: of places drawn evenly, by the verdict at the nearest point.

    Args:
        points: The points that were looked at.
        ranges: The ranges.
        drawn: The number of places, a power of 2.
    """
    from scipy.spatial import KDTree
    from scipy.stats import qmc

    judged = judged_within(points)
    places = qmc.Sobol(len(ranges), scramble=False).random(drawn)
    known = np.array([point.place for point in judged])
    for number in few_integers([span.step for span in ranges]):  # an integer is nearest to itself
        step = ranges[number].step
        places[:, number] = np.minimum(np.floor(places[:, number] * (1 / step + 1)), round(1 / step)) * step * 10
        known[:, number] *= 10
    nearest = KDTree(known).query(places)[1]
    return float(np.mean(np.array([bool(point.holds) for point in judged])[nearest]))
