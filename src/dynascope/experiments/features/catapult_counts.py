"""What the experiments that count catapults share: gradient descent through so many of them, for each number a run."""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Bool
from pydantic import Field, PositiveInt

from dynascope.experiments.features.feature_experiment import FeatureExperiment
from dynascope.experiments.features.problems import Problem


class CatapultExperiment(FeatureExperiment):
    """The rate reacts: see `dynamics.rates.catapults`."""

    catapults: tuple[int, ...] = Field((0, 1, 2), min_length=2)
    """How many to go through, fewest first."""
    factor: float = Field(1.4, gt=1)
    """To what multiple of the critical rate the rate is raised."""
    steps: PositiveInt = 1500
    record: PositiveInt = 10

    def measure(self, seed: int) -> xr.Dataset:
        given = self.problem(seed)
        return given.label(self.descents(given, seed))

    def completed(self, measured: xr.Dataset) -> Bool[np.ndarray, "count seed"]:
        """Which runs went through as many catapults as they were to."""
        done = measured.rate_catapults.isel(step=-1).transpose("count", "seed").values
        return done == np.asarray(self.catapults)[:, None]

    def descents(self, given: Problem, seed: int) -> xr.Dataset:
        """Training through each number of catapults, along `count`."""
        return self.learn(
            given, "count", np.asarray(self.catapults, np.int32), seed, steps=self.steps, record=self.record,
            factor=self.factor,
        )  # fmt: skip


def unfinished(completed: Bool[np.ndarray, "count seed"]) -> str:
    """A sentence for a diagnosis; empty if all runs went through their catapults."""
    missing = int((~completed).sum())
    return f"{missing} of {completed.size} runs did not complete their catapults." if missing else ""
