"""Figures 2a, 8 and 9: as the initial scale decreases, the loss of a diagonal head becomes a staircase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves.plateaus import Jump, jumps
from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import HeadExperiment, Scales
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.criteria import below, every, falling, within
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.rank.greedy_ranks import LAG, Stage, resolved_plateaus, staircase, table

FLAT = 0.02
"""The slope, relative to the initial loss and per unit of time, below which the detector calls a curve flat."""
JUMP = 0.005
"""The least change of a jump, relative to the initial loss."""
FIRST_HALVING, EARLY = 1e-8, 1e-2
PRINTED_DIM = 50
"""The size of the head in which no coordinate leaves the support."""


class Staircase(HeadExperiment):
    """Does the loss of a diagonal attention head become a staircase as its initial scale goes to zero?"""

    id = "rank.staircase"
    source = Source(GRADUAL_RANK, "Figures 2a, 8 and 9, Appendix A")
    cost = {"quick": 14, "full": 330}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 800, "seeds": 2},
        "dense": {"kept": None, "horizon": 0.5},
    }
    control = {"scales": (0.5, 0.45, 0.4, 0.35, 0.3, 0.25)}
    notes = """Exact gradient flow in reduced coordinates replaces the paper's SGD, whose learning rate, batch size and
    epochs are not stated. Neither is the teacher's distribution (here normal weights; 5 and 5 coordinates kept by
    default, all of them in the presets quick and dense). The stages of the dense teacher of full size are so close that
    no scale of the ladder resolves them. Time is rescaled by log(1/alpha), and the loss is half the mean over samples
    of the squared error summed over outputs; all times depend on this normalization. The control starts large: no
    coordinate waits for another, and the curve is smooth."""

    scales: Scales = (0.1, 0.01, 1e-4, 1e-8, 1e-16, 1e-32)

    def measure(self, seed: int) -> xr.Dataset:
        return self.flow(seed, self.scales)

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        limits = [staircase(found, measured.time.values).merge(table(found)) for found in self.stages(measured)]
        return xr.concat(limits, dim=xr.DataArray(measured.seed.values, dims="seed", name="seed"), join="outer")

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        gap = abs(measured.loss - predicted.loss).integrate("time") / (self.horizon * predicted.loss.isel(time=0))
        smallest, found = min(self.scales), []
        for number, stages in zip(measured.seed.values, self.stages(measured), strict=True):
            seen = _jumps(measured.loss.sel(seed=number, scale=smallest))
            found.append(self._distances(seen, stages, smallest))
        reduced = xr.concat(found, measured.seed, join="outer").assign(gap=gap, exits=predicted.left.sum("stage"))
        counts = [[len(_jumps(curve)) for curve in one.transpose("scale", "time")] for one in measured.loss]
        reduced["jumps"] = (("seed", "scale"), counts)
        return reduced

    def _distances(self, seen: Sequence[Jump], stages: Sequence[Stage], scale: float) -> xr.Dataset:
        """Distance of each jump from the nearest predicted one, `jump_away`, and of each predicted one between resolved
        plateaus from the nearest jump, `stage_away`, beyond the jump's own uncertainty and in units of 1/log(1/alpha);
        infinite if there is none."""
        away = np.array([[abs(one.time - stage.time) - one.uncertainty for one in seen] for stage in stages[1:]])
        away = -np.log(scale) * away.reshape(len(stages) - 1, len(seen))
        plateaus, sizes = resolved_plateaus(stages, scale, self.horizon), [stage.loss for stage in stages]
        judged = [k - 1 for k in plateaus if k - 1 in plateaus and sizes[k - 1] - sizes[k] > JUMP * sizes[0]]
        return xr.Dataset(
            {
                "jump_away": ("jump", away.min(axis=0, initial=np.inf)),
                "stage_away": ("judged", away[judged].min(axis=1, initial=np.inf)),
            },
            {"jump": np.arange(len(seen)), "judged": np.arange(len(judged))},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        gap = reduced.gap.transpose("seed", "scale")
        statement = (
            "At the smallest scale the loss follows the staircase of Algorithm 1 (mean distance, over its start)"
        )
        shown = {"mean over seeds": gap.mean("seed"), "coordinates that leave the support": reduced.exits}
        yield below("staircase", statement, gap.isel(scale=-1), 0.02, source="Figure 2a, Theorem 4.1", shown=shown)
        statement = "The distance falls with every step down the ladder of scales, in every seed"
        yield falling("converges", statement, gap, along="scale", source="Figure 2a")
        pairs = [
            float(gap.sel(scale=other).mean("seed") / gap.sel(scale=one).mean("seed"))
            for one in self.scales
            for other in self.scales
            if one <= FIRST_HALVING and np.isclose(np.log(other), 2 * np.log(one))
        ]
        if pairs:
            statement = f"From {FIRST_HALVING:g} on its mean over seeds halves when log(1/alpha) doubles: ratio"
            why = "The mean: of 40 single ratios one is 0.602."
            yield within("halves", statement, pairs, 0.4, 0.6, source="Theorem 4.1", post_hoc=why)
        for id, name, statement in (
            ("jumps", "jump_away", "Every jump of the loss at the smallest scale is at a predicted one"),
            ("stages", "stage_away", "Every predicted jump between two resolved plateaus is there"),
        ):
            away = reduced[name]
            near = (away <= LAG).where(away.notnull())
            statement += f", up to {LAG:g}/log(1/alpha) and the detector's uncertainty"
            yield every(id, statement, near, source="Theorem 4.1")
        visible = reduced.jumps.sel(scale=slice(EARLY, None))
        if visible.sizes["scale"]:
            statement = f"From {EARLY:g} on the loss has a plateau between two falls"
            printed = "some stagewise learning behavior is already clear with α = 0.01"
            shown = {"jumps": reduced.jumps.mean("seed")}
            yield every("early", statement, visible > 0, source="Figure 2a", printed=printed, shown=shown)
        if self.dim == PRINTED_DIM and self.kept:
            statement = (
                "With a sparse teacher no coordinate leaves the support on any plateau: their number in each seed"
            )
            printed = "no coordinates ever leave the support of θ^k"
            yield below("no-exits", statement, reduced.exits, 1, source="Appendix A", printed=printed)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
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


def _jumps(curve: xr.DataArray) -> list[Jump]:
    return jumps(curve.values, curve.time.values, flat=FLAT, smallest=JUMP, size=float(curve[0]))
