"""Figure 6: the order, the detour and the slow-down of concept learning in a diffusion model of pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.concept.diffusion_experiment import DiffusionExperiment
from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.figures import panels
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Source


class PaintedConcepts(DiffusionExperiment):
    """In which order does a diffusion model learn the concepts of a picture that it never saw?"""

    id = "concept.diffusion"
    source = Source(PAPER, "Figure 6, Appendix G")
    cost = {"quick": 60, "full": 1}
    presets = {
        "quick": {
            "seeds": 1,
            "pixels": 8,
            "blur": 0.25,
            "channels": (8, 16),
            "blocks": 1,
            "heads": 2,
            "batch": 16,
            "steps": 40,
            "checkpoints": 4,
            "per_prompt": 4,
            "sampling_steps": 5,
            "separations": (0.2, 0.7),
            "classifier_steps": 0,
            "per_class": 64,
        },
        "gpu": {"compute": "bfloat16", "steps": 3000, "checkpoints": 40, "sampling_steps": 50, "shown": 1, "classifier_steps": 2000},
    }
    control = {"shuffled": True}

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(seed)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        return xr.Dataset({"final": measured.concepts.isel(step=-1)})

    def judge(self, reduced: xr.Dataset) -> Iterable[Claim]:
        yield below("x", "x", reduced.final, 2)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Mapping[str, Figure]:
        figure, axes = panels(1)
        axes.plot([0, 1])
        return {"diffusion": figure}
