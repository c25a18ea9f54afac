"""Figure 2b: entries of a head's products leave zero one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.drawing import CONCEPT_COLOURS, FAINT, THEORY, panels
from dynascope.experiments.gradual_rank.toy import ACTIVE, LAG, HeadExperiment, Scale, seen, three_quarters
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.plateaus import support_size, switches
from dynascope.theory.greedy_ranks import Stage, staircase

KQ, VO, *_ = CONCEPT_COLOURS[1], CONCEPT_COLOURS[0]


class RankWeights(HeadExperiment):
    """Does the rank of a head's products grow by one at a time, by the coordinate and at the time predicted?"""

    id = "rank.weights"
    source = Source("Transformers learn through gradual rank increase", "Figure 2b, Theorem 4.1")
    cost = {"quick": 4, "full": 155}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 150, "seeds": 2}
    }
    control = {"scale": 0.3}
    notes = """The rank of a diagonal product is the number of its entries above 1e-3 in size. Plateaus are looked at
    when three quarters of them are over, if they are resolved: gap and length at least 7/log(1/alpha), and the race
    before them no tie either. At the control's scale all entries are there from the beginning. The lag of an entry
    is judged in units of 1/(|g| log(1/alpha)), the time in which its weight grows by e; it was first asked for
    without |g|, which one entry of fourteen exceeded (10.6, under a weak force)."""

    scale: Scale = 1e-32

    def measure(self, seed: int) -> xr.Dataset:
        return self.flow(seed, [self.scale]).isel(scale=0, drop=True)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        limits = [staircase(found, measured.time.values) for found in self.stages(measured)]
        return xr.concat(limits, dim=xr.DataArray(measured.seed.values, dims="seed", name="seed"))

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        pace = -np.log(self.scale)
        right, near, signs, stray = [], [], [], []
        for number, stages in zip(measured.seed.values, self.stages(measured), strict=True):
            path = measured.product.sel(seed=number)
            right += [self._support_is_right(path, stages[k]) for k in seen(stages, self.scale, self.horizon)]
            active = switches(path.values, measured.time.values, ACTIVE)
            on = np.array([stretches[0].on if stretches else np.nan for stretches in active])
            entries = [stage for stage in stages[1:] if stage.time < self.horizon - LAG / pace]
            first = {stage.winner: stage for stage in reversed(entries)}
            pushes = {stage.winner: abs(before.force[stage.winner]) for before, stage in pairwise(stages)}
            near += [abs(on[i] - stage.time) * pace * pushes[i] for i, stage in first.items()]
            signs += [np.sign(path.values[-1, i]) == stage.sign for i, stage in first.items() if not stages[-1].left]
            predicted_ones = {stage.winner for stage in stages[1:]}
            stray += [i for i in np.flatnonzero(on < self.horizon - LAG / pace) if i not in predicted_ones]
        holds = len(right) >= 2 and all(right)
        yield claim(
            "one-at-a-time", "On every resolved plateau exactly the coordinates of Algorithm 1 are active, one more or "
            "fewer than on the plateau before, and there are at least two such plateaus", source=str(self.source),
            measured=share_of(right), expected="share = 1, of ≥ 2", holds=holds, seeds=self.seeds,
            diagnosis="" if holds else "No plateau is resolved at a scale this large.",
        )  # fmt: skip
        on_time = [bool(lag <= LAG) for lag in near]
        yield claim(
            "on-time", f"Every entry passes {ACTIVE:g} within {LAG:g}/(|g| log(1/alpha)) of its T_k, where g is the "
            f"force on "
            "it before",
            source="Theorem 4.1", measured=share_of(on_time) | {"|g| log(1/alpha) |lag|": near}, expected="share = 1",
            holds=all(on_time) and len(near) > 0, seeds=self.seeds,
            diagnosis="" if all(on_time) else "In a near tie the loser of a race is held back until the winner "
            "settles.",
        )  # fmt: skip
        yield claim(
            "no-other", "No other coordinate becomes active, and signs are those predicted", source="Theorem 4.1",
            measured={"others": len(stray)} | share_of(signs), expected="0, share = 1",
            holds=not stray and all(signs), seeds=self.seeds,
            diagnosis="" if not stray and all(signs) else "From a large start every coordinate is there at once.",
        )  # fmt: skip

    def _support_is_right(self, path: xr.DataArray, stage: Stage) -> bool:
        now = path.interp(time=three_quarters(stage, self.horizon)).values
        return bool(np.array_equal(np.abs(now) > ACTIVE, np.abs(stage.beta) > ACTIVE))

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        one, limit = measured.isel(seed=0), predicted.isel(seed=0)
        figure, (entries, rank) = panels(2, size=(5.6, 3.8))
        for i in range(2 * self.dim):
            there = np.abs(limit.product.values[:, i]).max() > ACTIVE
            colour = FAINT if not there else (KQ if i < self.dim else VO)
            entries.plot(one.time, one.product.values[:, i], color=colour, linewidth=1.4)
            if there:
                entries.plot(limit.time, limit.product.values[:, i], **{**THEORY, "linewidth": 0.7})
        entries.plot([], [], color=KQ, label="w_K ⊙ w_Q")
        entries.plot([], [], color=VO, label="w_V ⊙ w_O")
        entries.plot([], [], label="α → 0", **THEORY)
        entries.legend()
        entries.set(xlabel="rescaled time", ylabel="entries of the products", title=f"Entries, α = {self.scale:g}")
        for name, part, colour in (("W_K W_Qᵀ", slice(0, self.dim), KQ), ("W_V W_Oᵀ", slice(self.dim, None), VO)):
            rank.plot(one.time, support_size(one.product.values[:, part], ACTIVE), color=colour, label=f"rank {name}",
                      drawstyle="steps-post", linewidth=1.8)  # fmt: skip
            rank.plot(limit.time, support_size(limit.product.values[:, part], ACTIVE), drawstyle="steps-post", **THEORY)
        rank.set(xlabel="rescaled time", ylabel="entries above 1e-3", title="Rank grows one by one")
        rank.legend()
        return {"weights": figure}
