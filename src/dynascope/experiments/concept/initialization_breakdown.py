"""Appendix E.2: which starts show the transient, by the width and the size of U(0) and the sign of the minor entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment
from dynascope.experiments.concept.transients import draw_shares
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of, shares_agree
from dynascope.lab.experiment import Source
from dynascope.theory.concept.starts import start_moments

BY_WIDTH = {2: 0.266, 3: 0.162, 4: 0.091, 8: 0.022, 16: 0.002, 32: 0.0, 64: 0.0}
BY_SCALE = {0.3: 0.280, 0.1: 0.266, 0.03: 0.216, 0.01: 0.114, 0.001: 0.0}
BY_TOLERANCE = {0.002: 0.343, 0.005: 0.312, 0.01: 0.266, 0.02: 0.206}
"""Shares of 2000 starts with two descents in the reference: by width at fixed d' τ² = 0.02; by size and by the
tolerance of the count at width 2."""
GIVEN_POSITIVE = 0.514
RATIOS = {2: 0.688, 4: 0.494, 8: 0.353, 16: 0.248, 64: 0.121}
REFERENCE_STARTS = 2000


class InitializationBreakdown(SymmetricExperiment):
    """Which random starts take the detour of transient memorization?"""

    id = "concept.initialization-breakdown"
    source = Source(PAPER, "Appendix E.2; Section 4.2")
    cost = {"quick": 9, "full": 13}
    presets = {"quick": {"starts": 1000}}
    control = {"size": 2e-6}
    notes = """Two concepts, μ = (1, 2). A wider U has relatively smaller minors (the paper's "variance is large when
    d' is small" is meant relative to the majors), and a minor that starts negative never lowers the test loss: both
    decide whether the loss turns. So does the size of the start: a smaller start has a lower peak of the minor. In the
    control the start is so small that no width shows two descents. Starts are drawn from seeds that the reference did
    not use; shares agree if the score test of equal proportions finds nothing at 99 %."""

    size: float = Field(0.02, gt=0)
    """E[w_ii(0)] = d' τ², kept fixed while the width varies."""
    starts: PositiveInt = 2000

    def measure(self, seed: int) -> xr.Dataset:
        seeds = start_seeds(seed, self.starts)
        by_width, moments = [], []
        for width in BY_WIDTH:
            starts = self.gaussian(seeds, float(np.sqrt(self.size / width)), width)
            by_width.append(self.scan(starts).descents.values[0])
            W = starts @ np.swapaxes(starts, 1, 2)
            moments.append([W[:, 0, 0].mean(), W[:, 0, 1].mean(), W[:, 0, 1].var(), W[:, 0, 0].var()])
        by_scale, minors = [], []
        tolerances = sorted({*BY_TOLERANCE, self.tolerance})
        for scale in BY_SCALE:
            starts = self.gaussian(seeds, scale, 2)
            by_scale.append(self.scan(starts, tolerances).descents.values)
            minors.append(np.sum(starts[:, 0] * starts[:, 1], axis=1))
        table = {
            "descents_by_width": (("width", "start"), np.array(by_width, np.int32)),
            "moments": (("width", "moment"), np.array(moments)),
            "descents_by_scale": (("scale", "turn_tolerance", "start"), np.array(by_scale, np.int32)),
            "minor": (("scale", "start"), np.array(minors)),
        }
        return xr.Dataset(table, {"width": list(BY_WIDTH), "scale": list(BY_SCALE), "turn_tolerance": tolerances})

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The moments of W(0): E w_ii = d' τ², E w_ij = 0, Var w_ij = d' τ⁴, Var w_ii = 2 d' τ⁴."""
        return start_moments(self.size, measured.width.values)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        widths = {int(w): row >= 2 for w, row in zip(measured.width, measured.descents_by_width.values, strict=True)}
        counts = [int(row.sum()) for row in widths.values()]
        yield claim(
            "falls-with-width", "The share of starts with two descents falls with the width of U, from over 0.2 to 0",
            source="Appendix E.2", measured={w: share_of(row) for w, row in widths.items()}, seeds=self.starts,
            expected="falling; > 0.2 at d' = 2, 0 at d' = 64",
            holds=bool(np.all(np.diff(counts) <= 0)) and counts[0] > 0.2 * self.starts and counts[-1] == 0,
        )  # fmt: skip
        yield self._agreement("shares-by-width", "by the width d' of U (d' τ² = 0.02)", widths, BY_WIDTH)
        twice = measured.descents_by_scale.sel(turn_tolerance=self.tolerance).values >= 2
        scales = dict(zip(BY_SCALE, twice, strict=True))
        yield self._agreement("shares-by-size", "by the size τ of the start (d' = 2)", scales, BY_SCALE)
        yield claim(
            "vanishes", "The transient vanishes with the size of the start", source="Section 4.2", seeds=self.starts,
            measured={scale: float(row.mean()) for scale, row in scales.items()}, expected="falling with τ, 0 at 0.001",
            holds=bool(np.all(np.diff([row.sum() for row in scales.values()][1:]) < 0) and not scales[0.001].any()),
        )  # fmt: skip
        counted = measured.descents_by_scale.sel(scale=0.1, turn_tolerance=list(BY_TOLERANCE)).values >= 2
        by_tolerance = dict(zip(BY_TOLERANCE, counted, strict=True))
        yield self._agreement(
            "shares-by-tolerance", "by the tolerance of the count (τ = 0.1)", by_tolerance, BY_TOLERANCE
        )
        yield from self._judge_sign(measured, scales)
        yield from self._judge_moments(measured, predicted)
        most = int(max(measured.descents_by_width.max(), measured.descents_by_scale.max()))
        yield claim(
            "at-most-two", "No start has more descents than concepts", source="Section 4.2", measured=most,
            expected="≤ 2", holds=most <= 2, seeds=self.starts * (len(BY_WIDTH) + len(BY_SCALE)),
        )  # fmt: skip

    def _agreement(self, id: str, by: str, found: Mapping[Any, np.ndarray], known: Mapping[Any, float]) -> Claim:
        agree = [shares_agree(int(row.sum()), len(row), known[key], REFERENCE_STARTS) for key, row in found.items()]
        return claim(
            id, f"Shares of two descents {by} are those of the reference", source="Appendix E.2", expected=known,
            measured={key: share_of(row) for key, row in found.items()}, holds=all(agree), seeds=self.starts,
        )  # fmt: skip

    def _judge_sign(self, measured: xr.Dataset, scales: Mapping[float, np.ndarray]) -> Iterable[Claim]:
        positive = dict(zip(BY_SCALE, measured.minor.values > 0, strict=True))
        against = {scale: share_of(scales[scale][~positive[scale]]) for scale in (0.3, 0.1, 0.03, 0.01)}
        yield claim(
            "negative-minor", "A minor that starts negative never gives two descents (any size)", source="Section 4.2",
            measured=against, expected="share = 0",
            holds=not any(scales[scale][~positive[scale]].any() for scale in against), seeds=self.starts,
        )  # fmt: skip
        given = scales[0.1][positive[0.1]]
        yield claim(
            "positive-minor", "Of the starts with a positive minor (τ = 0.1) about half have two descents",
            source="Section 4.2", measured=share_of(given), seeds=len(given),
            expected=f"{GIVEN_POSITIVE} of {REFERENCE_STARTS // 2} (99 %)",
            holds=shares_agree(int(given.sum()), len(given), GIVEN_POSITIVE, REFERENCE_STARTS // 2),
        )  # fmt: skip

    def _judge_moments(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        mean, across, off, on = measured.moments.values.T
        theory = predicted.moments.values.T
        widths = measured.width.values
        ratio = dict(zip(widths.tolist(), np.sqrt(off + across**2) / mean, strict=True))
        error = 2.576 * np.sqrt((2 + 6 / widths) / self.starts) / 2 + 2.576 * np.sqrt(2 / widths / self.starts)
        yield claim(
            "relative-minors", "A wide U has relatively small minors: rms(w_ij) / E w_ii = 1/√d'",
            source="Appendix E.2", measured=ratio, expected={"1/√d'": 1 / np.sqrt(widths), "reference": RATIOS},
            holds=bool(np.all(np.abs(np.array(list(ratio.values())) * np.sqrt(widths) - 1) < error)), seeds=self.starts,
        )  # fmt: skip
        error = np.sqrt(theory[[3, 2]] / self.starts)
        z = np.abs([mean - theory[0], across]) / error
        spread = [np.abs(off / theory[2] - 1), np.abs(on / theory[3] - 1)]
        yield claim(
            "moments",
            "E w_ii = d' τ², E w_ij = 0 (in standard errors); Var w_ij = d' τ⁴, Var w_ii = 2 d' τ⁴ (relative error)",
            source="Appendix E.2", measured={"means": np.max(z), "variances": np.max(spread)},
            expected={"means": "< 4", "variances": f"< {4 * np.sqrt(14 / self.starts):.2g}"}, seeds=self.starts,
            holds=bool(np.max(z) < 4 and np.max(spread) < 4 * np.sqrt(14 / self.starts)),
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        figure, (left, middle, right) = panels(3, size=(4.3, 3.7))
        _draw_shares(left, measured.descents_by_width.values >= 2, BY_WIDTH)
        left.set(xscale="log", xlabel="width d' of U (d' τ² fixed)", title="Wide models take no detour")
        left.set_ylabel("share of starts with two descents")
        left.set_xticks(list(BY_WIDTH), [str(width) for width in BY_WIDTH])
        left.minorticks_off()
        _draw_shares(middle, measured.descents_by_scale.sel(turn_tolerance=self.tolerance).values >= 2, BY_SCALE)
        middle.set(xscale="log", xlabel="size τ of the start (d' = 2)", title="Small starts rarely do")
        top = max(left.get_ylim()[1], middle.get_ylim()[1])
        for axes in (left, middle):
            axes.set_ylim(-0.01, top)
            axes.legend(loc="best")
        twice = measured.descents_by_scale.sel(scale=0.1, turn_tolerance=self.tolerance).values >= 2
        minor = measured.minor.sel(scale=0.1).values
        reach = float(np.quantile(np.abs(minor), 0.998))
        edges = np.linspace(-reach, reach, 41)
        right.hist([minor[~twice], minor[twice]], edges, stacked=True, color=[FAINT, PALETTE[0]],
                   label=["one descent", "two descents"])  # fmt: skip
        right.axvline(0, **THEORY)
        right.set(xlabel="w₁₂(0), τ = 0.1", ylabel="starts", title="Negative minors never do")
        right.legend()
        return {"initialization-breakdown": figure}


def _draw_shares(axes: Axes, outcomes: np.ndarray, reference: Mapping[Any, float]) -> None:
    draw_shares(axes, list(reference), outcomes, PALETTE[1], "measured, 95 %")
    axes.plot(list(reference), list(reference.values()), "_", color="black", markersize=12, label="reference")
