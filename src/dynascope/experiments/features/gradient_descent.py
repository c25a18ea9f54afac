"""Figures 4.8, C.13, C.15, C.16: gradient descent through none, one or several catapults."""

from __future__ import annotations

import xarray as xr

from dynascope.dynamics import rates
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.features.feature_drawing import draw_corners, draw_curves, draw_outcomes
from dynascope.experiments.features.feature_experiment import DATA, PILOT, CatapultExperiment
from dynascope.experiments.features.outcomes import best_iterate, correlated, larger, outcomes, results, with_results
from dynascope.lab.criteria import every, falling, rising
from dynascope.lab.experiment import Claims, Figures, Source


class CatapultsTeachFeatures(CatapultExperiment):
    """Does gradient descent that goes through more catapults learn better features?"""

    id = "features.gradient-descent"
    source = Source(OVER_PARAMETERIZED, "Figures 4.8, C.13, C.15, C.16")
    cost = {"quick": 7, "full": 2400, "H200": 110}
    presets = {
        "quick": {"dim": 30, "samples": 300, "held_out": 500, "width": 160, "steps": 260},
        "middle": {"dim": 30, "samples": 400, "held_out": 2000, "width": 256, "steps": 1000},
        "rank-3": DATA["rank-3"] | {"samples": 1000},
        "rank-4": DATA["rank-4"] | {"samples": 1000},
        "svhn": DATA["svhn"] | {"architecture": "cnn", "depth": 5, "samples": 1000},
        "celeba": DATA["celeba"] | {"samples": 1000},
        "usps": DATA["usps"] | {"samples": 1000},
        "fashion-mnist": DATA["fashion-mnist"] | {"samples": 1000},
    }
    control = {"data": "full-rank", "architecture": "fcn"}
    notes = """The document prints iterations at which it changes the rate; these depend on the seed. Here the rate
    reacts: half the critical rate for 30 steps, then 1.4 times the critical one until the loss has been above 1.5 times
    what it was and is below it again, and so on; half the critical rate after the last catapult. Test loss and
    alignment are those of the recorded iterate with the best validation loss, outside of catapults, up to a training
    loss of 1e-3; a run that diverges or does not complete its catapults has none. The number of catapults has two
    effects besides that on the features: the rate after the last one is larger, since the critical rate has grown, and
    so training gets further in the same number of steps. The claim at equal training loss removes the second effect;
    the first cannot be removed, because the rate without a catapult must be below the critical one. Runs of quick
    without a catapult are not trained to the end. The control's target has no directions that matter more than others.
    Real sets take G* from a network of the document's kind, trained on all their examples of the two classes."""

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        """The best iterates; and the alignments at the training loss at which the run with the fewest catapults ends:
        its own, and that of the run with the most catapults, at the first recorded step after them with this loss."""
        few, many = measured.isel(catapults=0), measured.isel(catapults=-1)
        done = (many.rate_phase != rates.RAISED) & (many.rate_catapults == self.catapults[-1])
        there = done & (many.train <= few.train.isel(step=-1))
        ends, reached = few.isel(step=-1, drop=True), there.any("step")
        then = many.alignment.isel(step=there.argmax("step"), drop=True).where(reached)
        equal = {"loss_few": ends.train, "alignment_few": ends.alignment.where(reached), "alignment_many": then}
        equal = {name: value.drop_vars(["step", "catapults"], errors="ignore") for name, value in equal.items()}
        return best_iterate(measured).assign(equal)

    def judge(self, reduced: xr.Dataset) -> Claims:
        found = with_results(reduced)
        few, many = found.isel(catapults=0), found.isel(catapults=-1)
        counts = f"With {self.catapults[-1]} catapults rather than {self.catapults[0]}"
        statement = f"{counts} G, the average gradient outer product, is better aligned ({reduced.attrs['data']})"
        shown = outcomes(found)
        yield larger("alignment", statement, many.alignment, few.alignment, shown=shown, post_hoc=PILOT)
        yield larger("test-loss", f"{counts} the test loss is lower", few.test, many.test, post_hoc=PILOT)
        means = found[["alignment", "test"]].mean("seed")
        statement = "The alignment, mean over the seeds, rises with each further catapult"
        yield rising("monotone-alignment", statement, means.alignment, along="catapults", post_hoc=PILOT)
        statement = "The test loss, mean over the seeds, falls with each further catapult"
        yield falling("monotone-test-loss", statement, means.test, along="catapults", post_hoc=PILOT)
        yield correlated(found)
        gain = (reduced.alignment_many > reduced.alignment_few).where(reduced.alignment_many.notnull())
        statement = f"{counts} G is better aligned also at equal training loss, in the seeds that get there after them"
        shown = {name: reduced[name] for name in ("loss_few", "alignment_few", "alignment_many")}
        yield every("equal-training-loss", statement, gain, shown=shown)
        yield results(reduced)
        yield from self.on_the_reference(reduced)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        return {
            "catapults": draw_outcomes(reduced, "catapults", "number of catapults"),
            "curves": draw_curves(measured, "catapults", "catapults"),
            "outer-products": draw_corners(reduced, "catapults", "catapults"),
        }
