"""Figures 4.10, C.23: at a rate so small that no batch is super-critical, the batch size should not matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from dynascope.experiments.features.batch_experiment import BatchExperiment
from dynascope.experiments.features.feature_experiment import best_iterate, lost, refuse_idle, without_result
from dynascope.figures import FAINT, INK, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source


class SmallRatesForgetBatches(BatchExperiment):
    """Does the batch size no longer matter for the features when the rate is below all critical rates?"""

    id = "features.learning-rate"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figures 4.10, C.23")
    cost = {"quick": 10, "full": 20000}
    presets = {
        "quick": {
            "dim": 20, "samples": 240, "held_out": 500, "width": 128, "seeds": 3,
            "batches": (4, 240), "steps": (2000, 800), "small_ratio": 0.05,
        },
        "rank-3": {"data": "rank-3", "depth": 4, "width": 256},
        "rank-4": {"data": "rank-4", "depth": 4, "width": 256},
        "svhn": {"data": "svhn", "architecture": "myrtle", "depth": 5, "width": 256, "samples": 15533, "seeds": 3},
        "celeba": {"data": "celeba", "depth": 4, "width": 256, "samples": 162770, "seeds": 3},
        "rate-0.1": {"small_rate": 0.1},
        "rate-0.1-rank-3": {"data": "rank-3", "depth": 4, "width": 256, "small_rate": 0.1},
    }  # fmt: skip
    control = {"small_ratio": 0.5, "small_rate": None}
    notes = """Each batch size is trained at half the critical rate of the whole set at the start and at a fortieth of
    it, with as many times more steps as the rate is smaller; quick takes a twentieth. Test loss and alignment are those
    of the iterate with the best validation loss, up to a training loss of 1e-3. The presets `rate-0.1` are Figure
    C.23's. In the control the small rate is the large one. That the spread at the small rate is less than half of that
    at the large one is a threshold set here."""

    ratio: float = Field(0.5, gt=0)
    """The large rate over the critical rate of all the data at the start."""
    small_ratio: float = Field(0.025, gt=0)
    """The small one over it."""
    small_rate: float | None = Field(None, gt=0)
    """An absolute small rate instead."""

    @model_validator(mode="after")
    def _one_of_two_small_rates(self) -> Any:
        if self.small_rate is not None:
            refuse_idle(self, ["small_ratio"], "where small_rate is given")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        given = self.problem(seed, self.flips)
        critical = self.critical_at_start(given, seed)
        large, small = self.ratio * critical, self.small_ratio * critical
        if self.small_rate is not None:
            small = np.full(self.seeds, self.small_rate, np.float32)
        stretch = (1, max(1, round(float(large.mean() / small.mean()))))
        trace = self.train(given, [large, small], seed, stretch=stretch, every_step=False)
        ratios = [float(np.mean(rate / critical)) for rate in (large, small)]
        return given.label(trace.assign_coords(ratio=ratios).assign(critical=("seed", critical)))

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        best = best_iterate(measured)
        aligned, test = (best[name].transpose("ratio", "batch", "seed").values for name in ("alignment", "test"))
        shares = (best.supercritical / np.maximum(best.taken, 1)).transpose("ratio", "batch", "seed").values
        common: dict[str, Any] = {"seeds": self.seeds, "source": "Figure 4.10"}
        means = {
            "rates over critical": measured.ratio.values, "batches": list(self.batches),
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
            "no-super-critical-steps", "At the small rate no recorded batch is super-critical",
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

        yield from self.on_the_reference(measured)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        best = best_iterate(measured)
        figure, axes = panels(2, size=(4.6, 3.7))
        places, titles = np.arange(len(self.batches)), {"alignment": "Alignment with the target", "test": "Test loss"}
        for where, (name, title) in zip(axes, titles.items(), strict=True):
            values = best[name].transpose("ratio", "batch", "seed").values
            for one, ratio, color in zip(values, best.ratio.values, settings_colors(2), strict=True):
                where.plot(places, one, color=color, linewidth=0.7, alpha=0.5)
                where.plot(places, one.mean(axis=1), "o-", color=color, linewidth=2, label=f"{ratio:.3g} × critical")
            where.set(xlabel="batch size", title=title)
            where.set_xticks(places, [str(batch) for batch in self.batches])
        axes[0].legend(fontsize=8, title="learning rate", title_fontsize=8, labelcolor=INK)
        axes[0].text(0, -0.24, measured.attrs["data"], transform=axes[0].transAxes, fontsize=7, color=FAINT)
        return {"learning-rate": figure}
