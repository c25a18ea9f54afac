"""An experiment in one file: a product of two weights waits on a plateau, a single weight does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.figures import THEORY, panels
from dynascope.lab.claims import Claim, claim
from dynascope.lab.experiment import Experiment, Source


class Plateau(Experiment):
    """Does a two-layer network wait longer the smaller it starts?

    Learn f(x) = x with f(x) = u v x. From u = v the product w = u v obeys dw/dt = 2 w (1 - w), so it reaches 1/2 at
    t = ln((1 - w(0)) / w(0)) / 2: one more unit of time for each factor e by which the weights start smaller.
    """

    id = "mine.plateau"
    source = Source("A folklore of deep linear networks", "the saddle at zero")

    scales: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003)
    spread: float = Field(0.1, ge=0, description="relative spread of the weights at the start")
    depth: PositiveInt = 2
    learning_rate: float = Field(0.01, gt=0)
    steps: PositiveInt = 2000
    seeds: PositiveInt = 20

    presets = {"quick": {"seeds": 5}}
    control = {"depth": 1}  # one weight has no saddle: it learns at once, wherever it starts
    cost = {"quick": 2, "full": 2}
    notes = "The control has a single weight, whose half-time hardly depends on its start."

    def measure(self, seed: int) -> xr.Dataset:
        def member(scale, number):
            noise = jax.random.normal(jax.random.key(number), (self.depth,))
            weights = scale * (1 + self.spread * noise)
            return ds.Descent(
                weights, lambda w: (jnp.prod(w) - 1) ** 2 / 2, optax.sgd(self.learning_rate), probes={"w": jnp.prod}
            )

        numbers = np.arange(self.seeds) + 1000 * seed
        over = {"scale": np.array(self.scales), "number": numbers}
        return ds.ensemble(member, over, steps=self.steps, record=5).trace

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        if self.depth != 2:
            return None
        start = measured.w.isel(step=0)
        time = self.learning_rate * measured.step
        return xr.Dataset({"w": 1 / (1 + (1 - start) / start * np.exp(-2 * time))})

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        slopes = np.polyfit(-np.log(self.scales), self.half_times(measured), 1)[0]
        mean, error = slopes.mean(), slopes.std(ddof=1) / np.sqrt(self.seeds)
        yield claim(
            "one-unit-per-e",
            "Each factor e in the start costs one unit of time, within 2 %",
            source=str(self.source),
            measured={"slope": mean, "standard error": error},
            expected="1",
            holds=bool(abs(mean - 1) < 0.02),
            seeds=self.seeds,
        )
        if predicted is not None:
            gap = np.abs(measured.w - predicted.w).max().item()
            yield claim(
                "logistic",
                "From its own start every run is within 0.05 of the logistic curve",
                source=str(self.source),
                measured=gap,
                expected="≤ 0.05",
                holds=gap <= 0.05,
                seeds=self.seeds,
            )

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, axes = panels(1, size=(6, 3.6))
        for scale in self.scales:
            axes.plot(measured.step, measured.w.sel(scale=scale).isel(number=0), label=f"start {scale:g}")
            if predicted is not None:
                axes.plot(measured.step, predicted.w.sel(scale=scale).isel(number=0), **THEORY)
        axes.set(xlabel="step", ylabel="product of the weights")
        axes.legend()
        return {"plateau": figure}

    def half_times(self, measured: xr.Dataset) -> np.ndarray:
        """When the product reaches 1/2, (scale, number), in units of learning rate times steps."""
        curves = measured.w.transpose("scale", "number", "step")
        return ds.curves.stages.first_crossing(curves, 0.5, self.learning_rate * measured.step).time
