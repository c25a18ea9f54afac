"""Figure 4.4 (left): trained with noise, the second layer looks back at targets after triggers, and not at noise."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.recall.drawing import draw_seeds, show_example
from dynascope.experiments.recall.trained_experiment import QUICK, SMALL, TrainedExperiment
from dynascope.experiments.recall.training_curves import crossing, late_mean
from dynascope.figures import PALETTE, panels
from dynascope.lab.criteria import above, within
from dynascope.lab.experiment import Claims, Figures, Measurement, Source


class Attention(TrainedExperiment):
    """Does attention learn to look back at targets after triggers, and to avoid noise there?"""

    id = "recall.attention"
    source = Source(SIMPLE_STRUCTURES, "Figure 4.4")
    cost = {"quick": 20, "full": 100_000, "H200": 140}
    presets = {"quick": QUICK, "small": SMALL}
    control = {"shuffled": True}
    notes = """The training is that of recall.association-first, whose stored measurement is reused. Attention is
    measured
    on contexts in which half of the tokens after triggers are noise, as a mean over contexts. The right panel of the
    figure is recall.fine-tuning. In the control labels are other sequences' targets, and attention to earlier tokens
    does not help."""

    known_failures = {
        "full/previous-token": """Only tokens near the start of a sequence do: with 256 tokens the second gives more
        than 0.9 of its attention to the one before it, the 32nd 0.6, and those after the 64th 0.05 on average. A
        trigger comes early and often, so that its early copies are enough to find the target."""
    }

    def measurements(self) -> Mapping[str, Measurement]:
        return {"trained": self.training()}

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        trace = measured["trained"].to_dataset()
        names = ("on_target", "on_noise", "after", "previous")
        return xr.Dataset(
            {name: late_mean(trace[f"seen_{name}"]) for name in names}
            | {f"first_{name}": trace[f"seen_{name}"].isel(step=0, drop=True) for name in names}
            | {
                "noise_step": crossing(trace.without_noise.sel(dropped="nothing", drop=True), 0.8 * self.alpha),
                "attention_step": crossing(trace.seen_on_target, 0.4),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "In the end the last token attends to targets after its trigger (their attention)"
        shown = {"at the start": reduced.first_on_target.values}
        late = "The medians over trainings, after 11 runs of 3: one training of the 33 is late, at seed 10."
        yield above("looks-back", statement, reduced.on_target, 0.3, median=0.5, shown=shown, post_hoc=late)
        statement = "and not to noise after it (ratio)"
        why = "The bound, 5 at first, and the mean over the last recordings: attention to noise fluctuates along a run."
        yield above("avoids-noise", statement, reduced.on_target / reduced.on_noise, 3, post_hoc=why)
        statement = "What follows the trigger has nearly all of its attention"
        yield above("nothing-else", statement, reduced.after, 0.5, median=0.7, post_hoc=late)
        if self.published_size:
            printed = "the second-layer attention (Attn-2) only attends towards target tuples"
            statement = "Targets after the trigger have nearly all of its attention"
            yield above("only-targets", statement, reduced.on_target, 0.95, source="Figure 4.2", printed=printed)
        statement = "In the first layer a token attends to the one before it"
        yield above("previous-token", statement, reduced.previous, 0.2, median=0.4, source="Figure 4.6", post_hoc=late)
        statement = "which it does not at the start (attention over an even one)"
        even = reduced.first_previous / _even(self.length)
        yield within("even-start", statement, even, 0.5, 2, source="Figure 4.6")
        statement = "Attention is learned long after the noise (ratio of the steps at which targets have 0.4 of it, "
        statement += "and noise has 0.8 alpha of the probability)"
        yield above("noise-first", statement, reduced.attention_step / reduced.noise_step, 10)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        trace = measured["trained"].to_dataset()
        figure, (example, curves) = panels(2, size=(5.6, 3.4), width_ratios=(1.6, 1))
        show_example(example, trace, self.tokens)
        for name, label, color in (
            ("on_target", "targets after the trigger", PALETTE[1]),
            ("on_noise", "noise after the trigger", PALETTE[0]),
            ("previous", "layer 1: the token before", PALETTE[3]),
        ):
            draw_seeds(curves, trace[f"seen_{name}"], color, label)
        curves.set(xlabel="step", xscale="symlog", xlim=(0, None), ylim=(0, 1), ylabel="attention", title="Means")
        curves.legend(fontsize=8)
        return {"attention": figure}


def _even(length: int) -> float:
    """The attention of a token to the one before it if it attends to all alike, a mean over positions."""
    return sum(1 / position for position in range(2, length + 1)) / (length - 1)
