"""By how much a claim holds or fails: the distance of what was measured to the threshold, from the claim itself.

A claim of `lab.criteria` writes its threshold into `expected` and its numbers into `measured`, in a fixed form. The
margin is read from there, in the units of what was measured: positive if the claim holds, negative if it fails. A share
has half a case between holding and failing. A claim that is written otherwise has no margin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
LIMIT = re.compile(rf"(?:(largest|smallest|median) )?([<>]) {NUMBER}")
SHARE = re.compile(rf"share (?:=|≥) {NUMBER}(?:, of ≥ (\d+))?")
RANGE = re.compile(rf"{NUMBER} to {NUMBER}")
AGREES = re.compile(rf"{NUMBER} (?:± {NUMBER}|to {NUMBER} %)")
DIFFERS = re.compile(rf"(difference|relative difference) ≤ {NUMBER}")
ROUNDED = 1e-5
"""Numbers of claims have six digits: nearer to a threshold than this share of it, the verdict knows better."""


def margin_of(claim: Mapping[str, object]) -> float | None:
    """The signed distance of a claim's number to its threshold; None if it states no such numbers.

    Args:
        claim: A claim as plain values.
    """
    measured, expected = claim["measured"], claim["expected"]
    if isinstance(measured, Mapping) and "measured" in measured:
        measured = measured["measured"]
    found = _distance(measured, expected) if isinstance(expected, str) else None
    if found is None or not math.isfinite(found[0]):
        return None
    distance, scale = found
    holds = claim["verdict"] != "fails"
    if (distance > 0) == holds:
        return distance
    if abs(distance) <= ROUNDED * max(abs(scale), abs(distance)):
        return ROUNDED * abs(scale) * (1 if holds else -1) or None
    return None


def is_step(claim: Mapping[str, object]) -> bool:
    """Whether its margin jumps at a limit instead of passing through zero, as a share of few cases does.

    Args:
        claim: A claim as plain values.
    """
    return isinstance(claim["expected"], str) and SHARE.fullmatch(claim["expected"]) is not None


def _distance(measured: object, expected: str) -> tuple[float, float] | None:
    """The distance to the nearest threshold, and the size of the threshold."""
    if matched := SHARE.fullmatch(expected):
        return _of_share(measured, float(matched[1]), int(matched[2] or 1))
    if matched := RANGE.fullmatch(expected):
        low, high = float(matched[1]), float(matched[2])
        return _least(measured, lambda least, most: min(least - low, high - most), max(abs(low), abs(high)))
    if matched := AGREES.fullmatch(expected):
        center = float(matched[1])
        room = float(matched[2]) if matched[2] else abs(center) * float(matched[3]) / 100
        return _least(measured, lambda least, most: room - max(center - least, most - center), max(abs(center), room))
    if matched := DIFFERS.fullmatch(expected):
        largest = measured.get(f"largest {matched[1]}") if isinstance(measured, Mapping) else None
        return (float(matched[2]) - float(largest), float(matched[2])) if isinstance(largest, int | float) else None
    if expected in ("rising", "falling"):
        numbers = _numbers(measured)
        if numbers is None or len(numbers) < 2:
            return None
        steps = np.diff(numbers) * (1 if expected == "rising" else -1)
        return float(steps.min()), float(np.abs(numbers).max())
    return _of_limits(measured, expected)


def _of_limits(measured: object, expected: str) -> tuple[float, float] | None:
    """`> 0.5`, or `largest < 3, median < 1`: the least of the distances."""
    found = []
    for part in expected.split(", "):
        matched = LIMIT.fullmatch(part)
        value = _statistic(measured, matched[1]) if matched else None
        if not matched or value is None:
            return None
        limit = float(matched[3])
        found.append((value - limit if matched[2] == ">" else limit - value, limit))
    return min(found, key=lambda pair: pair[0])


def _of_share(measured: object, wanted: float, cases: int) -> tuple[float, float] | None:
    if not isinstance(measured, Mapping) or not isinstance(measured.get("share"), int | float):
        return None
    of = int(measured.get("of", 0))
    if of < cases:
        return None
    count, needed = round(measured["share"] * of), math.ceil(wanted * of - 1e-9)
    return (count - needed + 0.5) / of, 1.0


def _least(measured: object, distance: Callable[[float, float], float], scale: float) -> tuple[float, float] | None:
    least, most = _statistic(measured, "smallest"), _statistic(measured, "largest")
    return None if least is None or most is None else (distance(least, most), scale)


def _statistic(measured: object, name: str | None) -> float | None:
    """A statistic of what was measured: as it is stated, or of the numbers themselves."""
    if name and isinstance(measured, Mapping) and isinstance(measured.get(name), int | float):
        return float(measured[name])
    numbers = _numbers(measured)
    if numbers is None or (name is None and numbers.size > 1):
        return None
    return float({"largest": np.max, "smallest": np.min, "median": np.median, None: np.max}[name](numbers))


def _numbers(measured: object) -> np.ndarray | None:
    """One number, or a flat list or mapping of numbers; None otherwise."""
    if isinstance(measured, Mapping):
        measured = list(measured.values())
    values = measured if isinstance(measured, Sequence) and not isinstance(measured, str) else [measured]
    if not values or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return None
    return np.array(values, float)
