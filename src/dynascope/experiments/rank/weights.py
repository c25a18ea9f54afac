"""Figure 2b: the entries of a head's products leave zero one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves.plateaus import support_size
from dynascope.experiments.rank.diagonal_head import ACTIVE, HeadExperiment, Scale, activations
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.theory.rank.greedy_ranks import LAG, resolved_plateaus, staircase

KQ, VO = PALETTE[1], PALETTE[0]


class RankWeights(HeadExperiment):
    """Does the rank of a head's products grow one at a time, by the coordinates and at the times predicted?"""

    id = "rank.weights"
    source = Source("Transformers learn through gradual rank increase", "Figure 2b, Theorem 4.1")
    cost = {"quick": 4, "full": 155}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 150, "seeds": 2}
    }
    control = {"scale": 0.3}
    notes = """The rank of a diagonal product is the number of its entries above 1e-3 in size. Plateaus are judged when
    three quarters of them have passed, if they are resolved: gap and length at least 7/log(1/alpha), and the race
    before them no near tie. At the control's scale all entries are active from the beginning. The lag of an entry is
    judged in units of 1/(|g| log(1/alpha)), the time in which its weight grows by a factor e; the claim first left
    out |g|, and one entry of fourteen exceeded it (10.6, under a weak force)."""

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
            path = measured["product"].sel(seed=number)
            for k in resolved_plateaus(stages, self.scale, self.horizon):
                now = path.interp(time=stages[k].three_quarters(self.horizon)).values
                active, expected = np.abs(now) > ACTIVE, np.abs(stages[k].beta) > ACTIVE
                right.append(np.array_equal(active, expected))
                signs += (np.sign(now) == np.sign(stages[k].beta))[active & expected].tolist()
            end, found = self.horizon - LAG / pace, activations(path.values, measured.time.values)
            for before, stage in pairwise(stages):
                own = [one for one in found if (one.coordinate, one.sign) == (stage.winner, stage.sign)]
                found = [one for one in found if one not in own[:1]]  # an entry that returns is active twice
                if stage.entered and stage.time < end:
                    late = abs(own[0].time - stage.time) if own else np.inf
                    near.append(late * pace * abs(before.force[stage.winner]))
            stray += [one for one in found if one.time < end]
        holds = len(right) >= 2 and all(right)
        yield claim(
            "one-at-a-time", "On every resolved plateau exactly the coordinates of Algorithm 1 are active, and there "
            "are at least two such plateaus", source=str(self.source),
            measured=share_of(right), expected="share = 1, of ≥ 2", holds=holds, seeds=self.seeds,
            diagnosis="" if holds else "No plateau is resolved at a scale this large.",
        )  # fmt: skip
        on_time = [bool(lag <= LAG) for lag in near]
        yield claim(
            "on-time", f"Every entry passes {ACTIVE:g} within {LAG:g}/(|g| log(1/alpha)) of its T_k, where g is the "
            "force on it before",
            source="Theorem 4.1", measured=share_of(on_time) | {"|g| log(1/alpha) |lag|": near}, expected="share = 1",
            holds=all(on_time) and len(near) > 0, seeds=self.seeds,
            diagnosis="From a scale this large nothing is predicted to be learned early enough in the run." if not near
            else "" if all(on_time) else "In a near tie the loser of a race is held back until the winner settles.",
        )  # fmt: skip
        alone = not stray and len(signs) > 0 and all(signs)
        yield claim(
            "no-other", "No other coordinate becomes active, and on every resolved plateau the signs are as predicted",
            source="Theorem 4.1", measured={"others": len(stray)} | share_of(signs), expected="0, share = 1",
            holds=alone, seeds=self.seeds,
            diagnosis="" if alone else "From a large start all coordinates are active at once.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        one, limit = measured.isel(seed=0), predicted.isel(seed=0)
        figure, (entries, rank) = panels(2, size=(5.6, 3.8))
        for i in range(2 * self.dim):
            there = np.abs(limit.product.values[:, i]).max() > ACTIVE
            color = FAINT if not there else (KQ if i < self.dim else VO)
            entries.plot(one.time, one.product.values[:, i], color=color, linewidth=1.4)
            if there:
                entries.plot(limit.time, limit.product.values[:, i], **{**THEORY, "linewidth": 0.7})
        entries.plot([], [], color=KQ, label="w_K ⊙ w_Q")
        entries.plot([], [], color=VO, label="w_V ⊙ w_O")
        entries.plot([], [], label="α → 0", **THEORY)
        entries.legend()
        entries.set(xlabel="rescaled time", ylabel="entries of the products", title=f"Entries, α = {self.scale:g}")
        for name, part, color in (("W_K W_Qᵀ", slice(0, self.dim), KQ), ("W_V W_Oᵀ", slice(self.dim, None), VO)):
            rank.plot(one.time, support_size(one.product.values[:, part], ACTIVE), color=color, label=f"rank {name}",
                      drawstyle="steps-post", linewidth=1.8)  # fmt: skip
            rank.plot(limit.time, support_size(limit.product.values[:, part], ACTIVE), drawstyle="steps-post", **THEORY)
        rank.set(xlabel="rescaled time", ylabel="entries above 1e-3", title="Rank grows one by one")
        rank.legend()
        return {"weights": figure}
