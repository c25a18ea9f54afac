"""Figures 12 and 13: the vision transformer trained by SGD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.rank import attention_figures, attention_ranks
from dynascope.experiments.rank.vision_experiment import VisionExperiment
from dynascope.lab.claims import Claim
from dynascope.lab.experiment import Source


class VisionSGD(VisionExperiment):
    """Does the attention of a vision transformer gain rank gradually under plain SGD too?"""

    id = "rank.vision-sgd"
    source = Source("Transformers learn through gradual rank increase", "Figures 12, 13")
    cost = {"quick": 12, "full": 1000000}
    presets = {
        "quick": {
            "data": "digit-pairs", "images": 2000, "dim": 64, "depth": 2, "heads": 2, "head_dim": 32, "hidden": 64,
            "batch": 50, "epochs": 15, "warmup_epochs": 1, "recorded": 30, "seeds": 2,
        },
        "small": {
            "data": "digit-pairs", "dim": 64, "depth": 4, "heads": 4, "head_dim": 32, "hidden": 64, "batch": 200,
            "epochs": 60, "warmup_epochs": 5, "recorded": 60, "seeds": 3,
        },
        "gpu": {"compute": "bfloat16", "images": 20000, "epochs": 60, "recorded": 110},
    }  # fmt: skip
    control = {"perturbation": "random"}
    notes = """The paper states the learning rate 0.3 and 500 epochs; batch 512, no momentum, 15 epochs of warm-up and a
    cosine decay are our choices. Data sets and presets are those of rank.vision. In the control noise of the same size
    replaces what training changed. The full cost on a CPU is an estimate."""

    learning_rate: float = Field(0.3, gt=0)

    def measure(self, seed: int) -> xr.Dataset:
        return self.train("sgd", self.learning_rate, (1.0,), seed).squeeze("scale", drop=True)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        yield attention_ranks.low_rank(measured, "Figures 12, 13", "key-query", 0.5)
        yield attention_ranks.low_rank(measured, "Figures 12, 13", "value-output", 0.5)
        yield from attention_ranks.grows(measured, "Figures 12, 13", 1.0)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        return {
            "stable-rank": attention_figures.per_layer(measured, f"SGD, {measured.attrs['data']}"),
            "learning": attention_figures.learning(measured),
        }
