"""Figure 4.11: optimizers that align better with the target should have a lower test loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt, model_validator

from dynascope.curves import correlation
from dynascope.dynamics.rates import OPTIMIZERS
from dynascope.experiments.features.feature_experiment import FeatureExperiment, best_iterate, lost, without_result
from dynascope.figures import FAINT, panels
from dynascope.lab.claims import Claim, claim
from dynascope.lab.experiment import Source

STRONG = -0.8
TABLE = {
    "rank-2": {"sgd": 2.0, "gd": 2.0, "momentum": 2.0, "adadelta": 2.0, "adagrad": 0.1, "rmsprop": 1e-2, "adam": 1e-2},
    "rank-3": {"sgd": 2.0, "gd": 2.0, "momentum": 2.0, "adadelta": 2.0, "adagrad": 1e-2, "rmsprop": 1e-2, "adam": 1e-3},
    "rank-4": {"sgd": 1.0, "gd": 1.0, "momentum": 1.0, "adadelta": 1.0, "adagrad": 5e-3, "rmsprop": 1e-3, "adam": 1e-3},
    "svhn": {"sgd": 5.0, "gd": 5.0, "momentum": 5.0, "adadelta": 5.0, "adagrad": 5e-3, "rmsprop": 1e-4, "adam": 1e-3},
    "celeba": {
        "sgd": 10.0, "gd": 10.0, "momentum": 10.0, "adadelta": 10.0, "adagrad": 5e-3, "rmsprop": 1e-3, "adam": 1e-3
    },
}  # fmt: skip
"""Table C.1: learning rates. Data that are not in it take those of rank-2."""
COLORS = ("#22272e", "#00798c", "#66508f", "#edae49", "#d1495b", "#7fb069", "#9aa4b2")


class OptimizersAlign(FeatureExperiment):
    """Across optimizers, does a better alignment go with a lower test loss?"""

    id = "features.optimizers"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figure 4.11, Table C.1")
    cost = {"quick": 11, "full": 900}
    presets = {
        "quick": {
            "dim": 30, "samples": 400, "held_out": 500, "width": 128, "batch": 20, "seeds": 2, "steps": 600,
        },
        "rank-3": {"data": "rank-3", "depth": 4, "width": 256, "samples": 1000},
        "rank-4": {"data": "rank-4", "depth": 4, "width": 256, "samples": 1000},
        "svhn": {"data": "svhn", "architecture": "cnn", "depth": 5, "width": 256, "samples": 1000},
        "celeba": {"data": "celeba", "depth": 4, "width": 256, "samples": 1000},
    }  # fmt: skip
    control = {"data": "full-rank", "architecture": "fcn"}
    notes = """Learning rates are those of Table C.1; momentum 0.9, and PyTorch's defaults for what is not stated. Each
    optimizer takes as many steps, with batches (gradient descent: with all the data). Test loss and alignment are those
    of the iterate with the best validation loss, up to a training loss of 1e-3; a run that diverges has none, is left
    out of the correlation, and is counted. "Strong" is a Pearson correlation of -0.8 or less, a number set after a
    first check had given -0.975; the points of one optimizer are not independent, so the interval is too narrow. In the
    control no direction matters more than others."""

    optimizers: tuple[str, ...] = Field(
        ("gd", "sgd", "momentum", "rmsprop", "adagrad", "adadelta", "adam"), min_length=2
    )
    batch: PositiveInt = 100
    steps: PositiveInt = 6000
    recordings: PositiveInt = 50
    """How many there are in a run."""
    seeds: PositiveInt = 3

    @model_validator(mode="after")
    def _known(self) -> Any:
        for name in self.optimizers:
            if name not in OPTIMIZERS:
                raise ValueError(f"optimizers must be among {', '.join(OPTIMIZERS)}; got {name!r}")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        given, rates = self.problem(seed), TABLE.get(self.data, TABLE["rank-2"])
        found = []
        for name in self.optimizers:
            trace = self.learn(
                given, "rate", [rates[name]], seed, steps=self.steps, record=max(1, self.steps // self.recordings),
                optimizer=name, batch=None if name == "gd" else self.batch,
            )  # fmt: skip
            found.append(best_iterate(trace)[["test", "alignment", "train", "at"]].isel(rate=0, drop=True))
        joined = xr.concat(found, "optimizer").assign_coords(optimizer=list(self.optimizers))
        return given.label(joined)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        aligned, test = (measured[name].transpose("optimizer", "seed").values for name in ("alignment", "test"))
        related = correlation(test, aligned)
        left_out = without_result(measured)
        enough = left_out <= test.size / 2
        strong = enough and related["pearson"] <= STRONG
        mean_aligned, mean_test = (measured[name].mean("seed").values for name in ("alignment", "test"))
        means = {
            "optimizers": list(self.optimizers), "alignment": mean_aligned, "test loss": mean_test,
            "without a result": measured.test.isnull().sum("seed"),
        }  # fmt: skip
        weak = "" if enough else lost(measured)
        common: dict[str, Any] = {"seeds": self.seeds, "source": "Figure 4.11"}
        yield claim(
            "correlation", f"Over optimizers and seeds, test loss and alignment are strongly negatively correlated "
            f"({measured.attrs['data']}; {left_out} of {test.size} runs diverged and are left out)",
            measured=related | means, expected=f"Pearson ≤ {STRONG}, over at least half of the runs", holds=strong,
            **common,
            diagnosis="" if strong else weak or "Without directions to find, the test loss depends on other things.",
        )  # fmt: skip
        between = correlation(mean_test, mean_aligned)
        alike = enough and between["pearson"] <= STRONG
        yield claim(
            "between-optimizers", "The same holds for the means of the optimizers: it is no effect of the seeds alone",
            measured=between, expected=f"Pearson ≤ {STRONG}", holds=alike, **common,
            diagnosis="" if alike else weak or "Optimizers that align alike differ in their test loss.",
        )  # fmt: skip

        yield from self.on_the_reference(measured)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, axes = panels(1, size=(5.6, 4.2))
        for place, name in enumerate(self.optimizers):
            one = measured.isel(optimizer=place)
            axes.scatter(one.alignment, one.test, s=34, color=COLORS[place % len(COLORS)], label=name)
        axes.set(xlabel="alignment with the target", ylabel="test loss", title="Every optimizer, every seed")
        axes.legend(fontsize=8)
        axes.text(0, -0.2, measured.attrs["data"], transform=axes.transAxes, fontsize=7, color=FAINT)
        return {"optimizers": figure}
