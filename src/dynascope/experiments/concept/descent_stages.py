"""Where the test loss of a run turns, and the stages of the Jacobian between its turning points."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from dynascope.curves import stages
from dynascope.theory.concept.starts import random_factor


class Reference(NamedTuple):
    """A start and the turns of its test loss in an independent program. `spread` is 0 for a Gaussian start, else the
    epsilon of an aligned start."""

    seed: int
    scale: float
    spread: float
    extrema: tuple[tuple[float, int | None], ...]
    """For each turn the loss over its first value, and the step (None where only the value is known)."""

    @property
    def name(self) -> str:
        spread = f", {self.spread:g}" if self.spread else ""
        return f"{'aligned' if spread else 'gauss'}({self.seed}, {self.scale:g}{spread})"

    def start(self, concepts: int) -> np.ndarray:
        """U(0), (concept, width)."""
        return random_factor(self.seed, self.scale, self.spread, concepts)


def turns_of(loss: np.ndarray, tolerance: float) -> list[stages.TurningPoint]:
    """Turning points with the loss over its first value."""
    return [turn._replace(value=turn.value / float(loss[0])) for turn in stages.turning_points(loss, tolerance)]


def matches(reference: Reference, loss: np.ndarray, tolerance: float) -> bool:
    """Whether every extremum is within 1 % (or half a unit of its last digit), every step within 1 % or one step."""
    turns = turns_of(loss, tolerance)
    if len(turns) != len(reference.extrema):
        return False
    for turn, (value, step) in zip(turns, reference.extrema, strict=True):
        digits = len(f"{value:g}".split(".")[1])
        if abs(turn.value - value) > max(0.01 * value, 0.5 * 10.0**-digits * 1.001):
            return False
        if step is not None and abs(turn.at - step) > max(1.0, 0.01 * step):
            return False
    return True


class Alternation(NamedTuple):
    """How the stages of one run lie between the turning points of its loss, strongest concept first."""

    in_descent: list[bool]
    """For each concept: its major reaches 1/2 during the descent of the same number."""
    group_left: list[float]
    """For each ascent: what is left at its end of the minors between that concept and all weaker ones."""
    waits: list[bool]
    """For each but the strongest: its major reaches 1/2 after the minor with the concept before it has peaked."""
    minor_left: list[float]
    """What is left of that minor then, as a share of its peak."""
    dominant_near_one: list[float]
    """The stronger of the two majors when that minor has lost a tenth of its peak."""


def alternation(W: np.ndarray, loss: np.ndarray, a: np.ndarray, tolerance: float) -> Alternation | None:
    """The stages of one run, `W` of axes (step, row, column); None without a descent for every concept."""
    order = np.argsort(-a)
    turns = stages.turning_points(loss, tolerance)
    half = [float(stages.first_crossing(W[:, k, k], 0.5).time) for k in order]
    if len(turns) != 2 * (len(a) - 1) or np.isnan(half).any():
        return None
    at = [turn.at for turn in turns]
    ends = [-1, *at, len(loss)]
    stage = Alternation([ends[2 * k] < half[k] < ends[2 * k + 1] for k in range(len(a))], [], [], [], [])
    time = np.arange(len(loss))
    for k, (i, j) in enumerate(itertools.pairwise(order)):
        group = np.linalg.norm(W[:, i, order[k + 1 :]], axis=1)
        minor = np.abs(W[:, i, j])
        peak = stages.peak(minor)
        stage.group_left.append(float(group[at[2 * k + 1]] / group[at[2 * k]]))
        stage.waits.append(half[k + 1] > float(peak.time))
        stage.minor_left.append(float(np.interp(half[k + 1], time, minor) / peak.value))
        lost = float(stages.time_below_peak(minor, 0.9).time)
        stage.dominant_near_one.append(float(np.interp(lost, time, W[:, i, i])))
    return stage
