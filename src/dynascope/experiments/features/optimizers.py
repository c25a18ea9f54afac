"""Figure 4.11: optimizers that align better with the target should have a lower test loss."""

from __future__ import annotations

from typing import Any

import xarray as xr
from pydantic import Field, PositiveInt, model_validator

from dynascope.curves import correlation
from dynascope.dynamics.rates import OPTIMIZERS
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.features.feature_experiment import DATA, FeatureExperiment
from dynascope.experiments.features.outcomes import best_iterate, outcomes, results
from dynascope.figures import FAINT, panels
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Claims, Figures, Source

GROUP = ("sgd", "gd", "momentum", "adadelta")
TABLE = {
    data: dict.fromkeys(GROUP, one) | {"adagrad": adagrad, "rmsprop": rmsprop, "adam": adam}
    for data, (one, adagrad, rmsprop, adam) in {
        "rank-2": (2.0, 0.1, 1e-2, 1e-2),
        "rank-3": (2.0, 1e-2, 1e-2, 1e-3),
        "rank-4": (1.0, 5e-3, 1e-3, 1e-3),
        "svhn": (5.0, 5e-3, 1e-4, 1e-3),
        "celeba": (10.0, 5e-3, 1e-3, 1e-3),
    }.items()
}
"""Table C.1: learning rates. Data that are not in it take those of rank-2."""
COLORS = ("#22272e", "#00798c", "#66508f", "#edae49", "#d1495b", "#7fb069", "#9aa4b2")


class OptimizersAlign(FeatureExperiment):
    """Across optimizers, does a better alignment go with a lower test loss?"""

    id = "features.optimizers"
    source = Source(OVER_PARAMETERIZED, "Figure 4.11, Table C.1")
    cost = {"quick": 11, "full": 900}
    presets = {
        "quick": {"dim": 30, "samples": 400, "held_out": 500, "width": 128, "batch": 20, "seeds": 2, "steps": 600},
        "rank-3": DATA["rank-3"] | {"samples": 1000},
        "rank-4": DATA["rank-4"] | {"samples": 1000},
        "svhn": DATA["svhn"] | {"architecture": "cnn", "depth": 5, "samples": 1000},
        "celeba": DATA["celeba"] | {"samples": 1000},
    }
    control = {"data": "full-rank", "architecture": "fcn"}
    notes = """Learning rates are those of Table C.1; momentum 0.9, and PyTorch's defaults for unstated settings. All
    optimizers take the same number of steps, with batches (gradient descent: with all the data). Test loss and
    alignment are those of the iterate with the best validation loss, up to a training loss of 1e-3; a run that diverges
    has none and is left out of the correlation. The points of one optimizer are not independent, so the interval is too
    narrow. In the control no direction matters more than others."""

    defaults = {"seeds": 3}

    optimizers: tuple[str, ...] = Field(
        ("gd", "sgd", "momentum", "rmsprop", "adagrad", "adadelta", "adam"), min_length=2
    )
    batch: PositiveInt = 100
    steps: PositiveInt = 6000
    recordings: PositiveInt = 50
    """Recorded steps in a run."""

    @model_validator(mode="after")
    def _known(self) -> Any:
        for name in self.optimizers:
            if name not in OPTIMIZERS:
                raise ValueError(f"optimizers must be among {', '.join(OPTIMIZERS)}; got {name!r}")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        given, rates = self.problem(seed), TABLE.get(self.data, TABLE["rank-2"])
        every, traces = max(1, self.steps // self.recordings), []
        for name in self.optimizers:
            how = {"optimizer": name, "batch": None if name == "gd" else self.batch}
            traces.append(self.learn(given, "rate", [rates[name]], seed, steps=self.steps, record=every, **how))
        joined = xr.concat([trace.isel(rate=0, drop=True) for trace in traces], "optimizer")
        return given.label(joined.assign_coords(optimizer=list(self.optimizers)))

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        return best_iterate(measured).drop_vars("alignment_corner")

    def judge(self, reduced: xr.Dataset) -> Claims:
        means = reduced[["test", "alignment"]].mean("seed", skipna=False)
        statement = "Over optimizers and seeds, a better alignment goes with a lower test loss: Pearson's correlation "
        statement += f"({reduced.attrs['data']})"
        chosen = "The bound was set after a first check had given a correlation of -0.975."
        for id, said, one in (
            ("correlation", statement, reduced),
            (
                "between-optimizers",
                "So it does for the means of the optimizers: it is no effect of the seeds alone",
                means,
            ),
        ):
            related = correlation(one.test, one.alignment)
            shown = related | (outcomes(reduced) if id == "correlation" else {})
            yield below(id, said, related["pearson"], -0.8, shown=shown, post_hoc=chosen)
        yield results(reduced, 0.5)
        yield from self.on_the_reference(reduced)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(1, size=(5.6, 4.2))
        for place, name in enumerate(self.optimizers):
            one = reduced.isel(optimizer=place)
            axes.scatter(one.alignment, one.test, s=34, color=COLORS[place % len(COLORS)], label=name)
        axes.set(xlabel="alignment with the target", ylabel="test loss", title="Every optimizer, every seed")
        axes.legend(fontsize=8)
        axes.text(0, -0.2, reduced.attrs["data"], transform=axes.transAxes, fontsize=7, color=FAINT)
        return {"optimizers": figure}
