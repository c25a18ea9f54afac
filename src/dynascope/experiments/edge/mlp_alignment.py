"""Figures 3.6 to 3.8: at the edge the gradient is along the top eigenvector, and D > 0 keeps it bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.experiments.edge.digit_experiment import DigitExperiment
from dynascope.experiments.edge.edge_experiment import DOCUMENT
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, erratum, share_of
from dynascope.lab.experiment import Source

RATES = {3: 0.5, 4: 0.4, 5: 0.35}
"""The document's learning rates, by depth."""
LONG = 15
"""A run counts as being at the edge if it has this many steps above 2 / rate."""
WINDOWS = ((10, 14), (21, 60))
"""Epochs in which the three-layer network of the document is beyond the edge."""
LARGE, SMALL = PALETTE[1], PALETTE[0]


class MlpAlignment(DigitExperiment):
    """At the edge, is the gradient along the top eigenvector, with a positive flip discriminant?"""

    id = "edge.mlp-alignment"
    source = Source(DOCUMENT, "Figures 3.6, 3.7, 3.8")
    cost = {"quick": 10, "full": 66}
    presets = {
        "quick": {"data": "digits", "samples": 500, "steps": 60},
        "four-layers": {"depth": 4},
        "five-layers": {"depth": 5},
    }
    control = {"learning_rate": 0.1, "small_rate": 0.02}
    notes = """Full batch: one epoch is one step. Edge steps are those with sharpness λ > 2/η. That alone does not make
    an oscillation (the top eigenvector may be one of several), so a run counts if it has 15 of them, the median |cos|
    of gradient and top eigenvector is at least 0.9, and D > 0 in three quarters. D = 3 f'''² - f'' f'''' along the unit
    gradient, at the minimum of the loss on the line of the step; its sign decides whether an orbit of period 2 can be
    stable there, its size depends on units. The document does not state the initialization (here uniform within
    1/√fan-in), which images it takes, or the scale of inputs and targets (here x/255, one-hot). The control's
    rate, 0.1, puts the edge at 20, which is never reached."""

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

    def judge(self, measured: xr.Dataset, predicted: None) -> Iterable[Claim]:
        large, data = measured.isel(rate=0), measured.attrs["data"]
        edge = large.sharpness.values > 2 / self._rate()
        counts = edge.sum(axis=1)
        cosine = median_where(large.sharpness_alignment.values, edge)
        positive = share_where(large.flip.values > 0, edge)
        good = (counts >= LONG) & (cosine >= 0.9) & (positive >= 0.75)
        reached = f"{int((counts >= LONG).sum())} of {self.seeds} seeds have {LONG} steps at the edge, of "
        reached += f"{large.sizes['step'] - 1} steps."
        yield claim(
            "aligned-at-the-edge", f"In at least 2 seeds there are {LONG} steps at the edge, with median |cos| ≥ 0.9 "
            f"and D > 0 in at least 75 % of them ({data})", source="Figures 3.6-3.8 c, d",
            measured=share_of(good) | {"edge steps": counts, "median cos": cosine, "D > 0": positive},
            expected="≥ 2 seeds", holds=good.sum() >= 2, seeds=self.seeds, diagnosis="" if good.sum() >= 2 else reached,
        )  # fmt: skip
        long, far = counts >= LONG, cosine[counts >= LONG]
        yield claim(
            "always-aligned", f"In every seed with {LONG} steps at the edge the gradient is along the top eigenvector: "
            "median |cos| ≥ 0.9", source="Figures 3.6-3.8 c",
            measured=share_of(far >= 0.9) | {"median cos": far},
            expected="share = 1", holds=bool(long.any() and np.all(far >= 0.9)), seeds=self.seeds,
            diagnosis="" if long.any() and np.all(far >= 0.9) else "Sharpness above 2/η does not make an oscillation: "
            "the top eigenvalue may be crossing, or compete with a second one.",
        )  # fmt: skip
        wrong, sizes = large.flip.values <= 0, np.abs(large.flip.values)
        typical = [np.median(sizes[which]) if which.any() else 0.0 for which in (wrong, ~wrong)]
        small = bool((~wrong).mean() > 0.5 and typical[0] < typical[1])
        yield claim(
            "mostly-positive", "D > 0 at most steps of the whole run, and the exceptions are small (median |D|)",
            source="Section 3.7.2", measured={"D > 0": (~wrong).mean(), "exceptions": typical[0], "others": typical[1]},
            expected="> 0.5; smaller", holds=small, seeds=self.seeds,
            diagnosis="" if small else "Below the edge D has no fixed sign: it has a meaning only at a minimum around "
            "which the steps oscillate.",
        )  # fmt: skip
        inside = (wrong & edge).sum(axis=1)
        yield erratum(
            "exceptions-inside", "Printed: exceptions to D > 0 are not at the edge. Some are, though at a minority of "
            "its steps", source="Section 3.7.2", expected="0, as printed", refuted=inside.any(), seeds=self.seeds,
            measured={"exceptions at the edge": inside, "of edge steps": counts,
                      "outside": (wrong & ~edge).sum(axis=1)},
            diagnosis="" if inside.any() else reached,
        )  # fmt: skip
        final = measured.sharpness.isel(step=-1).values
        flatter = final[0] < final[1]
        yield claim(
            "larger-ends-flatter", f"The larger rate ends flatter: sharpness at {self._rate():g} below that at "
            f"{self.small_rate:g}, in every seed", source="Figure 3.6 b", expected="share = 1", seeds=self.seeds,
            measured=share_of(flatter) | {f"{self._rate():g}": final[0], f"{self.small_rate:g}": final[1]},
            holds=bool(flatter.all()), diagnosis="" if flatter.all() else "Where the sharpness stays below 2/η at both "
            "rates, the larger rate does not limit it.",
        )  # fmt: skip
        rising = np.diff(large.loss.values, axis=1) > 0
        at_edge, elsewhere = share_where(rising, edge[:, :-1])[long], share_where(rising, ~edge[:, :-1])[long]
        fallen = (large.loss.values[:, -1] < large.loss.values[:, 0] / 2)[long]
        decreases = bool(long.any() and np.all(at_edge > elsewhere) and np.all(fallen))
        yield claim(
            "not-monotone", "At the edge the loss rises more often than elsewhere, and yet it more than halves over "
            "the run", source="Figures 3.6-3.8 a", measured={"rising at the edge": at_edge, "elsewhere": elsewhere},
            expected="larger at the edge, in each seed that reaches it", holds=decreases, seeds=self.seeds,
            diagnosis="" if decreases else reached,
        )  # fmt: skip
        if (
            self.depth == 3
            and self.samples == 2000
            and data.startswith("0 and 1")
            and large.sizes["step"] > WINDOWS[-1][1]
        ):
            shares = edge[:, np.concatenate([np.arange(first, last + 1) for first, last in WINDOWS])].mean(axis=1)
            yield claim(
                "same-epochs", "The network is beyond the edge in epochs 10-14 and 21-60 (share of them)",
                source="Figure 3.6",
                measured={"seeds": shares, "first at the edge": [int(np.argmax(e)) if e.any() else -1 for e in edge]},
                expected="≥ 0.9 in most seeds", holds=np.mean(shares >= 0.9) > 0.5, seeds=self.seeds,
                diagnosis="" if np.mean(shares >= 0.9) > 0.5 else "At the edge the sharpness crosses 2/η back and "
                "forth, at epochs that depend on the initialization; the document shows one and does not state its "
                "distribution.",
            )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: None) -> Mapping[str, Figure]:
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
            axes[0, 1].text(1.01, 2 / rate, f"2 / {rate:g}", va="center", fontsize=8,
                            transform=axes[0, 1].get_yaxis_transform())  # fmt: skip
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


def median_where(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The median of each row over the marked entries; NaN where there are none."""
    return np.array([np.median(row[mark]) if mark.any() else np.nan for row, mark in zip(values, where, strict=True)])


def share_where(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The share of true values of each row among the marked entries; NaN where there are none."""
    return np.array([np.mean(row[mark]) if mark.any() else np.nan for row, mark in zip(values, where, strict=True)])
