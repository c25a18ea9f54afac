"""An experiment in one file: a product of two weights waits on a plateau, a single weight does not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.figures import THEORY, panels
from dynascope.lab.criteria import agrees, below
from dynascope.lab.experiment import Claims, Experiment, Figures, Source


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

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        paths = measured.w.transpose("scale", "number", "step")
        half = ds.curves.stages.first_crossing(paths, 0.5, self.learning_rate * measured.step).time
        reduced = xr.Dataset(
            {
                "half_time": (("scale", "number"), half),
                "slope": ("number", np.polyfit(-np.log(self.scales), half, 1)[0]),
            },
            {"scale": list(self.scales)},
        )
        if predicted is not None:
            reduced["gap"] = abs(measured.w - predicted.w).max(("step", "scale"))
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "Each factor e in the start costs one unit of time: slope of the half-time, mean over the starts"
        error = {"standard error": reduced.slope.std(ddof=1) / np.sqrt(self.seeds)}
        yield agrees("one-unit-per-e", statement, reduced.slope.mean(), 1.0, relative=0.02, shown=error)
        if "gap" in reduced:
            statement = "From its own start every run follows the logistic curve: the largest distance"
            yield below("logistic", statement, reduced.gap.max(), 0.05)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        figure, (path, half) = panels(2)
        for scale in self.scales:
            path.plot(measured.step, measured.w.sel(scale=scale).isel(number=0), label=f"start {scale:g}")
            if predicted is not None:
                path.plot(measured.step, predicted.w.sel(scale=scale).isel(number=0), **THEORY)
        path.set(xlabel="step", ylabel="product of the weights")
        path.legend()
        half.semilogx(self.scales, reduced.half_time.mean("number"), marker="o")
        half.set(xlabel="size of the weights at the start", ylabel="time until the product is 1/2")
        return {"plateau": figure}
