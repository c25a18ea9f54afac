"""Figure C.14: training from weights near zero learns features without any catapult."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope.curves import paired_difference
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.features.feature_experiment import DATA, CatapultExperiment
from dynascope.experiments.features.outcomes import best_iterate, larger, outcomes, results, with_results
from dynascope.figures import FAINT, panels, settings_colors
from dynascope.lab.criteria import above
from dynascope.lab.experiment import Claims, Figures, Source


class NearZero(CatapultExperiment):
    """Does training from weights near zero learn as good features as catapults do?"""

    id = "features.near-zero"
    source = Source(OVER_PARAMETERIZED, "Figure C.14")
    cost = {"quick": 10, "full": 1500, "H200": 110}
    presets = {
        "quick": {"dim": 30, "samples": 300, "held_out": 500, "width": 160, "seeds": 20}
        | {"catapults": (0, 2), "steps": 260, "steps_near_zero": 600},
        "rank-3": DATA["rank-3"] | {"samples": 1000},
        "svhn": DATA["svhn"] | {"architecture": "cnn", "depth": 5, "samples": 1000},
        "celeba": DATA["celeba"] | {"samples": 1000},
    }
    control = {"data": "full-rank", "architecture": "fcn"}
    notes = """Initial weights N(0, 0.1²), trained at a fixed rate of 3: half the critical rate at such weights is some
    hundreds, at which the kernel grows at once and training diverges. They are compared with the N(0, 1) weights of
    features.gradient-descent. In the control the target depends on all directions equally."""

    scale: float = Field(0.1, gt=0)
    """The standard deviation of the weights near zero."""
    rate: float = Field(3.0, gt=0)
    """The learning rate from there."""
    steps_near_zero: PositiveInt = 2000

    def measure(self, seed: int) -> xr.DataTree:
        """`usual`: the runs through catapults; `near_zero`: those from near zero."""
        given = self.problem(seed)
        how = {"steps": self.steps_near_zero, "record": self.record, "scale": self.scale}
        small = self.learn(given, "start", [self.rate], seed, optimizer="constant", **how).isel(start=0, drop=True)
        usual = self.descents(given, seed)
        return xr.DataTree.from_dict({"usual": given.label(usual), "near_zero": given.label(small)})

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        usual, small = (best_iterate(measured[name].to_dataset()) for name in ("usual", "near_zero"))
        names = [*(f"{count} catapults" for count in self.catapults), "near zero"]
        usual = usual.rename(catapults="start").drop_vars("start")
        return xr.concat([usual, small.expand_dims("start")], "start", data_vars="minimal").assign_coords(start=names)

    def judge(self, reduced: xr.Dataset) -> Claims:
        found = with_results(reduced)
        usual, small = found.isel(start=slice(None, -1)), found.sel(start="near zero")
        first = usual.isel(start=0)
        statement = f"Near zero the alignment is better than with {first.start.item()} from the usual start"
        statement += f" ({reduced.attrs['data']})"
        yield larger("beside-no-catapult", statement, small.alignment, first.alignment, shown=outcomes(found))
        about: dict[str, Any] = {
            "printed": "small initialization achieves the smallest test loss/error as well as the best AGOP alignment"
        }
        change = paired_difference(small.alignment, usual.alignment.max("start"))
        statement = "Near zero the alignment is the best of all (mean difference from the best of the others)"
        yield above("best-alignment", statement, change["mean"], 0, shown={"difference": change}, **about)
        change = paired_difference(usual.test.min("start"), small.test)
        statement = "Near zero the test loss is the lowest of all (mean difference from the best of the others)"
        yield above("best-test-loss", statement, change["mean"], 0, shown={"difference": change}, **about)
        yield results(reduced)
        yield from self.on_the_reference(reduced)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(3, size=(4.2, 3.7))
        curves = measured["near_zero"]
        places, colors = np.arange(reduced.sizes["start"]), settings_colors(reduced.sizes["start"])
        shown = ((reduced.alignment, "Alignment with the target"), (reduced.test, "Test loss"))
        for where, (variable, title) in zip(axes[:2], shown, strict=True):
            values = variable.transpose("start", "seed").values
            where.plot(places, values, color=FAINT, linewidth=0.8, zorder=1)
            for place, color in zip(places, colors, strict=True):
                where.scatter(np.full(values.shape[1], place), values[place], color=color, s=22, zorder=2)
            where.set(title=title)
            where.set_xticks(places, [str(name).replace(" ", "\n") for name in reduced.start.values])
            where.margins(x=0.12)
        axes[2].plot(curves.step, curves.alignment.transpose("step", "seed"), color=colors[-1], linewidth=1.0)
        axes[2].set(xlabel="step", title="Alignment from near zero, all seeds")
        return {"near-zero": figure}
