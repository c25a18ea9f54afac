"""The base of the experiments on trained transformers."""

from __future__ import annotations

from abc import ABC
from typing import Any

from dynascope.experiments.recall.training import RecallTraining, Training
from dynascope.lab.experiment import ComposedExperiment

QUICK: dict[str, Any] = {"tokens": 20, "length": 32, "dim": 32, "hidden": 128, "batch": 32, "learning_rate": 0.04}
QUICK |= {"steps": 600, "tests": 128, "ranks": (3, 6)}
SMALL: dict[str, Any] = {"length": 64, "dim": 64, "hidden": 256, "batch": 64, "steps": 1500}
SMALL |= {"tests": 256, "ranks": (6, 12)}


class TrainedExperiment(Training, ComposedExperiment, ABC):
    """An experiment on one training or several."""

    def training(self, **changes: Any) -> RecallTraining:
        """The training with these fields, some of them changed."""
        return RecallTraining(**{**dict(Training.of(self)), **changes})

    @property
    def published_size(self) -> bool:
        """Whether width and length are the document's: its numbers are judged there."""
        return (self.dim, self.length) == (256, 256)

    @property
    def matmul_precision(self) -> str:
        return "default"
