# %% [markdown]
# # An experiment of your own
#
# An experiment is one file with one class. You can vary its fields; its methods are five steps: measure, predict,
# reduce, judge, draw. The lab stores each step, so changing a figure never repeats the measurement.
#
# The question here: gradient descent with noisy gradients does not reach the minimum. How far away does it stay? On a
# parabola with curvature $\lambda$ and noise of variance $s^2$ theory is exact: the variance of the weight is
# $\eta s^2 / (\lambda (2 - \eta\lambda))$.
#
# ## The file

# %% noise_floor.py
import jax
import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.figures import THEORY, panels
from dynascope.lab.criteria import agrees, rising
from dynascope.lab.experiment import Claims, Experiment, Figures, Source, Values


class NoiseFloor(Experiment):
    """How far from the minimum do noisy gradients keep gradient descent?"""

    id = "mine.noise-floor"
    source = Source("A tutorial", "noise on a parabola")

    learning_rates: Values = (0.1, 0.2, 0.4, 0.8)
    noise: float = Field(1.0, ge=0, description="standard deviation of the gradient's noise")
    curvature: float = Field(1.0, gt=0)
    copies: PositiveInt = 20_000
    steps: PositiveInt = 200

    presets = {"quick": {"copies": 5_000}}
    control = {"noise": 0.0}  # without noise it arrives

    def measure(self, seed: int) -> xr.Dataset:
        def member(learning_rate):
            def step(state):
                key, weights = state
                key, fresh = jax.random.split(key)
                gradient = self.curvature * weights + self.noise * jax.random.normal(fresh, weights.shape)
                return key, weights - learning_rate * gradient

            start = (jax.random.key(seed), jax.numpy.zeros(self.copies))
            return ds.Map(step, start, probes={"variance": lambda state: jax.numpy.mean(state[1] ** 2)})

        over = {"learning_rate": np.float32(self.learning_rates)}
        return ds.ensemble(member, over, steps=self.steps, record=10).trace

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        rate = measured.learning_rate
        floor = rate * self.noise**2 / (self.curvature * (2 - rate * self.curvature))
        return xr.Dataset({"variance": floor * (1 - (1 - rate * self.curvature) ** (2 * measured.step))})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        last = dict(step=-1)
        return xr.Dataset({"floor": measured.variance.isel(last), "expected": predicted.variance.isel(last)})

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield rising("rises", "The floor rises with the learning rate", reduced.floor, along="learning_rate")
        yield agrees("exact", "It is where theory says", reduced.floor, reduced.expected, relative=0.1)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(1)
        for rate in measured.learning_rate.values:
            axes.plot(measured.step, measured.variance.sel(learning_rate=rate), label=f"learning rate {rate:g}")
            axes.plot(measured.step, predicted.variance.sel(learning_rate=rate), **THEORY)
        axes.set(xlabel="step", ylabel="variance of the weight")
        axes.legend()
        return {"noise-floor": figure}


# %% [markdown]
# `predict` returns the same names as `measure`, so the two can be compared. `reduce` returns the few numbers that
# matter, and `judge` turns them into claims with a [criterion](../claims-and-store.md#claims).
#
# ## Run it

# %%
# !dynascope run noise_floor.py --preset quick

# %% [markdown]
# ## Its control
#
# Without noise there is no floor, so the main claim must fail. If it held in the control, the experiment would show
# nothing.

# %%
# !dynascope run noise_floor.py --preset quick --control

# %% [markdown]
# ## Look at it

# %%
from pathlib import Path

from matplotlib import image, pyplot

import dynascope as ds

run = ds.lab.load("noise_floor.py", preset="quick")
print([f"{claim.id}: {claim.verdict}" for claim in run.claims])
print("stored:", sorted(path.name for path in Path(run.folder).iterdir()))
figure, axes = pyplot.subplots(figsize=(5.5, 4))
axes.imshow(image.imread(run.folder / "figures" / "noise-floor.png"))
axes.axis("off")

# %% [markdown]
# ## Next
#
# - Does it hold at seeds that nobody has seen? `dynascope audit` counts the seeds at which each claim holds.
# - Vary it over a grid: [sweeps](../sweeps.md).
# - Give it an id instead of a file, or ship it with a package: [your own
#   experiment](../your-own-experiment.md#found-by-its-id).
