"""Figures 4.10, C.23: at a rate so small that no batch is super-critical, the batch size should not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from pydantic import Field, model_validator

from dynascope.curves import paired_difference
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.features.batch_experiment import BatchExperiment
from dynascope.experiments.features.feature_experiment import DATA
from dynascope.experiments.features.outcomes import outcomes, results, with_results
from dynascope.experiments.idle_fields import refuse_idle
from dynascope.figures import FAINT, INK, panels, settings_colors
from dynascope.lab.criteria import above, below, every, rising
from dynascope.lab.experiment import Claims, Figures, Source

MEANS = "The means over seeds: in one of thirty runs the batch sizes happen to agree at the large rate too."


class SmallRatesForgetBatches(BatchExperiment):
    """Does the batch size no longer matter for the features when the rate is below all critical rates?"""

    id = "features.learning-rate"
    source = Source(OVER_PARAMETERIZED, "Figures 4.10, C.23")
    cost = {"quick": 10, "full": 20000}
    presets = {
        "quick": {"dim": 20, "samples": 240, "held_out": 500, "width": 128, "seeds": 3}
        | {"batches": (4, 240), "steps": (2000, 800), "small_ratio": 0.05},
        "rank-3": DATA["rank-3"],
        "rank-4": DATA["rank-4"],
        "svhn": DATA["all-svhn"],
        "celeba": DATA["all-celeba"],
        "rate-0.1": {"small_rate": 0.1},
        "rate-0.1-rank-3": DATA["rank-3"] | {"small_rate": 0.1},
    }
    control = {"small_ratio": 0.5, "small_rate": None}
    notes = """Each batch size is trained at half the critical rate of the whole set at the start and at a fortieth of
    it, with the number of steps increased by the same factor; quick takes a twentieth. Test loss and alignment are
    those of the iterate with the best validation loss, up to a training loss of 1e-3. The presets `rate-0.1` are Figure
    C.23's. In the control the small rate is the large one."""

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

    def judge(self, reduced: xr.Dataset) -> Claims:
        found = with_results(reduced)
        spread = found[["alignment", "test"]].max("batch") - found[["alignment", "test"]].min("batch")
        for id, name, title in (("alignment", "alignment", "alignment"), ("test-loss", "test", "test loss")):
            large, small = (spread[name].isel(ratio=i) for i in (0, 1))
            statement = f"At the small rate the {title} spreads less over the batch sizes: ratio of the mean spreads "
            statement += f"({reduced.attrs['data']})"
            shown = outcomes(found) | {"spread at the large rate": large, "at the small one": small}
            ratio = float(small.mean("seed") / large.mean("seed"))
            yield below(id, statement, ratio, 0.5, shown=shown, post_hoc=MEANS)
        printed = "decreasing batch size consistently improves generalization for large learning rates"
        statement = "At the large rate the test loss, mean over the seeds, rises with the batch size"
        large = found.test.isel(ratio=0).mean("seed").sortby("batch")
        yield rising("smaller-is-better", statement, large, along="batch", source="Section 4.4", printed=printed)
        none = found.supercritical_share.isel(ratio=1) == 0
        yield every("no-super-critical-steps", "At the small rate no recorded batch is super-critical", none)
        best = found.alignment.max("batch")
        statement = "The best batch size at the small rate is less aligned than the best at the large rate: mean lead"
        lead = paired_difference(best.isel(ratio=0), best.isel(ratio=1))
        yield above("small-is-worse", statement, lead["mean"], 0.0, shown={"lead": lead}, post_hoc=MEANS)
        yield results(reduced)
        yield from self.on_the_reference(reduced)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(2, size=(4.6, 3.7))
        places, titles = np.arange(len(self.batches)), {"alignment": "Alignment with the target", "test": "Test loss"}
        for where, (name, title) in zip(axes, titles.items(), strict=True):
            values = reduced[name].transpose("ratio", "batch", "seed").values
            for one, ratio, color in zip(values, reduced.ratio.values, settings_colors(2), strict=True):
                where.plot(places, one, color=color, linewidth=0.7, alpha=0.5)
                where.plot(places, one.mean(axis=1), "o-", color=color, linewidth=2, label=f"{ratio:.3g} × critical")
            where.set(xlabel="batch size", title=title)
            where.set_xticks(places, [str(batch) for batch in self.batches])
        axes[0].legend(fontsize=8, title="learning rate", title_fontsize=8, labelcolor=INK)
        axes[0].text(0, -0.24, reduced.attrs["data"], transform=axes[0].transAxes, fontsize=7, color=FAINT)
        return {"learning-rate": figure}
