"""Shared by the experiments that compare batch sizes: fields, training, and the count of super-critical steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator

from dynascope.experiments.features.feature_experiment import FeatureExperiment
from dynascope.experiments.features.outcomes import best_iterate
from dynascope.experiments.features.problems import Problem

RECORDINGS = 50
"""Recordings in a run."""

Rates = Float[np.ndarray, " seed"]


class BatchExperiment(FeatureExperiment):
    """Fields and training of the experiments that compare batch sizes."""

    batches: tuple[PositiveInt, ...] = Field((5, 10, 50, 100, 2000), min_length=2)
    """Batch sizes, smallest first; with all the samples it is gradient descent."""
    steps: tuple[PositiveInt, ...] = (6000, 6000, 4000, 4000, 4000)
    """The number of steps with each."""
    flips: float = Field(0.0, ge=0, le=1)
    """The share of a real set's training labels that is flipped."""

    def reduce(self, measured: Any, predicted: None) -> xr.Dataset:
        best = best_iterate(measured)
        return best.assign(supercritical_share=best.supercritical / np.maximum(best.taken, 1))

    @model_validator(mode="after")
    def _as_many_steps_as_batches(self) -> Any:
        if len(self.steps) != len(self.batches):
            raise ValueError(f"steps must have a number for each of {len(self.batches)} batches; got {len(self.steps)}")
        if max(self.batches) > self.samples:
            raise ValueError(f"batches must be at most samples={self.samples}; got {max(self.batches)}")
        if any(steps % RECORDINGS for steps in self.steps):
            raise ValueError(f"steps must be multiples of {RECORDINGS}; got {self.steps}")
        return self

    def train(
        self, given: Problem, rates: Sequence[Rates], seed: int, *, stretch: tuple[int, ...], every_step: bool
    ) -> xr.Dataset:
        """At each batch size, and at each of the rates (one for each seed, along `ratio`), with `stretch` times the
        steps. Recordings are numbered along `step`; `taken` is the number of steps before each. Super-critical steps
        are counted at every step (`every_step`) or estimated from the recorded ones."""
        runs = []
        for batch, steps in zip(self.batches, self.steps, strict=True):
            along = [
                self._one(given, rate, seed, steps * times, None if batch == self.samples else batch, every_step)
                for rate, times in zip(rates, stretch, strict=True)
            ]
            runs.append(xr.concat(along, "ratio", join="outer"))
        return xr.concat(runs, "batch", join="outer").assign_coords(batch=list(self.batches))

    def _one(
        self, given: Problem, rate: Rates, seed: int, steps: int, batch: int | None, every_step: bool
    ) -> xr.Dataset:
        record = steps // RECORDINGS
        every = 1 if every_step and batch is not None else record
        how: dict[str, Any] = {"steps": steps, "record": record, "batch": batch, "critical_every": every}
        trace = self.learn(given, "ratio", [1.0], seed, optimizer="constant", unit=rate, **how).isel(ratio=0, drop=True)
        over = trace.batch_critical.values < rate[:, None] - 1e-8
        before = (every * (np.cumsum(over, axis=1) - over))[:, :: record // every]  # of the steps before a recording
        kept = trace[["train", "validation", "test", "alignment", "alignment_corner", "diverged_at"]]
        kept = kept.assign(supercritical=(("seed", "step"), before), taken=("step", trace.step.values))
        return kept.assign_coords(step=np.arange(RECORDINGS + 1))
