"""Figures 4.4 and 4.7 (right): a model trained without noise, and then with it."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.recall.drawing import draw_seeds, show_example
from dynascope.experiments.recall.trained_experiment import QUICK, SMALL, TrainedExperiment
from dynascope.experiments.recall.training_curves import late_mean
from dynascope.figures import FAINT, INK, PALETTE, panels
from dynascope.lab.criteria import above, agrees, below, within
from dynascope.lab.experiment import Claims, Figures, Measurement, Source

FEW = 5
"""The first few steps of Figure 4.7."""


class FineTuning(TrainedExperiment):
    """Does a model trained without noise learn to avoid it in contexts, when it is fine-tuned with noise?"""

    id = "recall.fine-tuning"
    source = Source(SIMPLE_STRUCTURES, "Figures 4.4, 4.7")
    cost = {"quick": 30, "full": 200_000}
    presets = {"quick": QUICK | {"tuning_rate": 0.02}, "small": SMALL}
    control = {"alpha": 0.0}
    notes = """The model is trained without noise, then with noise, all weights at a lower learning rate. The document
    states neither rate, and at 0.03 small models diverge. Step 0 is the model before fine-tuning. In the control
    fine-tuning
    has no noise either."""

    known_failures = {
        "first-few-steps": """It takes longer at the rates at which fine-tuning does not diverge; the document states
        none. In quick, at 0.02, the share is 0.51 to 0.80 within 5 steps and 0.96 within 15."""
    }

    tuning_rate: float = Field(0.003, gt=0)
    """The learning rate with noise; before it is `learning_rate`."""

    def measurements(self) -> Mapping[str, Measurement]:
        rates = {"clean_rate": self.learning_rate, "learning_rate": self.tuning_rate}
        return {"tuned": self.training(clean_first=True, **rates)}

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        trace = measured["tuned"].to_dataset()
        first, last = trace.isel(step=0, drop=True), trace.isel(step=-1, drop=True)
        noisy = trace.seen_split.isel(predicted=1).sum("label")
        names = ("on_target", "on_noise", "after")
        return xr.Dataset(
            {name: late_mean(trace[f"seen_{name}"]) for name in names}
            | {f"first_{name}": first[f"seen_{name}"] for name in names}
            | {name: last[f"without_{name}"] for name in ("correct", "noise")}
            | {
                "first_correct": first.without_correct.sel(dropped="nothing", drop=True),
                "predicted_noise": late_mean(noisy),
                "predicted_noise_few": noisy.sel(step=slice(0, FEW)).max("step"),
                "first_predicted_noise": noisy.isel(step=0, drop=True),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "After fine-tuning, attention goes to targets after the trigger and not to noise there (ratio)"
        shown = {"before": (reduced.first_on_target / reduced.first_on_noise).values}
        why = "The bound, 5 at first, and the mean over the last recordings: attention to noise fluctuates along a run."
        ratio = reduced.on_target / reduced.on_noise
        yield above("avoids-noise", statement, ratio, 3, shown=shown, post_hoc=why)
        statement = "Before, it goes to all that follows the trigger (noise there, over targets)"
        yield above("all-that-follows", statement, reduced.first_on_noise / reduced.first_on_target, 0.3)
        statement = "The model without noise has learned to recall (probability of the target)"
        yield above("recalls-before", statement, reduced.first_correct, 0.8)
        statement = "and predicts no noise (share of predictions)"
        yield below("no-noise-before", statement, reduced.first_predicted_noise, 0.05)
        full = reduced.sel(dropped="nothing")
        statement = "After fine-tuning the noise has the probability alpha (mean over seeds)"
        yield agrees("predicts-noise", statement, full.noise.mean(), self.alpha, absolute=0.1)
        statement = "and predictions are of both kinds (share of noise, mean over seeds)"
        why = "The upper bound, after one run: the most probable of two tokens that are about as probable fluctuates."
        both = reduced.predicted_noise.mean()
        yield within("both-predictions", statement, both, 0.3, 0.9, source="Figure 4.7", post_hoc=why)

        printed = "In the first few (~ 5) steps, the models quickly learn to predict noise with probability close to 1."
        statement = f"Within the first {FEW} steps nearly all predictions are noise (largest share)"
        few = reduced.predicted_noise_few
        yield above("first-few-steps", statement, few, 0.9, source="Figure 4.7, right", printed=printed)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        trace = measured["tuned"].to_dataset()
        figure, (example, masses, predictions) = panels(3, size=(4.8, 3.4), width_ratios=(1.6, 1, 1))
        show_example(example, trace, self.tokens, "Second layer, last token, fine-tuning")
        for name, label, color in (
            ("on_target", "targets after the trigger", PALETTE[1]),
            ("on_noise", "noise after the trigger", PALETTE[0]),
        ):
            draw_seeds(masses, trace[f"seen_{name}"], color, label)
        masses.set(xlabel="step", xscale="symlog", xlim=(0, None), ylim=(0, 1), title="Attention")
        masses.legend(fontsize=8, loc="center right", bbox_to_anchor=(1.0, 0.5))
        share = trace.seen_split.isel(predicted=1).sum("label")
        draw_seeds(predictions, share, FAINT, "share of predictions that are noise")
        draw_seeds(predictions, trace.without_noise.sel(dropped="nothing"), PALETTE[0], "P(noise)")
        draw_seeds(predictions, trace.without_correct.sel(dropped="nothing"), PALETTE[1], "P(target)")
        predictions.axhline(self.alpha, color=INK, linewidth=0.7)
        predictions.set(xlabel="step", xscale="symlog", xlim=(0, None), ylim=(0, 1), title="Predictions")
        predictions.legend(fontsize=8, loc="lower right")
        return {"fine-tuning": figure}
