"""Figures 3a and 10: weights that are kicked on a plateau come back, as Assumption 4.4 says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.experiments.drawing import CONCEPT_COLOURS, FAINT, INK, panels
from dynascope.experiments.gradual_rank.disturbed import KINDS, DisturbedExperiment
from dynascope.experiments.gradual_rank.toy import regression
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.theory.rank_assumptions import strict_minimum

RETURNED = 0.05
"""The share of the first deviation below which a run has returned."""


class PerturbationStability(DisturbedExperiment):
    """Do weights that are kicked on a plateau return to the undisturbed trajectory?"""

    id = "rank.perturbation-stability"
    source = Source("Transformers learn through gradual rank increase", "Figures 3a and 10, Assumption 4.4")
    cost = {"quick": 20, "full": 1500}
    presets = {"quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 200}}
    control = {"kick_all": True}
    notes = """Products are compared, not weights: u² - v² is conserved, so a kick of the weights leaves an imbalance
    for ever, and (u, v) may return as (-u, -v). The balanced kick (noise on u, v = s u) is the assumption's own
    statement. A run has returned when its deviation is below 5 % of the first one within the window, or at its end.
    Epochs are moments of the flow, drawn at random with a coordinate or more active. The control kicks the
    negligible weights too: those stand at a saddle, not at a minimum, and start growing at once."""

    spread: float = Field(0.05, gt=0)
    """The standard deviation of the kick."""
    moments: PositiveInt = 5

    def measure(self, seed: int) -> xr.Dataset:
        run = self.flow(seed, [self.scale]).isel(scale=0, seed=0)
        states, rng = self.states(run), np.random.default_rng(1000 + seed)
        grown = np.flatnonzero((np.abs(run["product"].values) > 1e-2).any(axis=1))
        chosen = np.sort(rng.choice(grown, size=min(self.moments, len(grown)), replace=False))
        kicked = [self.kicked(states._replace(z=states.z[at]), self.spread, rng) for at in chosen]
        trace = self.continued(int(run.seed), [case[kind] for case in kicked for kind in KINDS])
        paths = trace["product"].values.reshape(len(chosen), len(KINDS), *trace["product"].shape[1:])
        return xr.Dataset(
            {"product": (("moment", "kind", "time", "coordinate"), paths),
             "kicked_at": ("moment", run.time.values[chosen])},
            {"time": trace.time.values, "kind": list(KINDS)}, {"number": int(run.seed)},
        )  # fmt: skip

    def deviation(self, measured: xr.Dataset) -> xr.DataArray:
        """max_i |beta - undisturbed beta| over time, of each kicked run."""
        away = measured["product"] - measured["product"].sel(kind="undisturbed")
        return xr.apply_ufunc(np.abs, away).max("coordinate")

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        deviation = self.deviation(measured)
        left = (deviation.isel(time=-1) / deviation.isel(time=0)).sel(kind=["disturbed", "balanced"])
        returned = left < RETURNED
        for kind, place in (("disturbed", "Figures 3a, 10"), ("balanced", "Assumption 4.4")):
            here = returned.sel(kind=kind).values
            yield claim(
                kind if kind == "balanced" else "returns", f"{'Balanced kicks' if kind == 'balanced' else 'Kicks'} of "
                f"{self.spread:g} on the weights that are not negligible are forgotten: the products end within "
                f"{RETURNED:.0%} of the first deviation, at every moment", source=place,
                measured=share_of(here) | {"left": left.sel(kind=kind).values}, expected="share = 1", holds=here.all(),
                seeds=self.seeds, diagnosis="" if here.all() else "Kicked negligible weights leave a saddle early; "
                "else "
                "a transition lies inside the window, and the kicked run goes through it earlier.",
            )  # fmt: skip
        number = int(measured.attrs["number"])
        task, stages = regression(self.head(number)), self.stages_of(number, self.horizon)
        curvatures = [strict_minimum(task, stage).number for stage in stages[1:]]
        yield claim(
            "strict-minima", "On every plateau of Algorithm 1 the loss is strictly convex in the active weights",
            source="Assumption 4.4", measured={"least eigenvalues": curvatures}, expected="> 0",
            holds=min(curvatures) > 0, seeds=self.seeds,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        deviation = self.deviation(measured)
        figure, grid = panels(3, 2, size=(3.8, 2.8), squeeze=False)
        *rest, last = grid.flat
        for panel, moment in zip(rest, range(measured.sizes["moment"]), strict=False):
            paths = measured["product"].isel(moment=moment)
            active = np.flatnonzero(np.abs(paths.sel(kind="undisturbed").values).max(axis=0) > 1e-2)
            for order, i in enumerate(active):
                colour = CONCEPT_COLOURS[order % len(CONCEPT_COLOURS)]
                panel.plot(paths.time, paths.sel(kind="undisturbed").values[:, i], color=colour, linewidth=1.4)
                panel.plot(paths.time, paths.sel(kind="disturbed").values[:, i], "--", color=INK, linewidth=0.8)
            panel.set(title=f"kicked at τ = {float(measured.kicked_at[moment]):.2f}", xlabel="time after the kick")
        for panel in rest[measured.sizes["moment"] :]:
            panel.set_visible(False)
        for kind, colour in (("disturbed", CONCEPT_COLOURS[0]), ("balanced", CONCEPT_COLOURS[1])):
            for moment in range(measured.sizes["moment"]):
                curve = np.maximum(deviation.sel(kind=kind).isel(moment=moment), 1e-12)
                last.semilogy(deviation.time, curve, color=colour, label=f"{kind} kick" if moment == 0 else None)
        last.axhline(0.05 * float(deviation.sel(kind="disturbed").isel(time=0).max()), color=FAINT, linewidth=0.8)
        last.set(xlabel="time after the kick", title="Largest deviation of a product")
        last.legend()
        grid[0, 0].set_ylabel("products: kicked (dashed)")
        return {"perturbation-stability": figure}
