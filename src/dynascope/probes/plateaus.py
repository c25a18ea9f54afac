"""Plateaus and jumps of a recorded curve, and when each of several entries switches on or off, with uncertainties.

"Transformers learn through gradual rank increase" speaks of curves that stand still for long and change fast between.
A plateau is a stretch on which the curve's slope stays below `flat` times its first value per unit of time; a jump is
what lies between two plateaus of different level. Times are as given, and need not be evenly spaced. One curve at a
time; arrays in, NumPy out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from dynascope.probes.stages import first_crossing

Curve = Float[np.ndarray, " time"]


class Plateau(NamedTuple):
    """A stretch on which the curve stands still."""

    start: float
    end: float
    level: float
    """The median of the curve on it."""
    spread: float
    """The standard deviation of the curve on it: what noise and drift leave."""


class Jump(NamedTuple):
    """What lies between two plateaus."""

    time: float
    """Half-way between the end of one and the start of the next."""
    uncertainty: float
    """Half of the time between them and half of the recording interval at either end: the jump is within it."""
    half: float
    """When the curve first crosses the middle between the two levels."""
    half_uncertainty: float
    """The recording interval in which it does."""
    before: float
    after: float


class Switch(NamedTuple):
    """The times at which an entry first exceeds a threshold in size, and last falls below it again."""

    on: Float[np.ndarray, " entry"]
    """nan where it never does."""
    on_uncertainty: Float[np.ndarray, " entry"]
    off: Float[np.ndarray, " entry"]
    """nan where the entry has not gone back below by the end of the record."""
    off_uncertainty: Float[np.ndarray, " entry"]


def slopes(curve: ArrayLike, times: ArrayLike, window: float = 0.0) -> Curve:
    """The slope at each time: the least-squares line over `window` around it, or over its neighbours if that is
    wider. A window averages noise out, and smears jumps by as much."""
    values, clock = _checked(curve, times)
    index = np.arange(len(clock))
    low = np.minimum(np.searchsorted(clock, clock - window / 2, side="left"), np.maximum(index - 1, 0))
    high = np.maximum(
        np.searchsorted(clock, clock + window / 2, side="right") - 1, np.minimum(index + 1, len(clock) - 1)
    )
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in (clock, values, clock * values, clock**2)]
    count = high - low + 1
    t, y, ty, tt = (part[high + 1] - part[low] for part in sums)
    return (ty - t * y / count) / (tt - t**2 / count)


def plateaus(
    curve: ArrayLike, times: ArrayLike, *, flat: float = 0.02, shortest: float = 0.0, window: float = 0.0
) -> list[Plateau]:
    """The stretches, at least `shortest` long, on which |slope| < `flat` * |curve[0]| per unit of time."""
    values, clock = _checked(curve, times)
    still = np.abs(slopes(values, clock, window)) < flat * abs(values[0])
    found = []
    for first, last in _runs(still):
        if last > first and clock[last] - clock[first] >= shortest:
            part = values[first : last + 1]
            found.append(Plateau(float(clock[first]), float(clock[last]), float(np.median(part)), float(np.std(part))))
    return found


def jumps(
    curve: ArrayLike,
    times: ArrayLike,
    *,
    flat: float = 0.02,
    shortest: float = 0.0,
    window: float = 0.0,
    smallest: float = 0.0,
) -> list[Jump]:
    """The changes between consecutive plateaus that differ by more than `smallest` * |curve[0]|, in order."""
    values, clock = _checked(curve, times)
    stretches = plateaus(values, clock, flat=flat, shortest=shortest, window=window)
    spacing = np.diff(clock)
    found = []
    for before, after in pairwise(stretches):
        if abs(after.level - before.level) <= smallest * abs(values[0]):
            continue
        first, last = np.searchsorted(clock, [before.end, after.start])
        middle = (before.level + after.level) / 2
        falling = after.level < before.level
        crossing = first_crossing(values[first : last + 1], middle, clock[first : last + 1], falling=bool(falling))
        grid = spacing[max(first - 1, 0)] + spacing[min(last, len(spacing) - 1)]
        found.append(
            Jump(
                time=(before.end + after.start) / 2, uncertainty=float((after.start - before.end + grid) / 2),
                half=float(crossing.time), half_uncertainty=float(crossing.uncertainty),
                before=before.level, after=after.level,
            )
        )  # fmt: skip
    return found


def switches(entries: Float[np.ndarray, "time entry"], times: ArrayLike, threshold: float = 1e-3) -> Switch:
    """When each entry first exceeds `threshold` in size, and when it last fell below it, if it is below at the end.
    Crossings are interpolated in the logarithm, since entries grow and decay exponentially."""
    size = np.abs(np.asarray(entries, float))
    clock = np.asarray(times, float)
    if size.ndim != 2 or size.shape[0] != len(clock):
        raise ValueError(f"entries must be (time, entry) with {len(clock)} times; got shape {size.shape}")
    logs = np.log(np.maximum(size, np.finfo(float).tiny)).T
    on = first_crossing(logs, np.log(threshold), clock)
    backwards = first_crossing(logs[:, ::-1], np.log(threshold), clock[-1] - clock[::-1])
    ended = (logs[:, -1] < np.log(threshold)) & np.isfinite(backwards.time)
    return Switch(
        np.asarray(on.time), np.asarray(on.uncertainty),
        np.where(ended, clock[-1] - backwards.time, np.nan), np.where(ended, backwards.uncertainty, np.nan),
    )  # fmt: skip


def support_size(entries: Float[np.ndarray, "... entry"], threshold: float = 1e-3) -> Int[np.ndarray, ...]:
    """How many entries exceed the threshold: the rank of a diagonal matrix."""
    return np.asarray((np.abs(entries) > threshold).sum(axis=-1))


def _runs(flags: Bool[np.ndarray, " time"]) -> list[tuple[int, int]]:
    """First and last index of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _checked(curve: ArrayLike, times: ArrayLike) -> tuple[Curve, Curve]:
    values, clock = np.asarray(curve, float), np.asarray(times, float)
    if values.ndim != 1 or values.shape != clock.shape or len(clock) < 3:
        raise ValueError(f"a curve and its times need one shape (n,), n at least 3; got {values.shape}, {clock.shape}")
    if not np.all(np.diff(clock) > 0):
        raise ValueError("times must increase")
    return values, clock
