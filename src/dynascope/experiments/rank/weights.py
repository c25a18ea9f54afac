"""Figure 2b: the entries of a head's products leave zero one at a time."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.curves.plateaus import support_size
from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import (
    ACTIVE,
    HeadExperiment,
    Scale,
    activations,
    against_stages,
    as_predicted,
)
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.criteria import every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.rank.greedy_ranks import resolved_plateaus, staircase

KQ, VO = PALETTE[1], PALETTE[0]


class RankWeights(HeadExperiment):
    """Does the rank of a head's products grow one at a time, by the coordinates and at the times predicted?"""

    id = "rank.weights"
    source = Source(GRADUAL_RANK, "Figure 2b, Theorem 4.1")
    cost = {"quick": 4, "full": 155}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 300, "seeds": 2}
    }
    control = {"scale": 0.3}
    notes = """The rank of a diagonal product is the number of its entries above 1e-3 in size. The theorem is about the
    limit of small starts; at one scale it can be read only from plateaus that are resolved: their length, and the gaps
    of the races before and after them, are at least 10/(rate log(1/alpha)), where the rate is the slowest of growth and
    relaxation on the plateau. Plateaus are read in their middle, and lags in units of 1/(rate log(1/alpha)). At the
    control's scale nothing is resolved."""

    scale: Scale = 1e-32

    def measure(self, seed: int) -> xr.Dataset:
        return self.flow(seed, [self.scale]).isel(scale=0, drop=True)

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        limits = [staircase(found, measured.time.values) for found in self.stages(measured)]
        return xr.concat(limits, dim=xr.DataArray(measured.seed.values, dims="seed", name="seed"))

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        found, others = [], []
        for number, stages in zip(measured.seed.values, self.stages(measured), strict=True):
            path = measured["product"].sel(seed=number, drop=True)
            resolved = resolved_plateaus(stages, self.scale, self.horizon)
            found.append(against_stages(path, stages, resolved, self.scale, self.horizon))
            after = int(stages[-1].waits.argmin())  # may be active just before its time
            expected = [(stage.winner, stage.sign) for stage in stages[1:]] + [
                (after, np.sign(stages[-1].force[after]))
            ]
            seen = [(one.coordinate, one.sign) for one in activations(path.values, measured.time.values)]
            others.append(sum(one not in expected for one in seen))
        joined = xr.concat(found, measured.seed, join="outer")
        return joined.assign(others=("seed", others))

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield from as_predicted(reduced)
        statement = "No entry becomes active that Algorithm 1 does not switch on with that sign"
        yield every("no-other", statement, reduced.others == 0, source="Theorem 4.1")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
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
            sizes = (support_size(path.product.values[:, part], ACTIVE) for path in (one, limit))
            rank.plot(one.time, next(sizes), color=color, label=f"rank {name}", drawstyle="steps-post", linewidth=1.8)
            rank.plot(limit.time, next(sizes), drawstyle="steps-post", **THEORY)
        rank.set(xlabel="rescaled time", ylabel=f"entries above {ACTIVE:g}", title="Rank grows one by one")
        rank.legend()
        return {"weights": figure}
