"""Section 3.3: lowering the learning rate at the edge should let the sharpness rise to the new edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.experiments.edge.digit_experiment import DigitExperiment
from dynascope.experiments.edge.edge_experiment import DOCUMENT
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source

NEAR, LAST = 10, 20
"""A run is at the edge if it exceeded 2 / rate in the `NEAR` steps before a drop; the end is a mean over `LAST`."""
LONG = 400
"""Steps after a drop before the sharpness is compared with the new edge."""
KEPT, *LOWERED = PALETTE


class DecaySharpens(DigitExperiment):
    """Does lowering the learning rate at the edge let the sharpness rise toward the new edge?"""

    id = "edge.decay-sharpens"
    source = Source(DOCUMENT, "Section 3.3")
    cost = {"quick": 8, "full": 37}
    presets = {"quick": {"data": "digits", "samples": 500, "drops": (20, 60), "steps": 160}}
    control = {"learning_rate": 0.1, "lowered_rate": 0.05}
    notes = """Prior work quoted in Section 3.3 finds that after the rate is lowered the sharpness rises toward 2
    over the lowered rate. No setting is stated. Here runs of Figure 3.6 continue at half their rate from an early or a
    late step, next to copies that keep the rate. In this setting the answer is no: after an early drop the sharpness
    ends above that of the copies but does not reach the new edge, and after a late drop it hardly changes, since the
    two classes of digits are fitted by then. At the control's rate, 0.1, the sharpness is never near the edge, so
    nothing limits it before the drop."""

    learning_rate: float = Field(0.5, gt=0)
    lowered_rate: float = Field(0.25, gt=0)
    drops: tuple[int, ...] = (20, 100)
    """Steps at which the rate is lowered, one run for each, in ascending order."""
    steps: PositiveInt = 500

    def measure(self, seed: int) -> xr.Dataset:
        kept = (self.learning_rate, self.learning_rate, 0)
        dropped = [(self.learning_rate, self.lowered_rate, drop) for drop in self.drops]
        return self.train([kept, *dropped], self.steps, seed, flips=False)

    def judge(self, measured: xr.Dataset, predicted: None) -> Iterable[Claim]:
        edge, new_edge = 2 / self.learning_rate, 2 / self.lowered_rate
        sharpness = measured.sharpness.values
        kept, *ends = sharpness[:, :, -LAST:].mean(axis=2)
        at_edge = np.stack([(sharpness[0, :, drop - NEAR : drop + 1] > edge).any(axis=1) for drop in self.drops])
        first, sharper = at_edge[0], (ends[0] > kept)[at_edge[0]]
        holds = bool(first.sum() >= 2 and sharper.all())
        yield claim(
            "released", f"Every seed at the edge ends sharper with the rate lowered at step {self.drops[0]} than with "
            f"the rate kept, and at least 2 seeds are at the edge ({measured.attrs['data']})", source="Section 3.3",
            measured=share_of(sharper) | {"lowered": ends[0][first], "kept": kept[first]}, expected="share = 1, of ≥ 2",
            holds=holds, seeds=self.seeds,
            diagnosis="" if holds else f"{first.sum()} seeds are at the edge at the drop.",
        )  # fmt: skip
        after = slice(self.drops[0] + NEAR, None)
        rising = np.mean(np.diff(measured.loss.values[:2, :, after], axis=2) > 0, axis=(1, 2))
        yield claim(
            "calms", "Below the new edge the loss falls again: it rises in fewer steps than with the rate kept",
            source="Section 3.3", measured={"kept": rising[0], "lowered": rising[1]}, expected="fewer",
            holds=rising[1] < rising[0], seeds=self.seeds,
            diagnosis="" if rising[1] < rising[0] else "Where no run is at the edge, the loss falls in all runs.",
        )  # fmt: skip
        for drop, end, there in zip(self.drops, ends, at_edge, strict=True):
            if self.steps - drop < LONG:
                continue
            arrived = end[there] >= 0.9 * new_edge
            yield claim(
                f"to-the-new-edge-{drop}", f"With the rate lowered at step {drop}, the sharpness rises to at least 0.9 "
                f"of 2/η = {new_edge:g} in every seed that was at the edge", source="Section 3.3",
                expected="share = 1", seeds=self.seeds, holds=bool(there.any() and arrived.all()),
                measured=share_of(arrived) | {"of the new edge": end[there] / new_edge,
                                              "above the copy": (end - kept)[there]},
                diagnosis="" if arrived.all() else "Two classes of digits are fitted within some dozens of steps; the "
                "gradient that remains is too small to sharpen the network further.",
            )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: None) -> Mapping[str, Figure]:
        figure, (loss, sharpness) = panels(2, size=(5.6, 3.8))
        names = ("kept", *(f"lowered at step {drop}" for drop in self.drops))
        for run, (name, begin) in enumerate(zip(names, (0, *self.drops), strict=True)):
            color = KEPT if run == 0 else LOWERED[(run - 1) % len(LOWERED)]
            for seed in range(self.seeds):
                one = measured.isel(rate=run, seed=seed).sel(step=slice(begin, None))
                style = {"color": color, "linewidth": 0.8 if run == 0 else 1.2, "alpha": 0.5 if run == 0 else 0.9}
                loss.semilogy(one.step, one.loss, **style)
                sharpness.plot(one.step, one.sharpness, **style)
            loss.plot([], [], color=color, label=name)
        for rate in (self.learning_rate, self.lowered_rate):
            sharpness.axhline(2 / rate, **THEORY)
            where = sharpness.get_yaxis_transform()
            sharpness.text(1.01, 2 / rate, f"2 / {rate:g}", va="center", fontsize=8, transform=where)
        loss.legend(loc="upper right")
        loss.set(xlabel="step", ylabel="loss", title="Loss, all seeds")
        top = 1.25 * 2 / min(self.learning_rate, self.lowered_rate)
        sharpness.set(xlabel="step", ylabel="sharpness λ", title="Sharpness, and 2 / rate (dashed)", ylim=(0, top))
        loss.text(0, -0.2, measured.attrs["data"], transform=loss.transAxes, fontsize=7, color=FAINT)
        return {"decay-sharpens": figure}
