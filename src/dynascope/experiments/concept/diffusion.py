"""Figure 6: the order, the detour and the slow-down of concept learning in a diffusion model of pictures."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import model_validator

from dynascope.experiments.concept import painted_paths as paths
from dynascope.experiments.concept.diffusion_drawing import draw_gallery, draw_leads, draw_paths
from dynascope.experiments.concept.diffusion_experiment import GPU, QUICK, DiffusionExperiment, Drawing
from dynascope.experiments.documents import CONCEPTS
from dynascope.lab.criteria import above, agrees, below, every, share, within
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.image_concepts import ImageConcepts

LOOKED = (
    "The statistic, a mean over recordings of what asking for a concept changes, was chosen after the first trainings."
)
HALFWAY = "The original criterion was steps to 80 %; in the quick setting some trainings end before."
BETWEEN = (
    "The original criterion was equality with either. By gains the flip is 0.10 above the one, 0.15 below the other."
)
DESCENDS_TWICE = "A double-descent-like curve for the concept space MSE caused by Transient Memorization."
DECELERATES = "the speed of compositional generalization [...] decelerates at an exponential rate"
EQUAL = 0.1
"""The largest distance between the predicted and the measured separation at which the order flips: that of two
settings."""


class PaintedConcepts(DiffusionExperiment):
    """In which order does a diffusion model learn the concepts of a picture that it never saw?"""

    id = "concept.diffusion"
    source = Source(CONCEPTS, "Figure 6, Appendix G")
    cost = {"quick": 60, "full": 3600000}
    presets = {
        "quick": QUICK | {"separations": (0.2, 0.7)},
        "small": {
            "separations": (0.2, 0.5, 0.7),
            "pixels": 16,
            "blur": 0.5,
            "channels": (16, 32, 64),
            "blocks": 1,
            "dropout": 0.0,
            "batch": 64,
            "learning_rate": 8e-4,
            "average": 0.98,
            "steps": 3000,
            "checkpoints": 30,
            "sampling_steps": 30,
            "classifier_steps": 1000,
        },
        "gpu": GPU,
        "long": {
            "separations": (0.2, 0.7),
            "seeds": 1,
            "compute": "bfloat16",
            "clip": "global",
            "clip_norm": 0.01,
            "sampling_steps": 50,
            "shown": 1,
            "classifier_steps": 2000,
        },
        "code": {
            "clip": "global",
            "clip_norm": 0.01,
            "batch": 64,
            "mean_size": 0.45,
            "sampling_steps": 50,
            "conditioning": "all",
        },
        "text": {"norm": "layer", "placement": "downsampling", "coordinates": "classifier"},
        "ends": GPU | {"separations": (0.2, 0.7), "seeds": 20},
    }
    control = {"separations": (0.6, 0.7)}
    known_failures = {
        "quick/composes": "1,000 steps of the small network are too few: color is still to come where colors are near.",
        "gpu/flip-in-pixels": "How far mean pictures are apart is not all that counts: the order flips at smaller "
        "ones, nearer to where the two concepts are equally strong in the conditions.",
        "gpu/rises-again": "Single trainings jump by more than the mean error rises: five seeds do not establish it.",
    }
    notes = """Coordinates are the shares of blue and of small pictures among those painted for "blue, small", as
    read off the pixels, from the first recording at which half of them show one object. The gain of a concept is the
    change in its share when the prompt asks for it besides the other one; the lead is the mean over recordings of the
    gain of size minus that of color. In the control colors are far apart at both separations: nothing makes size the
    first concept. The network is the published one (GroupNorm, the condition enters every block); `norm` and
    `placement` give what the text says, and preset `text` has both, with the classifier's probabilities instead of
    the shares. `ends` has twenty seeds at the smallest and the largest separation. `gpu` is the paper's
    network and data over the first 3,000 steps, in which everything is learned if the schedule is clipped separately;
    `long` takes the published clipping and the paper's 20,000 steps at two separations; `code` is the published
    program's setting, whose one norm for all gradients slows the network down; `small` and `quick` are for two CPU
    cores."""

    coordinates: Literal["pixels", "classifier"] = "pixels"
    """The source of the shares of concepts: the pixels, or the probabilities of the classifier."""

    @model_validator(mode="after")
    def _classifier_is_trained(self) -> Any:
        if self.coordinates == "classifier" and not self.classifier_steps:
            raise ValueError("coordinates=classifier needs classifier_steps of at least 1; got 0")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(seed)

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The structured identity mapping at the signals in pixel space and at those of the conditions."""
        told = [ImageConcepts(float(one), **dict(Drawing.of(self))).condition_signals() for one in measured.separation]
        signal, spread = (measured.signal.copy(data=np.stack(part)) for part in zip(*told, strict=True))
        seen = paths.predicted_lead(measured.signal, measured.spread)
        return xr.concat([seen, paths.predicted_lead(signal, spread)], "space").assign_coords(space=["pixels", "told"])

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        read = measured.concepts
        if self.coordinates == "classifier":
            measured = measured.assign(concepts=measured.concepts_classified)
        path, last = paths.new_path(measured), str(measured.prompt.values[-1])
        trained = paths.training_error(measured.concepts)
        reduced = xr.Dataset(
            {
                "lead": paths.lead(paths.gains(measured)),
                "lead_of_shares": paths.lead(path),
                "learned_at": paths.learning_steps(path),
                "half_at": paths.learning_steps(paths.gains(measured), paths.HALF),
                "gate_at": measured.step[(trained < paths.GATE).argmax("step")].drop_vars("step"),
                "final": measured.concepts.sel(prompt=last, drop=True).isel(step=slice(-4, None)).mean("step"),
                "predicted_lead": predicted.lead,
            }
        )
        if measured.sizes["seed"] > 2:
            reduced["rise"], reduced["rise_error"] = paths.rise(measured)
            reduced["speed"] = paths.speed(measured)
            painted = self.per_prompt * measured.sizes["seed"]
            reduced["resolution"] = paths.resolution(measured.step.values, painted)
        if "concepts_classified" in measured:
            learned = paths.from_first(trained < paths.GATE)
            apart = np.abs(read - measured.concepts_classified).mean(("prompt", "concept"))
            reduced["classifier_apart"] = apart.where(learned).mean(("step", "seed"))
            reduced["classifier_accuracy"] = measured.classifier_accuracy
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        near, far = reduced.lead.isel(separation=0), reduced.lead.isel(separation=-1)
        statement = "Size is learned first where the colors are near, color where they are far apart (sign of the lead)"
        yield share("order", statement, np.stack([near > 0, far < 0]), 0.8, post_hoc=LOOKED)
        statement = "The lead of size falls as the colors move apart (rank correlation over all trainings)"
        yield below("lead-falls", statement, paths.rank_correlation(reduced.lead), -0.5, post_hoc=LOOKED)
        color = reduced.sel(concept="color")
        statement = (
            "The steps until asking for blue has half its effect fall as the colors move apart (rank correlation)"
        )
        shown = {"median steps": color.half_at.median("seed"), "to 80 %": color.learned_at.median("seed")}
        fall = paths.rank_correlation(color.half_at)
        yield below("color-sooner", statement, fall, -0.5, shown=shown, post_hoc=HALFWAY)
        statement = "At the end the pictures have both concepts (shares, mean over seeds)"
        yield above("composes", statement, reduced.final.mean("seed"), paths.LEARNED)
        ends = reduced.isel(separation=[0, -1])
        same = np.sign(ends.predicted_lead) == np.sign(ends.lead.median("seed"))
        statement = (
            "The structured identity mapping at the signals of pictures and of conditions has the same order there"
        )
        yield every("theory-order", statement, same)
        if reduced.sizes["separation"] > 3:
            yield from self._flips(reduced)
        if "rise" in reduced:
            yield from self._detour_and_slow_down(reduced)
        if "classifier_apart" in reduced:
            statement = "The classifier recognizes the concepts of fresh pictures"
            yield above("classifier", statement, reduced.classifier_accuracy, 0.99)
            statement = "On painted pictures it agrees with the pixels (mean difference of shares)"
            yield below("classifier-agrees", statement, reduced.classifier_apart, 0.05)

    def _flips(self, reduced: xr.Dataset) -> Claims:
        measured, shares = (
            paths.flip(reduced.separation.values, reduced[name].mean("seed").values)
            for name in ("lead", "lead_of_shares")
        )
        told, seen = (
            paths.flip(reduced.separation.values, reduced.predicted_lead.sel(space=space).values)
            for space in ("told", "pixels")
        )
        shown = {"by shares": shares, "predicted from conditions": told, "predicted from pictures": seen}
        statement = "The order flips between the separations at which conditions and mean pictures are equally strong"
        yield within("flip", statement, measured, told, seen, shown=shown, post_hoc=BETWEEN)
        statement = "It flips where the strengths by mean pictures are equal"
        yield agrees("flip-in-pixels", statement, measured, seen, absolute=EQUAL)

    def _detour_and_slow_down(self, reduced: xr.Dataset) -> Claims:
        beyond = (reduced.rise / reduced.rise_error).isel(separation=[0, -1])
        statement = (
            "Once the training classes are learned the error of the new one rises again, by so many standard errors"
        )
        yield above("rises-again", statement, beyond, 2, shown={"rise": reduced.rise}, printed=DESCENDS_TWICE)
        slopes, fits = [], []
        rival = [
            paths.slow_down(reduced.speed.step.values, one, float(reduced.resolution))
            for one in reduced.speed.transpose("separation", "step").values
        ]
        statement = "Above the resolution the speed falls as an exponential of time rather than as a power of it"
        better = [exponential > power for exponential, power in rival]
        shown = {"R^2 of an exponential": [one for one, _ in rival], "of a power": [two for _, two in rival]}
        yield share("exponential-slow-down", statement, better, 0.8, shown=shown, printed=DECELERATES)
        for one in reduced.speed.transpose("separation", "step").values:
            moving = np.isfinite(one) & (one > 0)
            at, speed = reduced.step.values[moving], np.log(one[moving])
            slopes.append(np.polyfit(at, speed, 1)[0])
            fits.append(np.corrcoef(at, speed)[0, 1] ** 2)
        statement = "The speed in concept space falls exponentially (slope of its logarithm, per 1,000 steps)"
        yield below("slows", statement, 1000 * np.asarray(slopes), 0, shown={"R^2": fits})

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        return {
            "diffusion": draw_paths(measured, predicted),
            "paintings": draw_gallery(measured),
            "leads": draw_leads(reduced),
        }
