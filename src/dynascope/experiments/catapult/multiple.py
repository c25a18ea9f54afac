"""Figures 4.4, C.6, C.7: raise the rate above the critical one again and again, and a catapult follows each time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import Rise
from dynascope.dynamics import rates
from dynascope.dynamics.ensemble import member_seeds
from dynascope.dynamics.rates import RAISED
from dynascope.experiments.catapult.deep_experiment import DIGITS, DIVERGED, DeepExperiment, Network
from dynascope.experiments.catapult.spikes_drawing import FADED, NORM, REST, TOP, stamp
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.figures import FAINT, INK, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, below, every
from dynascope.lab.experiment import Claims, Figures, Source

EARLY = 30
"""Steps at the rates of Figures 4.4 and C.7 from the start."""


class Raiser(ds.Member):
    """An ensemble member: the controller raises the rate again and again; or, given a rate, that one from the start."""

    network: Network
    split: int
    warm: int

    def __call__(
        self, seed: Any, x: Array, y: Array, catapults: Array | None = None, factor: Array | None = None
    ) -> ds.Descent:
        task = ds.tasks.Supervised("mse")
        if catapults is None or factor is None:
            model = self.network(jax.random.key(seed[0]), x.shape[1:], y.shape[1])
            probes = {"loss": ds.probes.loss()}
            return ds.Descent(model, task, rates.scheduled(lambda _: seed[1]), data=(x, y), probes=probes)
        model = self.network(jax.random.key(seed), x.shape[1:], y.shape[1])

        def critical_rate(model: Any) -> Array:
            return ds.geometry.critical_rate(model, x)

        optimizer = rates.catapults(critical_rate, catapults, factor=factor, warm=self.warm)
        probes = {
            "loss": ds.probes.loss(),
            "kernel": ds.probes.kernel_norm(x, y, (self.split,)),
            "rate": ds.probes.learning_rate(),
        }
        return ds.Descent(model, task, optimizer, data=(x, y), probes=probes)


class Multiple(DeepExperiment):
    """Does each raise of the rate above the critical one cause another catapult and a smaller kernel?"""

    id = "catapult.multiple"
    source = Source(OVER_PARAMETERIZED, "Figures 4.4, C.6, C.7")
    cost = {"quick": 7, "full": 96}
    presets = {
        "quick": {**DIGITS, "warm": 20, "steps": 150, "seeds": 3},
        "cnn": {"architecture": "cnn", "width": 512, "printed": 8.9, "final": 4.4},
    }
    control = {"factor": 0.5}
    known_failures = {
        "full/last-rate-diverges": "On CIFAR-10 it brings one large catapult instead, with a peak of 12 to 36 times "
        "the first loss: the largest rate that still converges is above 4.2 times the critical one."
    }
    notes = """The document raises the rate at printed steps to printed values (6, 10 at 15, 15 at 60 for the fully
    connected network), which fit one seed and one preprocessing only. Here the controller of `dynamics.rates` does it:
    half the critical rate for some steps, then `factor` times the critical rate of that step until the loss has been
    above 1.5 times what it was and is below it again, and so on. The loss is split by the top 10 eigenvectors of the
    kernel of each step. Then two rates are tried from the start: that of Figure C.7, 60 for the fully connected network
    and 40 for the convolutional one, and the last of Figure 4.4, 15 and 20. In the control the "raised" rate is half
    the critical one, like the other."""

    catapults: PositiveInt = 3
    """Number of catapults requested from the controller."""
    factor: float = Field(1.4, gt=0)
    """The raised rate over the critical one."""
    warm: PositiveInt = 30
    """Steps at half the critical rate before each raise."""
    top: PositiveInt = 10
    printed: float = Field(16.7, gt=1)
    """The rate of Figure C.7 over the critical one at the start: 60 / 3.6; 40 / 4.5 for the convolutional network."""
    final: float = Field(4.2, gt=1)
    """The last rate of Figure 4.4, likewise: 15 / 3.6; 20 / 4.5 for the convolutional network."""
    steps: PositiveInt = 300

    def measure(self, seed: int) -> xr.Dataset:
        number = np.dtype(self.precision)
        member, seeds = Raiser(self.network(), self.top, self.warm), member_seeds(seed, self.seeds)
        asked = {"catapults": np.int32(self.catapults), "factor": number.type(self.factor)}
        trace = self.train(member, {"seed": seeds}, seed, self.steps, **asked)
        given = np.outer([self.printed, self.final], trace.kernel_critical_rate.values[:, 0]).astype(number)
        start = self.train(member, {"seed": (np.tile(seeds, 2), given.ravel())}, seed, EARLY).loss.values
        trace["early_loss"] = ("figure", "seed", "early"), start.reshape(2, self.seeds, -1)
        return trace.assign_coords(figure=["C.7", "4.4"])

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        early = measured.early_loss
        peak = (early / early.isel(early=0)).fillna(np.inf).max("early")
        complete = measured.rate_catapults.isel(step=-1, drop=True)
        return catapults_of(measured, self.top).assign(complete=complete, early_peak=peak)

    def judge(self, reduced: xr.Dataset) -> Claims:
        there = np.isfinite(reduced.rise.values)
        statement = (
            f"The controller brings {self.catapults} catapults: each time the rate is raised to {self.factor:g} "
        )
        statement += "times the critical one the loss goes above 1.5 times what it was, and comes back below"
        shown = {"peak / before": reduced.rise}
        yield every(
            "one-after-the-other", statement, reduced.complete >= self.catapults, source="Figure 4.4", shown=shown
        )
        statement = "After each of them the norm of the kernel is lower than before (after over before)"
        ratio = (reduced.norm_after / reduced.norm_before).values[there]
        yield below("smaller-each-time", statement, ratio, 1, source="Figure 4.4")
        statement = f"Nearly all of each rise lies in the top {self.top} eigenvectors"
        post_hoc = "0.8: of 0.9, set before any run, one catapult in 130 fell short."
        parts = reduced.share.values[there]
        yield above("in-the-top", statement, parts, 0.8, source="Figure C.6", post_hoc=post_hoc)
        statement = f"From the start {self.printed:g} times the critical rate, that of Figure C.7, diverges"
        diverges = ~(reduced.early_peak < DIVERGED)
        yield every("printed-rate-diverges", statement, diverges.sel(figure="C.7"), source="Figure C.7")
        statement = f"From the start {self.final:g} times the critical rate, that of Figure 4.4 after its catapults, "
        statement += "diverges"
        printed = "if the neural networks are trained with the learning rate at the convergence, i.e., after multiple "
        printed += "catapults, the GD will diverge"
        shown = {"highest loss over the first": reduced.early_peak.sel(figure="4.4")}
        about: dict[str, Any] = {"source": "Appendix C.2, Figure C.7", "printed": printed, "shown": shown}
        yield every("last-rate-diverges", statement, diverges.sel(figure="4.4"), **about)
        if not reduced.sizes["catapult"]:
            return
        statement = f"After the catapults the critical rate is below {self.printed:g} times the one at the start, the "
        statement += "rate of Figure C.7: it is not that at their end (15 and 20 in Figure 4.4)"
        grown = reduced.norm_before.isel(catapult=0) / reduced.norm_after.min("catapult")
        shown = {"from the start the last rate of Figure 4.4 diverges in": diverges.sel(figure="4.4").mean()}
        counter = below("final-rate", statement, grown, self.printed, shown=shown)
        printed = "Corresponding to Figure 4.4, we train the model using GD with learning rate at convergence, 60 and "
        printed += "40 respectively for the 5-layer FCN and CNN."
        yield erratum(counter, kind="misprint", printed=printed, at="Figure C.7 (Appendix C.6 has 15 and 20)")

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        """The time at a raised rate is shaded, for the seed in bold."""
        step, raised = measured.step, measured.rate_phase.isel(seed=0).values == RAISED
        figure, (loss, split, rate) = panels(3, size=(4.3, 3.5))
        highest = 3 * float(np.nanmax(measured.loss.values))
        for seed in range(measured.sizes["seed"]):
            one, style = measured.isel(seed=seed), {"linewidth": 1.6} if seed == 0 else FADED
            loss.semilogy(step, one.loss, color=INK, **style)
            early = one.early_loss.sel(figure="4.4")
            loss.semilogy(early.where(early < highest), color=TOP, **style)
            split.semilogy(step, one.kernel_top.sel(split=self.top), color=TOP, **style)
            split.semilogy(step, one.kernel_rest.sel(split=self.top), color=REST, **style)
            rate.semilogy(step, one.kernel_critical_rate, color=NORM, **style)
            rate.step(step, one.rate, color=INK, where="pre", **style)
        loss.plot([], [], color=INK, label="raised")
        loss.plot([], [], color=TOP, label="last rate of Figure 4.4")
        split.plot([], [], color=TOP, label=f"top {self.top}")
        split.plot([], [], color=REST, label="the rest")
        rate.plot([], [], color=NORM, label="critical rate, n / ‖K‖")
        rate.plot([], [], color=INK, label="rate in use")
        edges = np.flatnonzero(np.diff(raised))
        for axes, corner in ((loss, "upper right"), (split, "upper right"), (rate, "lower right")):
            for first, last in zip(edges[::2], edges[1::2], strict=False):
                axes.axvspan(first, last, color=FAINT, alpha=0.25, linewidth=0, zorder=0)
            axes.set_xlabel("step")
            axes.legend(loc=corner)
        loss.set(ylabel="loss", title="Loss, all seeds, one bold", ylim=(None, 2 * highest))
        split.set(ylabel="loss", title="Loss by eigenspace")
        rate.set(ylabel="learning rate", title="Rates")
        stamp(figure, measured)
        return {"multiple": figure}


def catapults_of(measured: xr.Dataset, top: int) -> xr.Dataset:
    """For each seed and each completed catapult (the rate was raised and lowered again): the highest loss over the loss
    before, the part of that rise in the top eigenvectors, and the norm of the kernel before and after; else nan."""
    names, rows = ("rise", "share", "norm_before", "norm_after"), []
    for seed in range(measured.sizes["seed"]):
        one = measured.isel(seed=seed)
        loss, norm = one.loss.values, one.kernel.values
        edges = np.flatnonzero(np.diff((one.rate_phase.values == RAISED).astype(int)))
        after = edges[1::2]
        before = edges[::2][: len(after)]  # a raise in progress has no second edge
        peaks = [start + np.argmax(loss[start : end + 1]) for start, end in zip(before, after, strict=True)]
        spike = Rise(before, np.array(peaks, int))
        inside = one.kernel_top.sel(split=top).values
        rows.append([spike.height(loss), spike.share(inside, loss), norm[before], norm[after]])
    table = np.full((len(names), len(rows), max(len(row[0]) for row in rows)), np.nan)
    for number, row in enumerate(rows):
        table[:, number, : len(row[0])] = row
    return xr.Dataset({name: (("seed", "catapult"), part) for name, part in zip(names, table, strict=True)})
