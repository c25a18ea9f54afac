"""Plateaus and jumps of a recorded curve, and when each of several entries switches on or off, with uncertainties.

The curves of "Transformers learn through gradual rank increase" are flat for long and change fast in between. A plateau
is a stretch on which the curve's slope is at most `flat` times its size per unit of time; a jump lies between two
plateaus of different level. Values that are not finite are left out, as if they had not been recorded: the stable rank
of a perturbation has none at the start. One curve at a time.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from dynascope import checks
from dynascope.curves._inputs import as_float, check_times
from dynascope.curves.stages import first_crossing

Curve = Float[np.ndarray, " time"]


class Plateau(NamedTuple):
    """A stretch on which the curve is flat."""

    start: float
    """The time at which it begins."""
    end: float
    """The time at which it ends."""
    level: float
    """The median of the curve on it."""
    spread: float
    """The standard deviation of the curve on it: noise and drift."""


class Jump(NamedTuple):
    """The change between two plateaus."""

    time: float
    """Half-way between the end of one and the start of the next."""
    uncertainty: float
    """Half of the time between them and half of the recording interval at either end: the jump is within it."""
    half: float
    """When the curve first crosses the middle between the two levels."""
    half_uncertainty: float
    """The recording interval in which it does."""
    before: float
    """The level of the plateau before it."""
    after: float
    """The level of the plateau after it."""


class Active(NamedTuple):
    """A stretch on which an entry exceeds a threshold in size."""

    on: float
    """When it begins; the first time of the record if the entry is there from the start."""
    on_uncertainty: float
    """The recording interval in which it begins."""
    off: float
    """When it ends; nan if it goes on to the end of the record."""
    off_uncertainty: float
    """The recording interval in which it ends."""
    sign: int
    """The sign of the entry on it, 1 or -1."""


def slopes(curve: ArrayLike, times: ArrayLike, window: float = 0.0) -> Curve:
    """The slope at each time: the least-squares line over `window` around it, or over its neighbors if that is
    wider. A window averages noise out, and smears jumps by as much."""
    checks.real("window", window, at_least=0)
    values, clock = _checked(curve, times)
    index = np.arange(len(clock))
    low = np.minimum(np.searchsorted(clock, clock - window / 2, side="left"), np.maximum(index - 1, 0))
    high = np.maximum(np.searchsorted(clock, clock + window / 2, side="right"), np.minimum(index + 2, len(clock)))
    return np.array([_slope(values[i:j], clock[i:j]) for i, j in zip(low, high, strict=True)])


def _slope(values: Curve, clock: Curve) -> float:
    since = clock - clock[0]
    since = since - since.mean()
    return float(since @ (values - values[0]) / (since @ since))


def plateaus(
    curve: ArrayLike,
    times: ArrayLike,
    *,
    flat: float = 0.02,
    shortest: float = 0.0,
    window: float = 0.0,
    size: float | None = None,
) -> list[Plateau]:
    """The stretches on which |slope| <= `flat` * `size` per unit of time, in order.

    Args:
        curve: The values, `(time,)`; at least 3 of them finite.
        times: Increasing times, `(time,)`, evenly spaced or not.
        flat: The largest slope that counts as flat, relative to `size`.
        shortest: The shortest time that a plateau lasts.
        window: The time over which a slope is fitted. It averages noise out, and smears jumps by as much.
        size: The scale of slopes, such as the first loss. Default: the range of the curve.
    """
    checks.real("flat", flat, at_least=0)
    checks.real("shortest", shortest, at_least=0)
    values, clock = _recorded(curve, times)
    still = np.abs(slopes(values, clock, window)) <= flat * _size(values, size)
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
    size: float | None = None,
) -> list[Jump]:
    """The changes between consecutive plateaus that differ by more than `smallest` * `size`, in order.

    Args:
        curve: The values, `(time,)`; at least 3 of them finite.
        times: Increasing times, `(time,)`, evenly spaced or not.
        flat: The largest slope that counts as flat, relative to `size`.
        shortest: The shortest time that a plateau lasts.
        window: The time over which a slope is fitted; see `plateaus`.
        smallest: The smallest change of level that counts, relative to `size`.
        size: The scale of slopes and levels. Default: the range of the curve.
    """
    checks.real("smallest", smallest, at_least=0)
    values, clock = _recorded(curve, times)
    stretches = plateaus(values, clock, flat=flat, shortest=shortest, window=window, size=size)
    spacing = np.diff(clock)
    found = []
    for before, after in pairwise(stretches):
        if abs(after.level - before.level) <= smallest * _size(values, size):
            continue
        first, last = np.searchsorted(clock, [before.end, after.start])
        middle = (before.level + after.level) / 2
        falling = after.level < before.level
        crossing = first_crossing(values[first : last + 1], middle, clock[first : last + 1], falling=bool(falling))
        grid = spacing[max(first - 1, 0)] + spacing[min(last, len(spacing) - 1)]
        found.append(
            Jump(
                time=(before.end + after.start) / 2,
                uncertainty=float((after.start - before.end + grid) / 2),
                half=float(crossing.time),
                half_uncertainty=float(crossing.uncertainty),
                before=before.level,
                after=after.level,
            )
        )
    return found


def switches(entries: Float[np.ndarray, "time entry"], times: ArrayLike, threshold: float = 1e-3) -> list[list[Active]]:
    """The stretches on which each entry exceeds a threshold in size.

    Crossings are interpolated in the logarithm, since entries grow and decay exponentially. An entry that leaves and
    comes back has two.

    Args:
        entries: The entries, `(time, entry)`.
        times: Increasing times, `(time,)`.
        threshold: The size above which an entry is on.
    """
    values = as_float("entries", entries, ndim=2)
    clock = check_times(times, len(values))
    checks.real("threshold", threshold, above=0)
    return [sorted(_stretches(one, clock, threshold, 1) + _stretches(-one, clock, threshold, -1)) for one in values.T]


def _stretches(entry: Curve, clock: Curve, threshold: float, sign: int) -> list[Active]:
    """The stretches on which the entry itself, not its size, exceeds the threshold."""
    level, logs = np.log(threshold), np.log(np.maximum(entry, np.finfo(float).tiny))
    found = []
    for first, last in _runs(logs > level):
        before, after = slice(max(first - 1, 0), first + 1), slice(last, last + 2)
        on = first_crossing(logs[before], level, clock[before])
        off = first_crossing(logs[after], level, clock[after], falling=True)
        found.append(Active(float(on.time), float(on.uncertainty), float(off.time), float(off.uncertainty), sign))
    return found


def support_size(entries: Float[np.ndarray, "... entry"], threshold: float = 1e-3) -> Int[np.ndarray, ...]:
    """How many entries exceed a threshold in size: the rank of a diagonal matrix.

    Args:
        entries: The entries, `(..., entry)`.
        threshold: The size above which an entry counts.
    """
    checks.real("threshold", threshold, at_least=0)
    return np.asarray((np.abs(as_float("entries", entries)) > threshold).sum(axis=-1))


def _runs(flags: Bool[np.ndarray, " time"]) -> list[tuple[int, int]]:
    """First and last index of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def _size(values: Curve, size: float | None) -> float:
    return float(np.ptp(values)) if size is None else checks.real("size", size, above=0)


def _recorded(curve: ArrayLike, times: ArrayLike) -> tuple[Curve, Curve]:
    """The finite values of a curve, and their times."""
    values, clock = _checked(curve, times)
    finite = np.isfinite(values)
    if finite.sum() < 3:
        raise ValueError(f"curve must have at least 3 finite values; got {finite.sum()} of {len(values)}")
    return values[finite], clock[finite]


def _checked(curve: ArrayLike, times: ArrayLike) -> tuple[Curve, Curve]:
    values = as_float("curve", curve, ndim=1)
    if len(values) < 3:
        raise ValueError(f"curve must have at least 3 values; got {len(values)}")
    return values, check_times(times, len(values))
