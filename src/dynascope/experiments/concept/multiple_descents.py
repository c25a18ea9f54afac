"""Figures 8 and 9: one descent of the test loss for each concept, from which starts, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.curves import stages
from dynascope.experiments.concept.descent_stages import Alternation, Reference, alternation, matches, turns_of
from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.experiments.concept.symmetric_drawing import draw_entries, draw_outputs, draw_test_loss
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import panels
from dynascope.lab.claims import Claim, claim, share_of, shares_agree
from dynascope.lab.experiment import Source, Values
from dynascope.theory.concept.staged_path import predicted_runs
from dynascope.theory.concept.starts import random_factor

SCALES, SPREADS = (0.03, 0.1, 0.3, 0.5), (0.01, 0.03, 0.1, 0.3, 0.5)
"""The map of nearly rank-one starts: their size τ and how far from rank one they are, ε."""


class Occurrence(NamedTuple):
    """A kind of start; in the reference `hits` out `of` all had as many descents as concepts, at this tolerance."""

    scale: float
    spread: float
    tolerance: float
    hits: int
    of: int
    width: int | None = None
    """Columns of U; as many as concepts if not given."""

    @property
    def name(self) -> str:
        return f"{'aligned' if self.spread else 'random'}-starts-{self.scale:g}{'-wide' if self.width else ''}"


class MultipleDescents(SymmetricExperiment):
    """As many descents as concepts: a chosen start, its stages, and how often random starts show it."""

    references: ClassVar[tuple[Reference, ...]]
    occurrences: ClassVar[tuple[Occurrence, ...]]
    best_cells: ClassVar[tuple[tuple[float, float], ...]]
    other_cells: ClassVar[tuple[float, float]]
    """In the reference: the cells (τ, ε) of the map with the largest shares, and the range of the others' shares."""
    figure: ClassVar[str]

    shown_seed: int = 0
    """NumPy seed of the start that is drawn, chosen because it shows the phenomenon; the shares say how rarely."""
    starts: PositiveInt = 1000
    """Random Gaussian starts for each share."""
    aligned_starts: PositiveInt = 500
    grid_starts: PositiveInt = 500
    """Nearly rank-one starts in each cell of the map over τ and ε."""
    reference_tolerance: float = Field(0.01, gt=0, lt=1)
    """The tolerance at which the extrema of the reference runs are read."""

    def measure(self, seed: int) -> xr.DataTree:
        known = [reference.start(len(self.mu)) for reference in self.references]
        trace = self.train(np.stack([self.gaussian(self.shown_seed), *known]))
        nodes = {"chosen": trace[["W", "U", "test_loss", "loss"]], "map": self._map(seed)}
        for case in self.occurrences:
            seeds = start_seeds(seed, self.aligned_starts if case.spread else self.starts)
            starts = random_factor(seeds, case.scale, case.spread, len(self.mu), case.width)
            scanned = self.scan(starts, (case.tolerance,))[["descents", "rise"]]
            nodes[f"occurrences/{case.name}"] = scanned.isel(turn_tolerance=0)
        return xr.DataTree.from_dict(nodes)

    def _map(self, seed: int) -> xr.Dataset:
        seeds = start_seeds(seed, self.grid_starts)
        starts = [self.aligned(seeds, scale, spread) for scale in SCALES for spread in SPREADS]
        descents = self.scan(np.concatenate(starts), (0.005,)).descents.values
        share = np.mean(descents.reshape(len(SCALES), len(SPREADS), -1) == len(self.mu), axis=-1)
        return xr.Dataset({"share": (("scale", "spread"), share)}, {"scale": list(SCALES), "spread": list(SPREADS)})

    def predict(self, measured: xr.DataTree) -> xr.Dataset:
        """The run from the shown start."""
        shown = measured["chosen"].to_dataset().isel(start=[0])
        return predicted_runs(shown, self.mu, self.sigma, self.learning_rate)

    def judge(self, measured: xr.DataTree, predicted: xr.Dataset) -> Iterable[Claim]:
        count, loss, W = len(self.mu), measured["chosen"].test_loss.values, measured["chosen"].W.values[0]
        turns = turns_of(loss[0], self.tolerance)
        descents = int(stages.descents(loss[0], self.tolerance))
        yield claim(
            "descents", f"From the shown start (seed {self.shown_seed}, chosen) the test loss descends {count} times",
            source=self.figure, expected=count, holds=descents == count,
            measured={"descents": descents, "turns": [[turn.kind, turn.value, turn.at] for turn in turns]},
        )  # fmt: skip
        yield from self._judge_stages(W, loss[0])
        tolerance, known = self.reference_tolerance, list(zip(self.references, loss[1:], strict=True))
        yield claim(
            "extrema", "Reference runs: every extremum of the test loss within 1 %, and its step", source=self.figure,
            measured={r.name: [[turn.value, turn.at] for turn in turns_of(run, tolerance)] for r, run in known},
            expected={r.name: [list(pair) for pair in r.extrema] for r in self.references},
            holds=all(matches(r, run, tolerance) for r, run in known), seeds=len(known),
        )  # fmt: skip
        yield from self._judge_shares(measured)
        own = turns_of(predicted.test_loss.values[0], self.tolerance)
        half = np.array([stages.first_crossing(W[:, k, k], 0.5).time for k in range(count)])
        yield claim(
            "predicted", "The closed forms, computed from the start alone, turn as often as the measured test loss",
            source="Section 4.2", expected=f"{len(turns)} turns", holds=len(own) == len(turns) > 0,
            measured={"turns": [[turn.kind, turn.value, turn.at] for turn in own],
                      "stages, predicted and measured": [predicted.half_step.values[0], half]},
        )  # fmt: skip

    def _judge_stages(self, W: np.ndarray, loss: np.ndarray) -> Iterable[Claim]:
        stage = alternation(W, loss, self.strengths, self.tolerance)
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

    def _judge_shares(self, measured: xr.DataTree) -> Iterable[Claim]:
        most, total, rise = 0, 0, float(np.max(np.diff(measured["chosen"].loss.values, axis=1)))
        for case in self.occurrences:
            scanned = measured["occurrences"][case.name].to_dataset()
            hits = scanned.descents.values == len(self.mu)
            total += len(hits)
            most, rise = max(most, int(scanned.descents.max())), max(rise, float(scanned.rise.max()))
            kind = f"nearly rank-one (ε = {case.spread:g})" if case.spread else "Gaussian"
            kind += f" {len(self.mu)} x {case.width}" if case.width else ""
            yield claim(
                case.name,
                f"The share of {kind} starts, τ = {case.scale:g}, with {len(self.mu)} descents, "
                f"counted with a tolerance of {case.tolerance:g}",
                source=self.figure, measured={"count": int(hits.sum()), **share_of(hits)},
                expected=f"{case.hits} of {case.of} (99 %)", seeds=len(hits),
                holds=shares_agree(int(hits.sum()), len(hits), case.hits / case.of, case.of),
            )  # fmt: skip
        share, best = measured["map"].share.values, self.best_cells
        inside = np.array([[(scale, spread) in best for spread in SPREADS] for scale in SCALES])
        low, high = self.other_cells
        slack = 2.576 * np.sqrt(high * (1 - high) * (1 / self.grid_starts + 1 / 500))
        yield claim(
            "aligned-map",
            f"Over the map of nearly rank-one starts (τ, ε) the best cells are {best}; others have {low:g} to {high:g}",
            source=self.figure, seeds=self.grid_starts * share.size, expected="within 99 % of sampling",
            measured={"best cells": share[inside], "other cells": [share[~inside].min(), share[~inside].max()]},
            holds=bool(share[~inside].max() <= high + slack and share[~inside].min() >= low - slack
                       and share[inside].max() >= share[~inside].max() - slack),
        )  # fmt: skip
        yield claim(
            "at-most-one-each", "No run has more descents than concepts", source="Section 4.2", measured=most,
            expected=f"≤ {len(self.mu)}", holds=most <= len(self.mu), seeds=total,
        )  # fmt: skip
        yield claim(
            "training-monotone", "The training loss never rises, in any run (largest rise over the first value)",
            source=self.figure, measured=rise, expected="≤ 1e-12", holds=rise <= 1e-12, seeds=total,
        )  # fmt: skip

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset) -> Mapping[str, Figure]:
        figure, (left, middle, right) = panels(3, size=(4.6, 3.7))
        shown = measured["chosen"].to_dataset().isel(start=0)
        W, half = shown.W.values, predicted.half_step.values[0]
        draw_test_loss(
            left, shown.test_loss.values,
            predicted=predicted.test_loss.values[0], training=shown.loss.values, half_steps=half,
            tolerance=self.tolerance,
        )  # fmt: skip
        left.set_title(f"Loss; seed {self.shown_seed}, τ = {self.scale:g} (chosen)")
        draw_entries(middle, W, len(self.mu), predicted=predicted.W.values[0], half_steps=half)
        middle.set_title("Jacobian; dashed lines: predicted stages")
        draw_outputs(right, W, self.mu, half)
        right.set_title("Outputs at the test point")
        name = self.id.removeprefix("concept.")
        return {name: figure, f"{name}-starts": self._draw_map(measured["map"].share.values)}

    def _draw_map(self, share: np.ndarray) -> Figure:
        figure, axes = panels(1, size=(5.4, 3.7))
        image = axes.imshow(share, origin="lower", cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(share):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="black" if value > 0.6 else "white")
        axes.set_xticks(range(len(SPREADS)), [f"{spread:g}" for spread in SPREADS])
        axes.set_yticks(range(len(SCALES)), [f"{scale:g}" for scale in SCALES])
        axes.grid(visible=False)
        title = f"Nearly rank-one starts: share with {len(self.mu)} descents"
        axes.set(xlabel="ε, distance from rank one", ylabel="τ, size of the start", title=title)
        figure.colorbar(image, ax=axes)
        return figure


class TripleDescent(MultipleDescents):
    """Does the test loss of three concepts descend three times, and how often?"""

    id = "concept.triple-descent"
    source = Source(PAPER, "Figure 8")
    cost = {"quick": 9, "full": 24}
    presets = {"quick": {"starts": 2000, "grid_starts": 100}}
    control = {"scale": 0.001}
    notes = """The start drawn is chosen: about one Gaussian start in 500 has three descents. Nearly rank-one starts,
    U = τ (ε G + [1 0 0]), have them more often than not. Each concept is first learned as a shadow of the stronger ones
    (a minor entry), loses this again when the stronger one is learned, and is finally learned itself. Dashed curves are
    closed forms, computed from the start alone. In the control the start is so small that the shadows stay below what
    counts as a turn. The published figure comes from another equation: see concept.published-figures."""

    figure = "Figure 8"
    references = (
        Reference(62, 0.1, 0.0, ((0.251, 72), (0.281, 119), (0.041, 279), (0.066, 435))),
        Reference(62, 0.3, 0.0, ((0.711, 23), (0.996, 77), (0.024, 223), (0.140, 356))),
        Reference(62, 0.03, 0.0, ((0.318, None), (0.335, None), (0.075, None), (0.091, None))),
        Reference(0, 0.3, 0.1, ((0.095, 57), (0.265, 139), (0.125, 249), (0.159, 415))),
    )
    occurrences = (
        Occurrence(0.1, 0.0, 0.01, 1, 1000),
        Occurrence(0.03, 0.0, 0.01, 3, 1000),
        Occurrence(0.3, 0.0, 0.01, 3, 1000),
        Occurrence(0.5, 0.03, 0.005, 334, 500),
    )

    best_cells = ((0.5, 0.01), (0.5, 0.03))
    other_cells = (0.018, 0.664)

    mu: Values = (1.0, 1.5, 2.2)
    sigma: Values = (0.05, 0.05, 0.05)
    steps: int = 6000
    shown_seed: int = 62
    starts: int = 20_000


class QuadrupleDescent(MultipleDescents):
    """Does the test loss of four concepts descend four times, and how often?"""

    id = "concept.quadruple-descent"
    source = Source(PAPER, "Figure 9")
    cost = {"quick": 11, "full": 90}
    presets = {"quick": {"starts": 1000, "aligned_starts": 250, "grid_starts": 50}}
    control = {"scale": 0.001}
    notes = """The start drawn is chosen: about one Gaussian start in 40,000 has four descents (counted with a tolerance
    of 0.2 %); of nearly rank-one starts, U = τ (ε G + [1 0 0 0]), a third. The dashed curves are closed forms, computed
    from the start alone. In the control the start is so small that the shadows that stronger concepts cast stay
    below what counts as a turn. The published figure comes from another equation: see concept.published-figures."""

    figure = "Figure 9"
    references = (
        Reference(10440, 0.2, 0.0, ((0.767, 13), (0.862, 39), (0.849, 59), (0.920, 110), (0.271, 291), (0.397, 540))),
        Reference(34138, 0.1, 0.0, ((0.190, 50), (0.232, 86), (0.223, 115), (0.237, 163), (0.089, 362), (0.097, 658))),
        Reference(0, 0.5, 0.03, ((0.072, 47), (0.838, 121), (0.601, 173), (0.633, 211), (0.337, 360), (0.410, 639))),
    )
    occurrences = (
        Occurrence(0.2, 0.0, 0.002, 1, 40_000),
        Occurrence(0.1, 0.0, 0.002, 1, 40_000),
        Occurrence(0.3, 0.0, 0.002, 0, 40_000),
        Occurrence(0.3, 0.0, 0.002, 0, 40_000, width=5),
        Occurrence(0.5, 0.03, 0.005, 165, 500),
    )

    best_cells = ((0.5, 0.01), (0.5, 0.03))
    other_cells = (0.0, 0.16)

    mu: Values = (1.0, 1.5, 2.2, 2.7)
    sigma: Values = (0.05, 0.05, 0.05, 0.5)
    scale: float = 0.2
    steps: int = 9000
    shown_seed: int = 10440
    starts: int = 40_000
    reference_tolerance: float = 0.002
