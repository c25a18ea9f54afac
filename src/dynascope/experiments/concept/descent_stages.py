"""The turning points of the test loss of a run, and the stages of the Jacobian between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from dynascope.curves import stages
from dynascope.experiments.concept.transients import off_by
from dynascope.theory.concept.starts import random_factor


class Reference(NamedTuple):
    """A start and the turns of its test loss in an independent program. `spread` is 0 for a Gaussian start, else the
    epsilon of an aligned start."""

    seed: int
    scale: float
    spread: float
    extrema: tuple[tuple[float, int | None], ...]
    """For each turn the loss over its first value, and the step (None if only the value is known)."""

    @property
    def name(self) -> str:
        spread = f", {self.spread:g}" if self.spread else ""
        return f"{'aligned' if spread else 'gauss'}({self.seed}, {self.scale:g}{spread})"

    def start(self, concepts: int) -> np.ndarray:
        """U(0), (concept, width)."""
        return random_factor(self.seed, self.scale, self.spread, concepts)


def turns_of(losses: np.ndarray, tolerance: float, most: int) -> xr.DataArray:
    """The turning points of curves (start, step): `(start, turn, reading)`, the loss over its first value and the step;
    nan beyond the last of them. A curve that turns more than `most` times has its first turns."""
    found = np.full((len(losses), most, 2), np.nan)
    for row, loss in zip(found, losses, strict=True):
        points = stages.turning_points(loss, tolerance)[:most]
        row[: len(points)] = [(point.value / loss[0], point.at) for point in points] or np.empty((0, 2))
    coords = {"turn": np.arange(1, most + 1), "reading": ["loss", "step"]}
    return xr.DataArray(found, coords, dims=("start", "turn", "reading"))


def off_reference(turns: xr.DataArray, references: Sequence[Reference]) -> np.ndarray:
    """The largest distance of each run's turns from the reference's: below 1 within 1 % and rounding; infinite if the
    numbers of turns differ."""
    worst = []
    for reference, found in zip(references, turns.values, strict=True):
        known = np.array(reference.extrema, float)
        same = np.isfinite(found[:, 0]).sum() == len(known)
        digits = np.stack([np.where(known[:, 0] < 0.01, 4, 3), np.zeros(len(known))], axis=1)
        worst.append(np.nanmax(off_by(found[: len(known)], known, digits)) if same else np.inf)
    return np.array(worst)


class Alternation(NamedTuple):
    """The stages of one run relative to the turning points of its loss, strongest concept first. A run without a
    descent for every concept has no stages: nan, and False."""

    in_descent: np.ndarray
    """For each concept: its major reaches 1/2 during the descent of the same number."""
    group_left: np.ndarray
    """For each ascent: the remainder, at its end, of the minors between that concept and all weaker ones."""
    waits: np.ndarray
    """For each but the strongest: its major reaches 1/2 after the minor with the concept before it has peaked."""
    minor_left: np.ndarray
    """The remainder of that minor at this step, as a share of its peak."""
    unsuppressed: np.ndarray
    """The remainder of that minor when its weaker major reaches a tenth, as a share of its peak."""
    dominant: np.ndarray
    """The stronger of the two majors when that minor has lost a tenth of its peak."""
    dominant_at_peak: np.ndarray
    """The stronger of the two majors when that minor is at its peak, where it starts to decay."""

    def dataset(self) -> xr.Dataset:
        dims = {"in_descent": "rank"}
        return xr.Dataset({name: (dims.get(name, "minor"), value) for name, value in self._asdict().items()})


def alternation(W: np.ndarray, loss: np.ndarray, a: np.ndarray, tolerance: float) -> Alternation:
    """The stages of one run, `W` of axes (step, row, column)."""
    order, last = np.argsort(-a), len(a) - 1
    half, tenth = ([float(stages.first_crossing(W[:, k, k], level).time) for k in order] for level in (0.5, 0.1))
    at = [turn.at for turn in stages.turning_points(loss, tolerance)]
    none = np.full(last, np.nan)
    if len(at) != 2 * last or np.isnan(half).any():
        return Alternation(np.zeros(last + 1, bool), none, np.zeros(last, bool), none, none, none, none)
    ends = [-1, *at, len(loss)]
    in_descent = [ends[2 * k] < half[k] < ends[2 * k + 1] for k in range(len(a))]
    time, rows = np.arange(len(loss)), []
    for k, (i, j) in enumerate(itertools.pairwise(order)):
        group, minor = np.linalg.norm(W[:, i, order[k + 1 :]], axis=1), np.abs(W[:, i, j])
        peak, lost = stages.peak(minor), float(stages.time_below_peak(minor, 0.9).time)
        left, early = (np.interp(when[k + 1], time, minor) / peak.value for when in (half, tenth))
        late, turning = (np.interp(when, time, W[:, i, i]) for when in (lost, float(peak.time)))
        waits = half[k + 1] > float(peak.time)
        rows.append((group[at[2 * k + 1]] / group[at[2 * k]], waits, left, early, late, turning))
    return Alternation(np.array(in_descent), *(np.array(column) for column in zip(*rows, strict=True)))
