"""Figures 3a and 10: weights that are perturbed on a plateau return, as Assumption 4.4 states."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import PositiveInt

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import ACTIVE, regression
from dynascope.experiments.rank.perturbed_diagonal_head import KINDS, PerturbedHeadExperiment, draw_events
from dynascope.figures import FAINT, PALETTE, panels
from dynascope.lab.criteria import above, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.rank.stage_transition import least_curvature

RETURNED = 0.05
"""A run has returned when its deviation is below this share of the initial one."""
CHOSEN = """The window, and that only times without a transition in it are taken: one of five perturbations at times
taken at random came right before a transition. So was that only plateaus fast enough for the window are judged."""


class PerturbationStability(PerturbedHeadExperiment):
    """Do weights that are perturbed on a plateau return to the unperturbed trajectory?"""

    id = "rank.perturbation-stability"
    source = Source(GRADUAL_RANK, "Figures 3a and 10, Assumption 4.4")
    card = ("perturbation-stability", 5)
    cost = {"quick": 16, "full": 330}
    presets = {
        "quick": {"dim": 6, "tokens": 5, "samples": 150, "kept": None, "horizon": 4.5, "points": 200, "seeds": 2}
    }
    control = {"perturb_all": True}
    notes = """Products are compared, not weights: u² - v² is conserved, so that a perturbation of the weights leaves a
    permanent imbalance, and (u, v) may return as (-u, -v). The balanced perturbation (noise on u, v = s u) is that of
    the assumption. Instead of the paper's epochs, random times of the flow are taken, among those at which the weights
    that are not negligible are active, and stay the same ones until the end of the window. A perturbation decays at
    least as exp(-r t), where 2 r is the least curvature of Assumption 4.4; plateaus on which this is too slow for the
    window are not judged. The control perturbs the negligible weights too: these are at a saddle, not at a minimum, and
    start growing at once. The caption of Figure 3a has no such choice of times, and that of Figure 10 speaks of each
    weight: both are judged beside it, at times taken at random among those at which some weight is not negligible."""
    known_failures = {
        "random-times": """A minority do not. Most of these have a transition in the window, which the perturbed run
        makes at another time (10 of 11, among 80 perturbations in four quick runs); on some plateaus the window is too
        short.""",
        "each-weight": """Gradient flow conserves u² - v² (the document's Lemma 4.2), and noise on u and v changes it.
        The products come back; the two weights of a coordinate stay as far apart as the noise has put them.""",
    }

    defaults = {"window": 25.0}

    moments: PositiveInt = 5
    """The number of times on plateaus at which each run is perturbed."""
    random_moments: PositiveInt = 20
    """The number of times at which it is perturbed wherever they fall."""

    def measure(self, seed: int) -> xr.Dataset:
        runs, rng = self.flow(seed, [self.scale]).isel(scale=0), np.random.default_rng(1000 + seed)
        found: list[xr.Dataset] = []
        for number in runs.seed.values:
            run = runs.sel(seed=number)
            places = self._on_plateaus(run)
            if len(places):
                chosen = np.sort(rng.choice(places, size=min(self.moments, len(places)), replace=False))
                found.append(self.follow(run, chosen.tolist(), KINDS, rng).assign(settled=("event", chosen >= 0)))
                found.append(self._at_random_times(run, np.random.default_rng([1000 + seed, int(number)])))
        if not found:
            raise ValueError(f"horizon must be later: no plateau as long as the window begins before {self.horizon:g}")
        return xr.concat(found, dim="event", join="outer")  # balanced perturbations are on plateaus only

    def _at_random_times(self, run: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        """The run from times of which no more is asked than that some weight is not negligible."""
        places = np.flatnonzero(self.noticed(self.states(run)).any(axis=1))
        chosen = np.sort(rng.choice(places, size=min(self.random_moments, len(places)), replace=False))
        return self.follow(run, chosen.tolist(), KINDS[:2], rng).assign(settled=("event", chosen < 0))

    def _on_plateaus(self, run: xr.Dataset) -> np.ndarray:
        """The places of the recorded times with an active coordinate at which the window holds no transition: the same
        weights are not negligible all the time, and their products are active from the beginning."""
        noticed, times = self.noticed(self.states(run)), run.time.values
        settled = (noticed == (np.abs(run["product"].values) > ACTIVE)).all(axis=1)
        ends = np.searchsorted(times, times + self.window / -np.log(self.scale))
        inside = np.flatnonzero(settled & noticed.any(axis=1) & (ends < len(times)))
        return np.array([at for at in inside if (noticed[at : ends[at] + 1] == noticed[at]).all()], int)

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        """The largest deviation of a product at the end, as a share of that at the start, `left`; the same of a weight,
        `left_of_weights`; r, `relaxation`; and the least curvature of each plateau of Algorithm 1."""
        away = abs(measured["product"] - measured["product"].sel(kind="unperturbed")).max("coordinate")
        away = away.sel(kind=["perturbed", "balanced"])
        rates = []
        for number, path in zip(measured.number.values, measured["product"].sel(kind="unperturbed"), strict=True):
            ends = path.isel(time=-1).values
            beta = jnp.asarray(np.where(np.abs(ends) > self.negligible, ends, 0.0))
            rates.append(float(least_curvature(regression(self.head(int(number))), beta)) / 2)
        curvatures = [
            float(least_curvature(regression(self.head(number)), jnp.asarray(stage.beta)))
            for number in np.unique(measured.number).tolist()
            for stage in self.stages_of(number, self.horizon)[1:]
        ]
        sizes = weight_sizes(measured["product"].isel(time=[0, -1]), measured.kappa)
        apart = (
            abs(sizes - sizes.sel(kind="unperturbed")).max(["coordinate", "weight"]).sel(kind="perturbed", drop=True)
        )
        return xr.Dataset(
            {
                "left": away.isel(time=-1, drop=True) / away.isel(time=0, drop=True),
                "left_of_weights": apart.isel(time=-1, drop=True) / apart.isel(time=0, drop=True),
                "settled": measured.settled,
                "relaxation": ("event", rates),
                "curvature": ("plateau", curvatures),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        anytime = reduced.left.sel(kind="perturbed")[~reduced.settled.values]
        reduced = reduced.isel(event=reduced.settled.values)
        fast = reduced.relaxation * self.window > -1.5 * np.log(RETURNED)
        for id, kind, place in (("returns", "perturbed", "Figures 3a, 10"), ("balanced", "balanced", "Assumption 4.4")):
            left = reduced.left.sel(kind=kind)
            name = "Balanced perturbations" if kind == "balanced" else "Perturbations"
            statement = f"{name} of {self.spread:g} of the weights that are not negligible decay: {self.window:g} time "
            statement += f"units later the products are within {RETURNED:.0%} of the initial deviation"
            shown = {"left": left.values, "exp(-r t)": np.exp(-reduced.relaxation * self.window).values}
            flags = (left < RETURNED).where(fast)
            yield every(id, statement, flags, cases=2, source=place, shown=shown, post_hoc=" ".join(CHOSEN.split()))
        statement = "They do so at times taken at random, wherever these fall"
        printed = "weights perturbed at a random time during training tend back to the near-stationary point"
        yield every("random-times", statement, anytime < RETURNED, source="Figure 3a", printed=printed)
        statement = "So does each weight, not the products alone: what is left of the largest deviation, on plateaus"
        printed = "the training dynamics quickly brings each weight back to the unperturbed weight trajectory"
        apart = reduced.left_of_weights.where(fast, drop=True)
        yield below("each-weight", statement, apart, RETURNED, source="Figure 10", printed=printed)
        statement = "On every plateau of Algorithm 1 the loss is strictly convex in the active weights"
        yield above("strict-minima", statement, reduced.curvature, 0.0, source="Assumption 4.4")

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        measured = measured.isel(event=measured.settled.values)
        figure, grid = panels(3, 2, size=(3.8, 2.8), squeeze=False)
        *rest, last = grid.flat
        count = measured.sizes["event"]
        for panel, event in zip(rest, range(count), strict=False):
            at = float(measured.perturbed_at[event])
            draw_events(panel, measured.isel(event=event), f"perturbed at τ = {at:.2f}")
        for panel in rest[count:]:
            panel.set_visible(False)
        away = abs(measured["product"] - measured["product"].sel(kind="unperturbed")).max("coordinate")
        for kind, label, color in (("perturbed", "noise on u and v", PALETTE[0]), ("balanced", "balanced", PALETTE[1])):
            for event in range(count):
                curve = np.maximum(away.sel(kind=kind).isel(event=event), 1e-12)
                last.semilogy(away.time, curve, color=color, label=label if event == 0 else None)
        last.axhline(RETURNED * float(away.sel(kind="perturbed").isel(time=0).max()), color=FAINT, linewidth=0.8)
        last.set(xlabel="time after the perturbation", title="Largest deviation of a product")
        last.legend()
        grid[0, 0].set_ylabel("products: perturbed (dashed)")
        return {"perturbation-stability": figure}


def weight_sizes(product: xr.DataArray, kappa: xr.DataArray) -> xr.DataArray:
    """|u| and |v|, the larger one first (weight), from u v and |u² - v²|."""
    squares = (kappa**2 + 4 * product**2) ** 0.5
    both = xr.concat([squares + kappa, squares - kappa], "weight")
    return (both.clip(min=0) / 2) ** 0.5
