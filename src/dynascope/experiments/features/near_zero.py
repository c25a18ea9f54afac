"""Figure C.14: training from weights near zero learns features without any catapult."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.curves import paired_difference
from dynascope.experiments.features.feature_experiment import (
    CatapultExperiment,
    best_iterate,
    lost,
    unfinished,
    without_result,
)
from dynascope.figures import FAINT, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source


class NearZero(CatapultExperiment):
    """Does training from weights near zero learn as good features as catapults do?"""

    id = "features.near-zero"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figure C.14")
    cost = {"quick": 3, "full": 1500}
    presets = {
        "quick": {
            "dim": 30, "samples": 300, "held_out": 500, "width": 160, "catapults": (0, 2),
            "steps": 260, "steps_near_zero": 600,
        }
    }  # fmt: skip
    control = {"data": "full-rank"}
    notes = """Initial weights N(0, 0.1²), trained at a fixed rate of 3: half the critical rate at such weights is some
    hundreds, at which the kernel grows at once and training diverges. They are compared with the N(0, 1) weights of
    features.gradient-descent. In the control the target depends on all directions equally."""

    scale: float = Field(0.1, gt=0)
    """The standard deviation of the weights near zero."""
    rate: float = Field(3.0, gt=0)
    """The learning rate from there."""
    steps_near_zero: PositiveInt = 2000

    def measure(self, seed: int) -> xr.DataTree:
        """`best`: the best iterates of all starts; `near_zero`: the curves of the runs from near zero."""
        given = self.problem(seed)
        trace = self.descents(given, seed)
        from_one = best_iterate(trace).assign(complete=(("catapults", "seed"), self.completed(trace)))
        near_zero = self.learn(
            given, "start", [self.rate], seed, steps=self.steps_near_zero, record=self.record, optimizer="constant",
            scale=self.scale,
        )  # fmt: skip
        small = best_iterate(near_zero)
        small = small.assign(complete=(("start", "seed"), np.ones((1, self.seeds), bool)))
        kept = ["test", "alignment", "train", "at", "complete"]
        found = xr.concat(
            [from_one[kept].rename(catapults="start").drop_vars("start"), small[kept].drop_vars("start")], "start"
        )
        found = found.assign_coords(start=[*(f"{count} catapults" for count in self.catapults), "near zero"])
        curves = near_zero[["train", "validation", "alignment"]].isel(start=0, drop=True)
        return xr.DataTree.from_dict({"best": given.label(found), "near_zero": curves})

    def judge(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> Iterable[Claim]:
        found = measured["best"].to_dataset()
        aligned, test = found.alignment.values, found.test.values
        common: dict[str, Any] = {"seeds": self.seeds, "source": "Figure C.14"}
        names = list(found.start.values)
        complete = found.complete.transpose("start", "seed").values.astype(bool)
        missing = lost(found) or unfinished(complete[:-1])
        means = {
            "starts": names, "alignment": aligned.mean(axis=1), "test loss": test.mean(axis=1),
            "catapults complete": share_of(complete[:-1].ravel()), "without a result": without_result(found),
        }  # fmt: skip
        better = (aligned[-1] > aligned[0]) & complete[0]
        yield claim(
            "beside-no-catapult", f"Near zero the alignment is better than with {names[0]} from the usual start, in "
            f"every seed ({found.attrs['data']})",
            measured=share_of(better) | {"change": paired_difference(aligned[-1], aligned[0])} | means,
            expected="share = 1", holds=better.all(), **common,
            diagnosis="" if better.all() else missing or "Without directions to find, a small start is no better "
            "aligned.",
        )  # fmt: skip
        for name, values, sign in (("alignment", aligned, 1), ("test-loss", test, -1)):
            best = (sign * values[-1] >= (sign * values[:-1]).max(axis=0)) & complete.all(axis=0)
            yield claim(
                f"best-{name}", f"Near zero the {name.replace('-', ' ')} is the best of all starts and numbers of "
                "catapults, in every seed", measured=share_of(best) | {"change from the most catapults":
                paired_difference(values[-1], values[-2])}, expected="share = 1", holds=best.all(), **common,
                diagnosis="" if best.all() else missing or "It is a tie with the most catapults, within the spread of "
                "the seeds.",
            )  # fmt: skip

        yield from self.on_the_reference(found)

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, axes = panels(3, size=(4.2, 3.7))
        found, curves = measured["best"], measured["near_zero"]
        places, colors = np.arange(found.sizes["start"]), settings_colors(found.sizes["start"])
        shown = ((found.alignment, "Alignment with the target"), (found.test, "Test loss"))
        for where, (variable, title) in zip(axes[:2], shown, strict=True):
            values = variable.values
            where.plot(places, values, color=FAINT, linewidth=0.8, zorder=1)
            for place, color in zip(places, colors, strict=True):
                where.scatter(np.full(values.shape[1], place), values[place], color=color, s=22, zorder=2)
            where.set(title=title)
            where.set_xticks(places, [str(name).replace(" ", "\n") for name in found.start.values])
            where.margins(x=0.12)
        axes[2].plot(curves.step, curves.alignment.T, color=colors[-1], linewidth=1.0)
        axes[2].set(xlabel="step", title="Alignment from near zero, all seeds")
        return {"near-zero": figure}
