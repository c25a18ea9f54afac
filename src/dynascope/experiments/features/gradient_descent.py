"""Figures 4.8, C.13, C.15, C.16: gradient descent through none, one or several catapults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves import correlation, paired_difference
from dynascope.dynamics import rates
from dynascope.experiments.features.feature_drawing import draw_corners, draw_curves, draw_outcomes
from dynascope.experiments.features.feature_experiment import (
    CatapultExperiment,
    best_iterate,
    lost,
    unfinished,
    without_result,
)
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source

FIGURE = "Figure 4.8"


class CatapultsTeachFeatures(CatapultExperiment):
    """Does gradient descent that goes through more catapults learn better features?"""

    id = "features.gradient-descent"
    source = Source(
        "Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figures 4.8, C.13, C.15, C.16"
    )
    cost = {"quick": 7, "full": 2400}
    presets = {
        "quick": {"dim": 30, "samples": 300, "held_out": 500, "width": 160, "steps": 260},
        "middle": {"dim": 30, "samples": 400, "held_out": 2000, "width": 256, "steps": 1000},
        "rank-3": {"data": "rank-3", "depth": 4, "width": 256, "samples": 1000},
        "rank-4": {"data": "rank-4", "depth": 4, "width": 256, "samples": 1000},
        "svhn": {"data": "svhn", "architecture": "cnn", "depth": 5, "width": 256, "samples": 1000},
        "celeba": {"data": "celeba", "depth": 4, "width": 256, "samples": 1000},
        "usps": {"data": "usps", "depth": 4, "width": 256, "samples": 1000},
        "fashion-mnist": {"data": "fashion_mnist", "depth": 4, "width": 256, "samples": 1000},
    }
    control = {"data": "full-rank", "architecture": "fcn"}
    notes = """The rate is not a printed list of iterations and values (those depend on the seed) but reacts: half the
    critical rate for 30 steps, then 1.4 times the critical one until the loss has been above 1.5 times what it was and
    is below it again, and so on; half the critical rate after the last catapult. Test loss and alignment are those of
    the recorded iterate with the best validation loss, outside of catapults, up to a training loss of 1e-3. Two things
    go with the number of catapults besides what they do to the features: the rate after the last one is larger, since
    the critical rate has grown, and so training gets further in the same number of steps. The claim at equal training
    loss takes the second away; the first cannot be taken away, for the rate without a catapult must be below the
    critical one. The control's target has no directions that matter more than others. Real sets take G* from a network
    of the document's kind, trained on all their examples of the two classes; the claim `reference` holds its accuracy
    against the printed one. SVHN-2 has the document's CNN5 of 256 channels. Sizes and steps of quick were chosen after
    pilot runs, for time and a clear effect: its runs without a catapult are not trained out. `middle` was fixed before
    its run."""

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        best = best_iterate(measured)
        aligned, test = best.alignment.values, best.test.values
        done = measured.rate_catapults.values[..., -1]
        few, many, where = self.catapults[0], self.catapults[-1], measured.attrs["data"]
        common = {"source": FIGURE, "seeds": self.seeds}
        complete = self.completed(measured)
        both = complete[0] & complete[-1]
        missing = lost(best) or unfinished(complete)
        better = (aligned[-1] > aligned[0]) & both
        yield claim(
            "alignment", f"With {many} catapults the outer product of the gradients is better aligned with the "
            f"target's than with {few}, all of them complete, in every seed ({where})",
            measured=share_of(better) | {"means": aligned.mean(axis=1), "catapults completed": done.mean(axis=1),
            "change": paired_difference(aligned[-1], aligned[0]), "without a result": without_result(best)},
            expected="share = 1", holds=better.all(), **common,
            diagnosis="" if better.all() else missing or "In some seed the alignment does not rise: a target that "
            "depends on all directions equally leaves nothing to learn, and one learned well already leaves little.",
        )  # fmt: skip
        lower = (test[-1] < test[0]) & both
        yield claim(
            "test-loss", f"With {many} catapults, all complete, the test loss is lower than with {few}, in every seed",
            measured=share_of(lower) | {"means": test.mean(axis=1), "change": paired_difference(test[-1], test[0])},
            expected="share = 1", holds=lower.all(), **common,
            diagnosis="" if lower.all() else missing or "Where the features are learned without catapults they add "
            "nothing.",
        )  # fmt: skip
        rising, falling = np.all(np.diff(aligned.mean(axis=1)) > 0), np.all(np.diff(test.mean(axis=1)) < 0)
        monotone = complete.all() and rising and falling
        yield claim(
            "monotone", "On average over the seeds, alignment rises and test loss falls with each further catapult",
            measured={"alignment": aligned.mean(axis=1), "test loss": test.mean(axis=1),
            "catapults completed": share_of(complete.ravel())},
            expected="both monotone, all catapults complete", holds=monotone, **common,
            diagnosis="" if monotone else missing or "The last catapult adds little or nothing once most is learned.",
        )  # fmt: skip
        related = correlation(test, aligned)
        negative = not missing and related["interval"][1] < 0
        yield claim(
            "correlation", "Over all runs, with all their catapults complete, test loss and alignment are negatively "
            "correlated", measured=related, expected="the 95 % interval is below 0", holds=negative, **common,
            diagnosis="" if negative else missing or "Without directions to find, the test loss depends on other "
            "things.",
        )  # fmt: skip
        yield self._at_equal_loss(measured)
        yield from self.on_the_reference(measured)

    def _at_equal_loss(self, measured: xr.Dataset) -> Claim:
        """The same comparison, with the alignment after the catapults taken as soon as the training loss is down to the
        final one of the run without."""
        train, aligned = measured.train.values, measured.alignment.values
        settled = measured.rate_phase.values[-1] != rates.RAISED
        there = settled & (train[-1] <= train[0][:, -1:]) & (measured.rate_catapults.values[-1] == self.catapults[-1])
        reached = there.any(axis=1)
        at = np.argmax(there, axis=1)
        then = aligned[-1][np.arange(self.seeds), at]
        better = (then > aligned[0][:, -1])[reached]
        holds = bool(reached.any() and better.all())
        return claim(
            "equal-training-loss", f"Also at the training loss that the run with {self.catapults[0]} ends with, the "
            f"one with {self.catapults[-1]} catapults is better aligned, in every seed that gets there after them",
            source=FIGURE, measured=share_of(better) | {"training loss": train[0][:, -1],
            "at step": measured.step.values[at], "alignment with": then, "without": aligned[0][:, -1],
            "rates at the end": measured.rate.values[..., -1]},
            expected="share = 1, of ≥ 1", holds=holds, seeds=self.seeds,
            diagnosis="" if holds else "Part of the gap is that training with larger rates gets further.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        best = best_iterate(measured)
        return {
            "catapults": draw_outcomes(best, "catapults", "number of catapults", measured.isotropic_alignment),
            "curves": draw_curves(measured, "catapults", "catapults"),
            "outer-products": draw_corners(best, "catapults", "catapults"),
        }
