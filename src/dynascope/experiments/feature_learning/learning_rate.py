"""Figures 4.10, C.23: at a rate so small that no batch is super-critical, the batch size should not matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.drawing import FAINT, INK, panels, settings_colours
from dynascope.experiments.feature_learning.batch_size import Batches
from dynascope.experiments.feature_learning.learners import best_iterate, lost, without_result
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source


class SmallRatesForgetBatches(Batches):
    """Does the batch size stop to matter for the features where the rate is below all critical rates?"""

    id = "agop.learning-rate"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figures 4.10, C.23")
    cost = {"quick": 10, "full": 20000}
    presets = {
        "quick": {
            "dim": 20, "samples": 240, "held_out": 500, "width": 128, "seeds": 3,
            "batches": (4, 240), "steps": (2000, 800), "small_ratio": 0.05,
        },
        "rank-3": {"task": "rank-3", "depth": 4, "width": 256},
        "rank-4": {"task": "rank-4", "depth": 4, "width": 256},
    }  # fmt: skip
    control = {"small_ratio": 0.5}
    notes = """Each batch size is trained at half the critical rate of the whole set at the start and at a fortieth of
    it, with as many times more steps as the rate is smaller; quick takes a twentieth. Test loss and alignment are those
    of the iterate with the best validation loss, up to a training loss of 1e-3. In the control the small rate is the
    large one. That the spread at the small rate is less than half of that at the large one is a threshold set here."""

    ratio: float = Field(0.5, gt=0)
    """The large rate over the critical rate of all the data at the start."""
    small_ratio: float = Field(0.025, gt=0)

    def measure(self, seed: int) -> xr.Dataset:
        stretch = (1, max(1, round(self.ratio / self.small_ratio)))
        given = self.problem(seed, self.flips)
        critical = self.critical_at_start(given, seed)
        return self.train(given, critical, (self.ratio, self.small_ratio), seed, stretch=stretch, every_step=False)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        best = best_iterate(measured)
        aligned, test = (best[name].transpose("ratio", "batch", "seed").values for name in ("alignment", "test"))
        shares = (best.supercritical / np.maximum(best.taken, 1)).transpose("ratio", "batch", "seed").values
        common: dict[str, Any] = {"seeds": self.seeds, "source": "Figure 4.10"}
        means = {
            "rates over critical": [self.ratio, self.small_ratio], "batches": list(self.batches),
            "without a result": without_result(best),
        }  # fmt: skip
        gone = lost(best)
        for name, values in (("alignment", aligned), ("test-loss", test)):
            large, small = np.ptp(values, axis=1)
            less = small < large / 2
            yield claim(
                name, f"Over the batch sizes the {name.replace('-', ' ')} spreads less than half as much at the small "
                f"rate as at the large one, in every seed ({measured.attrs['data']})",
                measured=share_of(less) | means | {"spreads": [large, small], "means": values.mean(axis=2)},
                expected="share = 1", holds=less.all(), **common,
                diagnosis="" if less.all() else gone or "The batch size matters at the small rate too.",
            )  # fmt: skip
        none = bool(np.all(shares[1] == 0))
        yield claim(
            "no-super-critical-steps", "At the small rate no batch that was looked at is super-critical",
            measured=means | {"shares": shares.mean(axis=2)}, expected="0 at the small rate", holds=none, **common,
            diagnosis="" if none else gone or "The critical rates of the smallest batches spread down to the small "
            "rate.",
        )  # fmt: skip
        worse = aligned[1].max(axis=0) < aligned[0].max(axis=0)
        yield claim(
            "small-is-worse", "No batch size at the small rate is as well aligned as the best one at the large rate, "
            "in every seed", measured=share_of(worse), expected="share = 1", holds=worse.all(), **common,
            diagnosis="" if worse.all() else gone or "A small rate does not cost alignment in every seed.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        best = best_iterate(measured)
        figure, axes = panels(2, size=(4.6, 3.7))
        places, shown = (
            np.arange(len(self.batches)),
            (("alignment", "Alignment with the target"), ("test", "Test loss")),
        )
        for where, (name, title) in zip(axes, shown, strict=True):
            values = best[name].transpose("ratio", "batch", "seed").values
            for one, ratio, colour in zip(values, best.ratio.values, settings_colours(2), strict=True):
                where.plot(places, one, color=colour, linewidth=0.7, alpha=0.5)
                where.plot(places, one.mean(axis=1), "o-", color=colour, linewidth=2, label=f"{ratio:g} × critical")
            where.set(xlabel="batch size", title=title)
            where.set_xticks(places, [str(batch) for batch in self.batches])
        axes[0].legend(fontsize=8, title="learning rate", title_fontsize=8, labelcolor=INK)
        axes[0].text(0, -0.24, measured.attrs["data"], transform=axes[0].transAxes, fontsize=7, color=FAINT)
        return {"learning-rate": figure}
