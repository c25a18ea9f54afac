"""The choice of the next points: the library `adaptive` divides the ranges into intervals, triangles or simplices, and
requests points in those with the largest loss.

The loss is the length of the longest edge, in shares of the ranges. It counts in full if the verdict differs between
the corners, and for a small part if it does not. In the latter case edges are divided until they are short enough to
show a limit that is wider than they are: up to twice as short if the margin at one corner is much smaller than at
another, since then the limit may be near.

Real fields beside a few integers are searched for each of these by a learner of its own, as `adaptive.BalancingLearner`
would; that one copies a learner for each question. If there are many integers, a place is rounded to the nearest, and a
change between neighboring integers is not followed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from dynascope.lab.errors import UsageError

ELSEWHERE = 0.15
"""The weight of a simplex in which nothing changes."""
COARSE = 0.15
"""Edges at which the verdict does not change are divided until they are shorter than this share of the ranges."""
MOST_LEARNERS = 16
"""The most combinations of integers that have a learner each."""
Place = tuple[float, ...]


class Search:
    """Points in the unit cube: places are requested and their margins reported in turns; the same answers give the same
    points.

    Args:
        steps: For each coordinate, the distance of two integers; 0 for real numbers.
        resolution: Edges at which the verdict changes are divided until they are shorter.
    """

    def __init__(self, steps: Sequence[float], resolution: float):
        self._fixed = few_integers(steps)
        self._free = [number for number in range(len(steps)) if number not in self._fixed]
        self._steps = [steps[number] for number in self._fixed]
        loss = _Loss(np.array([steps[number] for number in self._free], float), resolution)
        places = itertools.product(*(range(round(1 / step) + 1) for step in self._steps))
        self._learners = {place: _Learner(len(self._free), loss) for place in places}

    def ask(self) -> Place | None:
        """The next place; None if every limit is known to the resolution."""
        integers, learner = max(self._learners.items(), key=lambda item: item[1].priority)
        if not learner.priority:
            return None
        place = dict(zip(self._free, learner.ask(), strict=True))
        pairs = zip(self._fixed, integers, self._steps, strict=True)
        place |= {number: min(k * step, 1.0) for number, k, step in pairs}
        return tuple(place[number] for number in range(len(place)))

    def tell(self, place: Place, value: float) -> None:
        """Report the margin at a place: positive if the claim holds, negative if it fails, 0 if unknown."""
        integers = tuple(round(place[number] / step) for number, step in zip(self._fixed, self._steps, strict=True))
        self._learners[integers].tell(tuple(place[number] for number in self._free), value)


def few_integers(steps: Sequence[float]) -> list[int]:
    """The coordinates that are few integers beside real numbers: each combination of them is searched by itself.

    Args:
        steps: For each coordinate, the distance of two integers; 0 for real numbers.
    """
    counts = [round(1 / step) + 1 for step in steps if step]
    apart = bool(counts) and len(counts) < len(steps) and prod(counts) <= MOST_LEARNERS
    return [number for number, step in enumerate(steps) if step and apart]


class _Learner:
    """A learner of `adaptive` in one or several coordinates."""

    def __init__(self, dimensions: int, loss: _Loss):
        adaptive = _import_adaptive()
        self._alone, self._corners = dimensions == 1, set(itertools.product((0.0, 1.0), repeat=dimensions))
        self._waiting: set[Place] = set()
        self._learner: Any
        if self._alone:
            self._learner = adaptive.Learner1D(None, (0.0, 1.0), loss.of_interval)
        else:
            self._learner = adaptive.LearnerND(None, [(0.0, 1.0)] * dimensions, loss.of_simplex)

    @property
    def priority(self) -> float:
        """The loss that remains, reduced if answers are pending; 0 if nothing is left."""
        if self._corners - self._waiting:
            return np.inf
        loss = float(self._learner.loss())
        return (loss if np.isfinite(loss) else 1.0) / (1 + len(self._waiting))

    def ask(self) -> Place:
        """The next place."""
        if missing := sorted(self._corners - self._waiting):
            self._learner.tell_pending(missing[0][0] if self._alone else missing[0])
            self._waiting.add(missing[0])
            return missing[0]
        (place,), _ = self._learner.ask(1)
        found = (float(place),) if self._alone else tuple(map(float, place))
        self._waiting.add(found)
        return found

    def tell(self, place: Place, value: float) -> None:
        """Report the value at a place."""
        self._waiting.discard(place)
        self._corners.discard(place)
        self._learner.tell(place[0] if self._alone else place, float(np.clip(value, -1e12, 1e12)))


def _import_adaptive() -> Any:
    """The library `adaptive`, which would install uvloop's event loop for the whole process if it found it."""
    modules: dict[str, Any] = sys.modules
    before = {name: modules[name] for name in ("uvloop",) if name in modules}
    modules["uvloop"] = None
    try:
        return import_module("adaptive")
    except ImportError:
        raise UsageError("limits need adaptive: pip install 'dynascope[limits]'") from None
    finally:
        del modules["uvloop"]
        modules.update(before)


class _Loss:
    """The loss of an interval or a simplex."""

    def __init__(self, steps: np.ndarray, resolution: float):
        self.steps, self.resolution = steps, resolution

    def of_interval(self, xs: Sequence[float], ys: Sequence[float]) -> float:
        """As `adaptive.Learner1D` calls it."""
        return self.of_simplex(np.asarray(xs, float)[:, None], np.asarray(ys, float), 1.0)

    def of_simplex(self, simplex: np.ndarray, values: np.ndarray, scale: float) -> float:
        """As `adaptive.LearnerND` calls it, which scales values and keeps their signs."""
        corners, values = np.asarray(simplex, float), np.asarray(values, float).ravel()
        longest = {True: 0.0, False: 0.0}
        for a, b in itertools.combinations(range(len(corners)), 2):
            length = np.linalg.norm(np.maximum(np.abs(corners[a] - corners[b]) - self.steps, 0.0))
            changes = bool(values[a] * values[b] < 0) and not self._beside(corners[a], corners[b])
            longest[changes] = max(longest[changes], float(length))
        if longest[True] > self.resolution:
            return longest[True]
        sizes = np.abs(values)
        near = 1 - sizes.min() / sizes.max() if sizes.min() > 0 else 0.0
        return ELSEWHERE * longest[False] if longest[False] > COARSE * (1 - near / 2) else 0.0

    def _beside(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether two places are at neighboring integers: there is nothing between them."""
        known = self.steps > 0
        apart = np.abs(np.round(one[known] / self.steps[known]) - np.round(other[known] / self.steps[known]))
        return bool(apart.size and apart.max() == 1)
