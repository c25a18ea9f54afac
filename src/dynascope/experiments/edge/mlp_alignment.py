"""Figures 3.6 to 3.8: at the edge the gradient is along the top eigenvector, and D > 0 keeps it bounded."""

from __future__ import annotations

import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.digit_experiment import DigitExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, below, every, share
from dynascope.lab.experiment import Claims, Figures, Source

RATES = {3: 0.5, 4: 0.4, 5: 0.35}
"""The document's learning rates, by depth."""
LONG = 15
"""A run counts as being at the edge if it has this many steps above 2 / rate."""
CLOSE, NEARLY_ALL = 0.9, 0.9
"""|cos| above which gradient and eigenvector count as aligned, and the share of edge steps of which it is asked."""
MINORITY = (
    "A minority of the steps at the edge has D ≤ 0 here. The document reports its own run, with an initialization and "
    "images that it does not state."
)
CROSSES = (
    "The sharpness crosses 2/η back and forth. From the first step at the edge on it is above it at a quarter to two "
    "thirds of the steps with three layers, and at a tenth to three tenths with four, depending on the seed."
)
SHORT = (
    "At the document's rates two of five seeds with four layers, and four of five with five, stay below 2/η for all of "
    "its 100 or 150 epochs. It reports one run, with an initialization and images that it does not state."
)
WINDOWS = ((10, 14), (21, 60))
"""Epochs in which the three-layer network of the document is beyond the edge."""
LARGE, SMALL = PALETTE[1], PALETTE[0]


class MlpAlignment(DigitExperiment):
    """At the edge, is the gradient along the top eigenvector, with a positive flip discriminant?"""

    id = "edge.mlp-alignment"
    source = Source(SIMPLE_STRUCTURES, "Figures 3.6, 3.7, 3.8")
    cost = {"quick": 10, "full": 66}
    presets = {
        "quick": {"data": "digits", "samples": 500, "steps": 60},
        "four-layers": {"depth": 4},
        "five-layers": {"depth": 5},
    }
    control = {"learning_rate": 0.1, "small_rate": 0.02}
    notes = """Full batch: one epoch is one step. Edge steps are those with sharpness λ > 2/η; |cos| is that of gradient
    and top eigenvector. λ > 2/η alone does not make an oscillation: the top eigenvalue may be crossing, or compete with
    a second one. D = 3 f'''² - f'' f'''' along the unit gradient, at the minimum of the loss on the line of the step;
    its sign decides whether an orbit of period 2 can be stable there, its size depends on units. The document does not
    state the initialization (here uniform within 1/√fan-in), which images it takes, or the scale of inputs and targets
    (here x/255, one-hot). The control's rate, 0.1, puts the edge at 20, which is never reached."""
    known_failures = {
        "pretty-close-to-one": "|cos| is above 0.9 at a quarter to nine tenths of a seed's edge steps: at about half "
        "of those at which the loss does not alternate, at two thirds to four fifths of those at which it does. The "
        "document reports one run, with an initialization that it does not state.",
        "quick/exceptions-outside": MINORITY,
        "four-layers/exceptions-outside": MINORITY,
        "full/exceptions-outside": MINORITY,
        "four-layers/beyond-the-edge": SHORT,
        "four-layers/reaches-the-edge": SHORT,
        "five-layers/beyond-the-edge": SHORT,
        "five-layers/reaches-the-edge": SHORT,
        "full/hovers": CROSSES,
        "four-layers/hovers": CROSSES,
        "five-layers/hovers": CROSSES,
        "full/same-epochs": "The sharpness crosses 2/η back and forth, at epochs that depend on the initialization, "
        "which the document does not state.",
    }

    learning_rate: float | None = Field(None, gt=0)
    """By default the document's rate for this depth: 0.5, 0.4, 0.35 for 3, 4, 5 layers."""
    small_rate: float = Field(0.1, gt=0)
    """The rate to compare with."""
    steps: PositiveInt | None = None
    """By default 100, or 150 from five layers on."""

    def measure(self, seed: int) -> xr.Dataset:
        rates = [(rate, rate, 0) for rate in (self._rate(), self.small_rate)]
        return self.train(rates, self.steps or (100 if self.depth < 5 else 150), seed, flips=True)

    def _rate(self) -> float:
        return self.learning_rate or RATES.get(self.depth, RATES[5])

    def _is_of_document(self) -> bool:
        """Whether data and number of steps are the document's."""
        return self.data == "mnist" and self.samples == 2000 and self.steps is None

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        large = measured.isel(rate=0, drop=True)
        edge, rising = large.sharpness > 2 / self._rate(), (large.loss.diff("step", label="lower") > 0).astype(float)
        cosine = large.sharpness_alignment.where(edge)
        wrong, size = large.flip <= 0, np.abs(large.flip)
        inside = [(large.step >= first) & (large.step <= last) for first, last in WINDOWS]
        return xr.Dataset(
            {
                "edge_steps": edge.sum("step"),
                "hovering": edge.where(edge.cumsum("step") > 0).mean("step"),
                "cosine": cosine.median("step"),
                "near_one": (cosine > CLOSE).where(edge).mean("step"),
                "positive": (~wrong).where(edge).mean(),
                "positive_overall": (~wrong).mean(),
                "exception_size": size.where(wrong).median().fillna(0) / size.where(~wrong).median(),
                "exceptions_at_edge": (wrong & edge).sum("step"),
                "final": measured.sharpness.isel(step=-1).assign_coords(rate=["large", "small"]),
                "rises_at_edge": rising.where(edge).sum("step"),
                "rising_more": rising.where(edge).mean("step") - rising.where(~edge).mean("step"),
                "fall": large.loss.isel(step=-1) / large.loss.isel(step=0),
                "same_epochs": edge.where(inside[0] | inside[1]).mean("step"),
            }
        ).drop_vars("step", errors="ignore")

    def judge(self, reduced: xr.Dataset) -> Claims:
        long = reduced.edge_steps >= LONG
        statement = "At the edge the gradient is along the top eigenvector: a seed's median |cos| there is over 0.7"
        why = "The original thresholds were 0.9 at two seeds, then 0.7 at all: in 20 runs of 5 seeds 4 are "
        why += "below it, two in one run."
        seen, cosine = {"|cos|": reduced.cosine, "edge steps": reduced.edge_steps}, reduced.cosine[long]
        yield share("aligned-at-the-edge", statement, cosine > 0.7, 0.5, post_hoc=why, shown=seen)
        statement = f"|cos| is above {CLOSE:g} at {NEARLY_ALL:.0%} of the edge steps of every seed: share of its steps"
        printed = "cosine similarity between the top Hessian eigenvector v_1 and the gradient is pretty close to 1"
        place = "Section 3.7.2, Figures 3.6-3.8 c"
        yield above("pretty-close-to-one", statement, reduced.near_one[long], NEARLY_ALL, source=place, printed=printed)
        statement = "Every seed comes beyond the edge, λ > 2/η: its number of such steps"
        printed = "Note that the larger ones are beyond EoS"
        yield above("beyond-the-edge", statement, reduced.edge_steps, 0, source="Section 3.7.2", printed=printed)
        if self._is_of_document() and "hovering" in reduced:  # evidence of before has no such number
            statement = (
                "From the first step at the edge on λ is above 2/η at most steps, in every seed that gets there: "
            )
            printed = "λ(θ) stably hovers above 2/η"
            there = reduced.hovering.dropna("seed")
            yield above("hovers", f"{statement}share", there, 0.5, source="Section 3.1", printed=printed)
        statement, why = f"A seed has {LONG} steps at the edge", "Asked of most seeds after 11 runs of 5."
        yield share("reaches-the-edge", statement, long, 0.6, post_hoc=why)
        yield from self._judge_flips(reduced)
        statement = f"The rate {self._rate():g} ends flatter than {self.small_rate:g}, in every seed"
        flatter = reduced.final.sel(rate="large") < reduced.final.sel(rate="small")
        printed = "larger learning rate drives to a flatter minima, as shown in Figure 3.6(b)"
        yield every("larger-ends-flatter", statement, flatter, source="Figure 3.6 b", printed=printed)
        statement = "At the edge the loss rises more often than elsewhere: difference of the shares of steps"
        why, more = "The statistic: set after 11 runs of 5 seeds.", reduced.rising_more[long]
        yield above("not-monotone", statement, more, median=0.1, source="Figures 3.6-3.8 a", post_hoc=why)
        statement, rises = "There it rises at some step, in every seed: number", reduced.rises_at_edge[long]
        printed = "the training loss stops the monotone decreasing"
        yield above("loss-rises", statement, rises, 0, source="Section 3.3", printed=printed)
        statement = "And yet the loss falls over the run: end over start"
        printed = "the training loss still decreases in a longer range of steps"
        yield below("loss-falls", statement, reduced.fall[long], 0.5, source="Figures 3.6-3.8 a", printed=printed)
        if self.depth == 3 and self._is_of_document():
            statement = "In most seeds the network is beyond the edge in 90 % of epochs 10-14 and 21-60"
            printed, shown = "GD is beyond EoS during epochs 10-14 and 21-60", {"shares": reduced.same_epochs}
            same = reduced.same_epochs >= 0.9
            yield share("same-epochs", statement, same, 0.5, source="Figure 3.6", printed=printed, shown=shown)

    def _judge_flips(self, reduced: xr.Dataset) -> Claims:
        place, statement = "Section 3.7.2", "D > 0 at most steps: at the edge, and of the whole run"
        positive = xr.concat([reduced.positive, reduced.positive_overall], "where")
        printed = "most points have 3[f^(3)]² - f^(2) f^(4) > 0"
        yield above("mostly-positive", statement, positive, 0.5, source=place, printed=printed)
        statement = "No step with D ≤ 0 is at the edge: their number in each seed"
        printed = "except a few points, all of which are not in the EoS regime"
        yield below("exceptions-outside", statement, reduced.exceptions_at_edge, 1, source=place, printed=printed)
        statement = "Steps with D ≤ 0 are small exceptions: their median |D| over that of the others"
        why = "0.5, in place of 1: over eight runs of 5 seeds it is 0.06 to 0.33."
        printed, size = "these few exceptional points … their negativity is quite small", reduced.exception_size
        yield below("small-exceptions", statement, size, 0.5, source=place, post_hoc=why, printed=printed)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        large, small = measured.isel(rate=0), measured.isel(rate=1)
        edge = large.sharpness.values > 2 / self._rate()
        shown = int(np.argmax(edge.sum(axis=1)))
        step, one, lit = measured.step.values, large.isel(seed=shown), edge[shown]
        figure, axes = panels(2, 2, size=(5.6, 3.1), sharex=True)
        for seed in range(self.seeds):
            for run, color in ((small, SMALL), (large, LARGE)):
                style = {"linewidth": 1.7, "zorder": 3} if seed == shown else {"linewidth": 0.7, "alpha": 0.45}
                axes[0, 0].semilogy(step, run.loss.isel(seed=seed), color=color, **style)
                axes[0, 1].semilogy(step, run.sharpness.isel(seed=seed), color=color, **style)
        axes[0, 0].plot([], [], color=LARGE, label=f"η = {self._rate():g}")
        axes[0, 0].plot([], [], color=SMALL, label=f"η = {self.small_rate:g}")
        axes[0, 0].legend(loc="upper right")
        axes[0, 0].set(ylabel="loss", title=f"a  Loss, {self.depth} layers; seed {shown} in bold")
        for rate in (self._rate(), self.small_rate):
            axes[0, 1].axhline(2 / rate, **THEORY)
            side = {"va": "center", "fontsize": 8, "transform": axes[0, 1].get_yaxis_transform()}
            axes[0, 1].text(1.01, 2 / rate, f"2 / {rate:g}", **side)
        axes[0, 1].yaxis.set_major_formatter("{x:g}")
        axes[0, 1].yaxis.set_minor_formatter("{x:g}")
        axes[0, 1].tick_params(axis="y", which="minor", labelsize=8)
        axes[0, 1].set(ylabel="sharpness λ", title="b  Sharpness")
        for panel, values in ((axes[1, 0], one.sharpness_alignment.values), (axes[1, 1], one.flip.values)):
            panel.plot(step, values, color=FAINT, linewidth=0.8, zorder=1)
            panel.scatter(step[lit], values[lit], s=16, color=LARGE, zorder=3, label="λ > 2/η")
            panel.scatter(step[~lit], values[~lit], s=9, color=FAINT, zorder=2, label="below")
        axes[1, 0].set(
            xlabel="step", ylabel="|cos|", ylim=(0, 1.03), title=f"c  Gradient and top eigenvector, seed {shown}"
        )
        axes[1, 0].legend(loc="lower right")
        axes[1, 1].axhline(0, color=INK, linewidth=0.9)
        axes[1, 1].set_yscale("symlog", linthresh=float(np.quantile(np.abs(one.flip.values), 0.1)) or 1.0)
        axes[1, 1].set(xlabel="step", ylabel="D", title="d  D at the minimum on the line of the step")
        figure.text(0.995, 0.002, measured.attrs["data"], ha="right", va="bottom", fontsize=7, color=FAINT)
        return {"mlp-alignment": figure}
