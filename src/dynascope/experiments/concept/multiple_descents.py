"""One descent of the test loss for each concept: what Figures 5, 8 and 9 show, from which starts, and how often."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.curves import stages
from dynascope.experiments.concept.symmetric_drawing import draw_entries, draw_outputs, draw_test_loss
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment, own_seeds, predict_runs
from dynascope.figures.forms import panels
from dynascope.lab.claims import Claim, claim, share_of, shares_agree

SCALES, SPREADS = (0.03, 0.1, 0.3, 0.5), (0.01, 0.03, 0.1, 0.3, 0.5)
"""The map of nearly rank-one starts: their size τ and how far from rank one they are, ε."""


class Reference(NamedTuple):
    """A start whose run was measured before: `spread` is 0 for a Gaussian start, else the aligned start's epsilon."""

    seed: int
    scale: float
    spread: float
    extrema: tuple[tuple[float, int | None], ...]
    """The loss over its first value, and the step (None where only the value was written down), turn by turn."""

    @property
    def name(self) -> str:
        return (
            f"aligned({self.seed}, {self.scale:g}, {self.spread:g})"
            if self.spread
            else f"gauss({self.seed}, {self.scale:g})"
        )


class Occurrence(NamedTuple):
    """How many of how many starts had as many descents as concepts, at a tolerance."""

    scale: float
    spread: float
    tolerance: float
    hits: int
    of: int
    width: int | None = None
    """Columns of U; as many as concepts if not given."""


def turns_of(loss: np.ndarray, tolerance: float) -> list[stages.TurningPoint]:
    """Turning points with the loss over its first value."""
    return [turn._replace(value=turn.value / float(loss[0])) for turn in stages.turning_points(loss, tolerance)]


def matches(reference: Reference, loss: np.ndarray, tolerance: float) -> bool:
    """Every extremum within 1 % (or half a unit of the last digit written down), every step within 1 % or one step."""
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
    """How the stages of one run fall between the turning points of its loss, strongest concept first."""

    in_descent: list[bool]
    """For each concept: its major reaches 1/2 during the descent of the same number."""
    group_left: list[float]
    """For each ascent: what is left at its end of the minors between that concept and all weaker ones."""
    waits: list[bool]
    """For each but the strongest: its major reaches 1/2 after the minor with the concept before it has peaked."""
    minor_left: list[float]
    """What is then left of that minor, as a share of its peak."""
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


class MultipleDescents(SymmetricExperiment):
    """As many descents as concepts: the shown start, what its stages are, and how often random starts show it."""

    references: ClassVar[tuple[Reference, ...]]
    occurrences: ClassVar[tuple[Occurrence, ...]]
    best_cells: ClassVar[tuple[tuple[float, float], ...]]
    other_cells: ClassVar[tuple[float, float]]
    """Cells (τ, ε) of the map with the largest shares, and between what shares the others lie, in the reference."""
    figure: ClassVar[str]

    shown_seed: int = 0
    """NumPy seed of the start that is drawn. It was chosen because it shows the phenomenon; the shares say how rare."""
    starts: PositiveInt = 1000
    """Random Gaussian starts for each share."""
    aligned_starts: PositiveInt = 500
    grid_starts: PositiveInt = 500
    """Nearly rank-one starts in each cell of the map over τ and ε."""
    reference_tolerance: float = Field(0.01, gt=0, lt=1)
    """The tolerance at which the extrema of the reference runs are read."""

    def measure(self, seed: int) -> xr.Dataset:
        shown = self.gaussian([self.shown_seed])
        known = [
            self.aligned(r.seed, r.scale, r.spread) if r.spread else self.gaussian(r.seed, r.scale)
            for r in self.references
        ]
        trace = self.train(np.concatenate([shown, np.stack(known)]))
        table: dict[str, Any] = {name: trace[name] for name in ("W", "U", "test_loss", "loss")}
        for n, case in enumerate(self.occurrences):
            seeds = own_seeds(seed, self.aligned_starts if case.spread else self.starts)
            if case.spread:
                starts = self.aligned(seeds, case.scale, case.spread)
            else:
                starts = self.gaussian(seeds, case.scale, case.width)
            scanned = self.scan(starts, (case.tolerance,))
            table[f"descents_{n}"] = (f"start_{n}", scanned.descents.values[0].astype(np.int32))
            table[f"rise_{n}"] = (f"start_{n}", scanned.rise.values)
        table["aligned_share"] = (("grid_scale", "grid_spread"), self._map(seed))
        return xr.Dataset(table, {"step": trace.step, "grid_scale": list(SCALES), "grid_spread": list(SPREADS)})

    def _map(self, seed: int) -> np.ndarray:
        seeds = own_seeds(seed, self.grid_starts)
        starts = [self.aligned(seeds, scale, spread) for scale in SCALES for spread in SPREADS]
        descents = self.scan(np.concatenate(starts), (0.005,)).descents.values
        return np.mean(descents.reshape(len(SCALES), len(SPREADS), -1) == len(self.mu), axis=-1)

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        return predict_runs(measured.isel(start=[0]), self.mu, self.sigma, self.learning_rate)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        count, loss = len(self.mu), measured.test_loss.values
        turns = turns_of(loss[0], self.tolerance)
        descents = int(stages.descents(loss[0], self.tolerance))
        yield claim(
            "descents", f"From the shown start (seed {self.shown_seed}, chosen) the test loss descends {count} times",
            source=self.figure, expected=count, holds=descents == count,
            measured={"descents": descents, "turns": [[turn.kind, turn.value, turn.at] for turn in turns]},
        )  # fmt: skip
        yield from self._stages(measured)
        tolerance = self.reference_tolerance
        found = {r.name: matches(r, run, tolerance) for r, run in zip(self.references, loss[1:], strict=True)}
        known = zip(self.references, loss[1:], strict=True)
        yield claim(
            "extrema", "Reference runs: every extremum of the test loss within 1 %, and its step", source=self.figure,
            measured={r.name: [[turn.value, turn.at] for turn in turns_of(run, tolerance)] for r, run in known},
            expected={r.name: [list(pair) for pair in r.extrema] for r in self.references},
            holds=all(found.values()), seeds=len(found),
        )  # fmt: skip
        yield from self._shares(measured)
        if predicted is not None:
            own = turns_of(predicted.test_loss.values[0], self.tolerance)
            half = np.array([stages.first_crossing(measured.W.values[0, :, k, k], 0.5).time for k in range(count)])
            yield claim(
                "predicted", "The closed forms, which know the start alone, turn as often as the measured test loss",
                source="Section 4.2", expected=f"{len(turns)} turns", holds=len(own) == len(turns) > 0,
                measured={"turns": [[turn.kind, turn.value, turn.at] for turn in own],
                          "stages, predicted and measured": [predicted.half_step.values[0], half]},
            )  # fmt: skip

    def _stages(self, measured: xr.Dataset) -> Iterable[Claim]:
        stage = alternation(
            measured.W.values[0], measured.test_loss.values[0], np.asarray(self.strengths), self.tolerance
        )
        found = stage or Alternation([False], [np.nan], [False], [np.nan], [np.nan])
        yield claim(
            "descent-by-major",
            "Each descent belongs to one major: concept k (strongest first) reaches 1/2 during descent k",
            source=self.figure, measured=found.in_descent, expected="all true", holds=all(found.in_descent),
        )  # fmt: skip
        yield claim(
            "ascent-by-minors",
            "In each ascent the minors between that concept and the weaker ones are suppressed: they end "
            "it smaller than they began it (share left)", source=self.figure, measured=found.group_left,
            expected="each < 1", holds=bool(np.all(np.array(found.group_left) < 1)),
        )  # fmt: skip
        yield claim(
            "next-major-waits",
            "The next major reaches 1/2 only after its minor with the one before it has peaked (share of the "
            "peak left then); for the weakest, half of the peak is gone", source=self.figure,
            measured=found.minor_left, expected="all past the peak; last < 0.5",
            holds=all(found.waits) and bool(found.minor_left[-1] < 0.5),
        )  # fmt: skip
        yield claim(
            "minor-waits",
            "The last minor decays only once the stronger of its majors is near 1 (that major when the minor "
            "has lost a tenth of its peak)", source=self.figure, measured=found.dominant_near_one[-1], expected="> 0.9",
            holds=found.dominant_near_one[-1] > 0.9,
        )  # fmt: skip

    def _shares(self, measured: xr.Dataset) -> Iterable[Claim]:
        most, rise = 0, float(np.max(np.diff(measured.loss.values, axis=1)))
        for n, case in enumerate(self.occurrences):
            descents = measured[f"descents_{n}"].values
            hits = descents == len(self.mu)
            most, rise = max(most, int(descents.max())), max(rise, float(measured[f"rise_{n}"].max()))
            kind = f"nearly rank-one (ε = {case.spread:g})" if case.spread else "Gaussian"
            kind += f" {len(self.mu)} x {case.width}" if case.width else ""
            yield claim(
                f"{'aligned' if case.spread else 'random'}-starts-{case.scale:g}{'-wide' if case.width else ''}",
                f"The share of {kind} starts, τ = {case.scale:g}, with {len(self.mu)} descents, "
                f"counted with a tolerance of {case.tolerance:g}",
                source=self.figure, measured={"count": int(hits.sum()), **share_of(hits)},
                expected=f"{case.hits} of {case.of} (99 %)", seeds=len(hits),
                holds=shares_agree(int(hits.sum()), len(hits), case.hits / case.of, case.of),
            )  # fmt: skip
        share, best = measured.aligned_share, self.best_cells
        inside = np.array([[(scale, spread) in best for spread in SPREADS] for scale in SCALES])
        low, high = self.other_cells
        slack = 2.576 * np.sqrt(high * (1 - high) * (1 / self.grid_starts + 1 / 500))
        yield claim(
            "aligned-map",
            f"Over the map of nearly rank-one starts (τ, ε) the best cells are {best}; others have {low:g} to {high:g}",
            source=self.figure, seeds=self.grid_starts * share.size, expected="within 99 % of sampling",
            measured={"best cells": share.values[inside], "other cells": [share.values[~inside].min(),
                                                                         share.values[~inside].max()]},
            holds=bool(share.values[~inside].max() <= high + slack and share.values[~inside].min() >= low - slack
                       and share.values[inside].max() >= share.values[~inside].max() - slack),
        )  # fmt: skip
        total = sum(measured.sizes[f"start_{n}"] for n in range(len(self.occurrences)))
        yield claim(
            "at-most-one-each", "No run has more descents than concepts", source="Section 4.2", measured=most,
            expected=f"≤ {len(self.mu)}", holds=most <= len(self.mu), seeds=total,
        )  # fmt: skip
        yield claim(
            "training-monotone", "The training loss never rises, in any run (largest rise over the first value)",
            source=self.figure, measured=rise, expected="≤ 1e-12", holds=rise <= 1e-12, seeds=total,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        figure, (left, middle, right) = panels(3, size=(4.6, 3.7))
        W, half = measured.W.values[0], predicted.half_step.values[0]
        draw_test_loss(
            left, measured.test_loss.values[0],
            predicted=predicted.test_loss.values[0], training=measured.loss.values[0], half_steps=half,
            tolerance=self.tolerance,
        )  # fmt: skip
        left.set_title(f"Loss; seed {self.shown_seed}, τ = {self.scale:g} (chosen)")
        draw_entries(middle, W, len(self.mu), predicted=predicted.W.values[0], half_steps=half)
        middle.set_title("Jacobian; dashed lines: predicted stages")
        draw_outputs(right, W, self.mu, half)
        right.set_title("Outputs at the test point")
        name = self.id.removeprefix("concept.")
        return {name: figure, f"{name}-starts": self._draw_map(measured)}

    def _draw_map(self, measured: xr.Dataset) -> Figure:
        figure, axes = panels(1, size=(5.4, 3.7))
        share = measured.aligned_share.values
        image = axes.imshow(share, origin="lower", cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(share):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="black" if value > 0.6 else "white")
        axes.set_xticks(range(len(SPREADS)), [f"{spread:g}" for spread in SPREADS])
        axes.set_yticks(range(len(SCALES)), [f"{scale:g}" for scale in SCALES])
        axes.grid(visible=False)
        axes.set_xlabel("ε, distance from rank one")
        axes.set_ylabel("τ, size of the start")
        axes.set_title(f"Nearly rank-one starts: share with {len(self.mu)} descents")
        figure.colorbar(image, ax=axes)
        return figure
