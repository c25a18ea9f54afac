"""Figure B.4 and Theorem 3.4: with two factors the oscillation of the product removes their imbalance."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import orbits
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge import rate_scans
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.experiments.edge.product_starts import (
    LARGE_K,
    follow_random_starts,
    positivity_cases,
    unbalanced_ends,
)
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.products import many_factors, two_factors
from dynascope.theory.edge import product_orbit, quartic_orbit

FACTORS = (3, 4, 6)
"""Numbers of factors beyond two."""
SWEEP = (1.01, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.49)


class Product(EdgeExperiment):
    """Does oscillation make the two factors of (xy - μ)²/2 equal, and so lead to the flattest minimum?"""

    id = "edge.product"
    source = Source(SIMPLE_STRUCTURES, "Figure B.4; Theorem 3.4, Proposition 3, Lemma B.2")
    cost = {"quick": 7, "full": 14}
    presets = {"quick": {"draws": 4000}}
    control = {"rates": (0.5, 0.7)}
    notes = """μ = 1, so K = η. The text gives no start; (1.5, 0.8) is our choice. Theorem 3.4 assumes that x and y stay
    positive; random starts are drawn (product 0.05 to 1.6, ratio up to e) and those that stay positive are judged.
    Lowering the rate after the oscillation ends at the flattest minimum, (1, 1); a low rate throughout does not. In the
    control the rates are below the threshold, and the imbalance of the start remains. Products of three or more
    factors (the loss of Proposition 7) are our extension: nothing is proved about their imbalance."""
    known_failures = {
        "unbalanced": "All finite starts end with equal factors: the unbalanced orbit, in closed form, repels. The "
        "document cites a figure of another work.",
    }

    rates: tuple[float, float] = (1.05, 1.25)
    start: tuple[float, float] = (1.5, 0.8)
    steps: int = Field(400, ge=4)
    low_rate: float = 0.1
    """The rate to which the first is lowered after `steps`, and the rate of a run that never oscillates."""
    draws: PositiveInt = 20_000
    """Random starts for each K, of which at most 800 that stay positive are kept."""
    factor_rate: float = 1.02
    """Rate for products of several factors, whose threshold is 1."""

    def measure(self, seed: int) -> xr.Dataset:
        task = two_factors()
        shown = rate_scans.run_at_rates(task.step, np.array(self.start), self.rates, self.steps, record=1).state.values
        settled = rate_scans.run_at_rates(
            task.step, np.array(self.start), self.rates, 20_000, record=rate_scans.ends_of(20_000, 0)
        ).state.values
        starts = np.stack([shown[0, -1], np.array(self.start)])
        lowered = ds.ensemble(
            rate_scans.RateMap(task.step), {"start": starts}, fixed={"rate": self.low_rate}, steps=self.steps, record=1
        ).trace.state.values
        several = {}
        for n in FACTORS:
            start = 1.02 * np.exp(0.1 * np.linspace(-1, 1, n))  # off the set of minima
            run = rate_scans.run_at_rates(many_factors(n).step, start, [self.factor_rate, 0.9], 40_000).state.values
            several[f"factors_{n}"] = (("regime", "factor_step", f"factor_{n}"), run)
        found = xr.Dataset(
            {
                "factors": (("rate", "step", "which"), shown),
                "settled": (("rate", "kept", "which"), settled[:, -rate_scans.LATE :]),
                "lowered": (("path", "step", "which"), lowered),
                **several,
            },
            {
                "rate": list(self.rates),
                "step": np.arange(self.steps + 1),
                "path": ["after the oscillation", "from the start"],
            },
        )
        parts = [follow_random_starts(seed, self.draws, SWEEP), positivity_cases(seed, self.draws)]
        return xr.merge([found, *parts, unbalanced_ends(seed, self.draws)])

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """Period and orbit of the balanced map, the decay of the imbalance on it, and the end points of low rates."""
        rates = np.array(self.rates)
        ends = jnp.stack([jnp.ones(2), product_orbit.flow_limit(jnp.array(self.start), 1.0)])
        return xr.Dataset(
            {
                "period": ("rate", 2 ** np.searchsorted(quartic_orbit.cascade(4), rates)),
                "orbit": (("rate", "point"), np.stack(quartic_orbit.normalized_orbit(rates), axis=-1)),
                "contraction": ("rate", np.asarray(product_orbit.orbit_contraction(rates))),
                "exponent": ("K_rate", np.asarray(product_orbit.transverse_exponent(measured.K_rate.values))),
                "lowered_end": (("path", "which"), np.asarray(ends)),
            },
            {"rate": measured.rate, "path": measured.path},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        gap = np.abs(measured.factors.diff("which")).isel(which=0, drop=True)
        early, late = min(100, self.steps // 4), min(300, 3 * self.steps // 4)
        decay = (gap.sel(step=late, drop=True) / gap.sel(step=early, drop=True)) ** (2 / (late - early))
        product = measured.settled.prod("which")
        cycle = xr.DataArray(np.sort(product[:, -2:]), dims=("rate", "point"))
        several = [measured[f"factors_{n}"].values for n in FACTORS]
        return measured.drop_dims(("step", "kept", "factor_step")).assign(
            imbalance=gap.isel(step=-1, drop=True) / gap.isel(step=0, drop=True),
            decay=decay / abs(predicted.contraction),
            period=("rate", orbits.period(product.values)),
            period_predicted=predicted.period,
            off_orbit=abs(cycle - predicted.orbit**2).max("point", skipna=False),
            exponent_error=abs(measured.exponent - predicted.exponent),
            lowered_sharpness=(measured.lowered.isel(step=-1, drop=True) ** 2).sum("which"),
            lowered_predicted=(predicted.lowered_end**2).sum("which"),
            several_period=("n", [orbits.period(run[0, -rate_scans.LATE :, 0]) for run in several]),
            several_spread=(("n", "regime"), [np.ptp(run[:, -1], axis=-1) for run in several]),
            n=list(FACTORS),
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = f"|x - y| after {self.steps} steps, over its initial value, at both rates"
        yield below("imbalance-dies", statement, reduced.imbalance, 1e-6)
        two = reduced.isel(rate=(reduced.period_predicted == 2).values)
        statement = "Where xy has period two, |x - y| falls by |3 - 2K| in two steps: ratio to it"
        yield agrees("imbalance-rate", statement, two.decay, 1.0, absolute=0.01)
        statement = "The period of xy is that of the quartic: 2 at η = 1.05, 4 at 1.25"
        yield every("product-periods", statement, (reduced.period == reduced.period_predicted) & (reduced.period > 1))
        statement = "Where it is two, xy ends on d₁², d₂²: largest distance"
        yield below("product-orbit", statement, two.off_orbit, 1e-9)
        statement = "The identities for y⁺ - x⁺, x⁺y⁺ and x⁺² - y⁺² hold along random runs: largest errors"
        yield below("identities", statement, reduced.identity_errors, 1e-12, source="(B.4), (B.33)")
        place, runs = "Theorem 3.4", int(reduced.kept_starts.sum())
        statement = "Where xy > μ, |x - y| falls, within the bounds of the proof, for K from 1.01 to 1.49: violations"
        broken = (reduced.rises + reduced.above + reduced.below).where(reduced.kept_starts > 0)
        yield below("monotone", statement, broken.max(skipna=False), 1, source=place, seeds=runs)
        statement = "|x - y| decreases to 0: largest after 3000 steps"
        yield below("balanced", statement, reduced.last_gap.max(), 1e-12, source=place, seeds=runs)
        statement = "For K < √4.5 - 1 both factors end on d1, d2 of the quartic: largest distance"
        proved = reduced.orbit_error[reduced.K.values < quartic_orbit.SUPERSTABLE]
        yield below("balanced-orbit", statement, proved.max(), 1e-9, source="Proposition 3", seeds=runs)
        statement = "On the orbit the mean of log|1 + η(xy - μ)| is ½ ln(3 - 2K): largest error"
        yield below("exponent", statement, reduced.exponent_error.max(), 1e-9, source="Theorem 3.4, extended")
        statement = "The share of starts that Lemma B.2 admits and that leave the positive quadrant"
        negative = (reduced.turned_negative / reduced.admitted).where(reduced.admitted > 100)
        admitted, place = int(reduced.admitted), "Lemma B.2"
        yield agrees("positivity", statement, negative, 0.0, absolute=0.0, source=place, seeds=admitted)
        sharpness = reduced.lowered_sharpness
        statement = f"Lowering η to {self.low_rate:g} after the oscillation leads to the flattest minimum: sharpness"
        yield agrees("flattest", statement, sharpness[0], 2.0, absolute=1e-3, source="Remarks 2 and 6")
        statement = f"The rate {self.low_rate:g} from the start ends near the limit of gradient flow, a sharper minimum"
        limit = reduced.lowered_predicted[1].item()
        yield agrees("stays-sharp", statement, sharpness[1], limit, relative=0.005, source="Remarks 2 and 6")
        place = "Remark 5"
        statement = f"At K = {LARGE_K:g} some random start ends on an orbit with |x| ≠ |y|: number of such starts"
        finite = {"finite starts": reduced.finite_starts}
        printed = "for a larger K ≥ 1.5, it is possible for GD to converge to an inbalanced orbit"
        yield above("unbalanced", statement, reduced.unbalanced, 0, source=place, printed=printed, shown=finite)
        statement = "There is such an orbit, (x, y) → … → (y, x) in two steps, but it repels in both directions: sizes "
        statement += "of its multipliers"
        exact = {"error of the orbit": reduced.swap_error}
        repels = reduced.swap_multiplier.where(reduced.swap_error < 1e-9)
        yield above("unbalanced-repels", statement, repels, 1.0, source=place, shown=exact)
        statement = f"Products of 3, 4, 6 factors, (Πx - 1)²/n, oscillate with period two at η = {self.factor_rate:g}"
        place = "Proposition 7's loss, extended"
        yield every("several-factors", statement, reduced.several_period == 2, source=place)
        statement = "There all factors become equal: max x - min x (0.2 at the start; at η = 0.9 it remains)"
        oscillating, at_rest = reduced.several_spread.T
        yield below("several-equal", statement, oscillating, 1e-9, source=place, shown={"at η = 0.9": at_rest})

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(3, 2, size=(4.6, 3.2))
        for row, rate in enumerate(self.rates):
            factors, color = measured.factors.isel(rate=row), PALETTE[row]
            product, gap = factors.prod("which"), np.abs(factors.diff("which")).isel(which=0)
            early = slice(0, 61)
            grid[row, 0].plot(product.step[early], product[early], "o-", color=color, markersize=2.5, linewidth=0.7)
            for level in predicted.orbit.values[row] ** 2:
                grid[row, 0].axhline(level, **THEORY)
            grid[row, 0].plot([], [], **THEORY, label="orbit of period two")
            grid[row, 0].legend(loc="lower right")
            period = int(reduced.period[row])
            grid[row, 0].set(title=f"η = {rate:g}: period {period}", xlabel="step", ylabel="x y")
            decay = np.abs(predicted.contraction.values[row]) ** (gap.step / 2)
            grid[row, 1].plot(gap.step, gap.where(gap > 0), color=color, label="measured")
            grid[row, 1].plot(gap.step, gap[0].item() * decay, **THEORY, label="slope of (3 - 2K)^(t/2)")
            grid[row, 1].set(yscale="log", ylim=(1e-16, 20), xlabel="step", ylabel="|x - y|", title="Imbalance")
            grid[row, 1].legend(loc="upper right")
        self._draw_plane(grid[0, 2], measured)
        for color, n in zip(settings_colors(3), FACTORS, strict=True):
            spread = np.ptp(measured[f"factors_{n}"].values[:, : rate_scans.EARLY : 2], axis=-1)
            step = 2 * np.arange(spread.shape[1])
            grid[1, 2].plot(step, spread[0], "-", color=color, label=f"n = {n}")
            grid[1, 2].plot(step, spread[1], ":", color=color)
        grid[1, 2].plot([], [], ":", color=FAINT, label="η = 0.9")
        grid[1, 2].set(yscale="log", xlabel="step", ylabel="max x - min x")
        grid[1, 2].set_title(f"More factors, η = {self.factor_rate:g}")
        grid[1, 2].legend(loc="lower left", ncols=2)
        return {"product": figure}

    def _draw_plane(self, axes: Axes, measured: xr.Dataset) -> None:
        x = np.linspace(0.5, 2, 200)
        axes.plot(x, 1 / x, color=FAINT, label="minima")
        path = measured.factors.values[0]
        axes.plot(*path.T, "o", markersize=2.5, color=PALETTE[0], label=f"η = {self.rates[0]:g}")
        for which, color in enumerate(PALETTE[1:3]):
            axes.plot(*measured.lowered.values[which].T, "-", color=color, linewidth=1.6)
            sharpness = np.sum(measured.lowered.values[which, -1] ** 2)
            label = (f"then {self.low_rate:g}", f"{self.low_rate:g} throughout")[which] + f": {sharpness:.3f}"
            axes.plot(*measured.lowered.values[which, -1], "*", markersize=12, color=color, zorder=4, label=label)
        axes.set(xlabel="x", ylabel="y", title="Sharpness of the minimum reached", xlim=(0.55, 1.7), ylim=(0.4, 1.4))
        axes.legend(loc="upper right", fontsize=8)
