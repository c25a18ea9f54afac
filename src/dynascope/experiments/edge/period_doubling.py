"""Figure B.5 and Theorem 3.3: the orbit of the quartic, up to which rate it attracts, and the cascade beyond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.curves import orbits
from dynascope.dynamics.bifurcation import bifurcation, escape_times
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.geometry.orbits import advance
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.theory.edge import quartic_orbit

POINTS = {1.05: (0.872872, 1.091089), 1.235: (0.707791, 1.144006), 1.237: (0.694204, 1.139096, 0.719845, 1.148883)}
"""The orbits at the rates of the figure, from an independent computation, in the order of the iterates."""
THRESHOLDS = {"2 → 4": 1.23607, "4 → 8": 1.2885, "8 → 16": 1.2995}
ATTRACTED = (1.005, 1.02, 1.05, 1.1, 1.121, 1.15, 1.2, 1.235)
"""Rates at which random starts are followed."""


class PeriodDoubling(EdgeExperiment):
    """Up to which learning rate does the period-two orbit of the quartic attract, and what follows it?"""

    id = "edge.period-doubling"
    source = Source(DOCUMENT, "Figure B.5; Theorem 3.3")
    cost = {"quick": 5, "full": 12}
    presets = {"quick": {"random_starts": 1000}}
    control = {"rates": (0.9, 0.95, 0.97)}
    notes = """μ = 1 throughout, so K = η: only η μ matters. Theorem 3.3 proves convergence up to K = √4.5 - 1 = 1.121,
    where two steps have multiplier 0 (convergence is fastest); the orbit attracts almost every start up to
    √5 - 1 = 1.236, where period four takes over. Convergence is slow near K = 1 and near √5 - 1. The text does not
    give the start of the figure; 0.5 is our choice. The control is below the threshold, where gradient descent
    converges to the minimum."""

    rates: tuple[float, float, float] = (1.05, 1.235, 1.237)
    start: float = 0.5
    burn_in: PositiveInt = 20_000
    span: tuple[float, float] = (0.9, 1.6)
    """The range of rates in the diagram."""
    grid: PositiveInt = 2001
    """How many rates the diagram has."""
    random_starts: PositiveInt = 20_000

    def measure(self, seed: int) -> xr.Dataset:
        shown = bifurcation(quartic_orbit.step, jnp.array(self.rates), jnp.array(self.start), burn_in=self.burn_in)
        grid = np.linspace(*self.span, self.grid)
        diagram = bifurcation(quartic_orbit.step, jnp.asarray(grid), jnp.array(self.start), burn_in=self.burn_in)
        K = np.array([*ATTRACTED, quartic_orbit.POSITIVITY_LIMIT - 0.005, quartic_orbit.POSITIVITY_LIMIT + 0.005])
        share = jnp.asarray(np.random.default_rng(seed).uniform(0, 1, self.random_starts))
        reach = np.minimum(np.sqrt(1.7), np.sqrt(1 + 1 / K))
        reach[-2:] = np.sqrt(1 + 1 / K[-2:])
        followed = bifurcation(
            _with_lowest, {"K": jnp.asarray(K), "reach": jnp.asarray(reach)},
            {"x": share, "lowest": jnp.ones_like(share), "begun": jnp.zeros(())}, burn_in=self.burn_in, keep=2,
        )  # fmt: skip
        edge = np.asarray(quartic_orbit.outer_orbit(1.0, np.array(ATTRACTED)))
        beside = np.concatenate([0.999 * edge, 1.001 * edge])
        escaped = escape_times(quartic_orbit.step, jnp.tile(jnp.array(ATTRACTED), 2), jnp.asarray(beside), steps=5000)
        path = bifurcation(quartic_orbit.step, jnp.array(self.rates), jnp.array(self.start), burn_in=0, keep=400)
        return xr.Dataset(
            {
                "orbit": (("rate", "kept"), np.asarray(shown.iterates)),
                "period": ("rate", shown.periods()),
                "path": (("rate", "step"), np.asarray(path.iterates)),
                "diagram": (("K", "kept"), np.asarray(diagram.iterates)),
                "diagram_period": ("K", diagram.periods()),
                "random_orbit": (("random_K", "random_start", "phase"), np.asarray(followed.iterates["x"])),
                "random_lowest": (("random_K", "random_start"), np.asarray(followed.iterates["lowest"])[..., -1]),
                "escaped": (("side", "attracted"), np.asarray(escaped).reshape(2, -1) >= 0),
            },
            {"rate": list(self.rates), "K": grid, "random_K": K, "attracted": list(ATTRACTED)},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The orbit in closed form and its multiplier, and where periods double; nan below the threshold."""
        found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        for name, axis in (("orbit", "rate"), ("diagram", "K"), ("random_orbit", "random_K")):
            points = quartic_orbit.normalized_orbit(measured[axis].values)
            found[name] = ((axis, "point"), np.stack([np.asarray(d) for d in points], axis=-1))
        K = measured.K.values
        found["multiplier"] = (("K",), np.where(K > 1, np.asarray(quartic_orbit.multiplier(K)), np.nan))
        found["doubling"] = (("doublings",), np.asarray(quartic_orbit.cascade(5)))
        return xr.Dataset(found, {"rate": measured.rate, "K": measured.K, "random_K": measured.random_K})

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        periods = measured.period.values.tolist()
        yield claim(
            "periods", f"At η = {', '.join(map(str, self.rates))} gradient descent has period 2, 2 and 4 "
            f"(to 1e-7, after {self.burn_in} steps)", source="Figure B.5", measured=periods, expected=[2, 2, 4],
            holds=periods == [2, 2, 4] and self.burn_in >= 20_000,
        )  # fmt: skip
        cycles = [orbits.last_cycle(row, p or 1) for row, p in zip(measured.orbit.values, periods, strict=True)]
        known = [(cycle, POINTS[rate]) for cycle, rate in zip(cycles, self.rates, strict=True) if rate in POINTS]
        match = [len(a) == len(b) and np.abs(a - b).max() < 1e-6 for a, b in known]
        yield claim(
            "points", "The points of the orbits", source="Figure B.5", measured=cycles,
            expected={"within": 1e-6} | {str(rate): list(points) for rate, points in POINTS.items()},
            holds=len(match) == len(POINTS) and all(match),
        )  # fmt: skip
        two = predicted.random_orbit.isel(random_K=slice(len(ATTRACTED))).values
        ends = np.sort(measured.random_orbit.isel(random_K=slice(len(ATTRACTED))).values, axis=-1)
        gap = np.abs(ends - two[:, None]).max(axis=(1, 2))
        lowest = measured.random_lowest.isel(random_K=slice(len(ATTRACTED))).min().item()
        yield claim(
            "almost-every-start", f"From {self.random_starts} uniform x0 in (0, √1.7) every run reaches the orbit in "
            "closed form, also beyond the 1.121 of Theorem 3.3, up to K = 1.235, and none ever becomes negative",
            source="Theorem 3.3",
            measured={"largest distance": dict(zip(map(str, ATTRACTED), gap, strict=True)), "least x": lowest},
            expected="distance < 1e-12, x > 0", holds=bool(gap.max() < 1e-12 and lowest > 0), seeds=self.random_starts,
        )  # fmt: skip
        yield from self._judge_cascade(measured, predicted)
        yield from self._judge_closed_form()
        under, over = (measured.random_lowest.isel(random_K=k).values > 0 for k in (-2, -1))
        yield claim(
            "positive", "Starts in (0, √(μ + 1/η)) stay positive for K ≤ 3√3/2 - 1 = 1.598 and not all beyond (K 0.005 "
            "below and above)", source="Theorem 3.3, extended",
            measured={"below": share_of(under), "above": share_of(over)},
            expected="1 below, < 1 above", holds=bool(under.all() and not over.all()), seeds=self.random_starts,
        )  # fmt: skip
        inside, outside = measured.escaped.values
        yield claim(
            "outer-orbit", "Starts beyond √(μ + 2/η) diverge, starts within it do not (0.1 % on either side, at "
            f"{len(ATTRACTED)} rates)", source="Theorem 3.3, extended",
            measured={"diverged inside": int(inside.sum()), "outside": int(outside.sum())},
            expected={"inside": 0, "outside": len(ATTRACTED)}, holds=bool(outside.all() and not inside.any()),
        )  # fmt: skip

    def _judge_cascade(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        K, period = measured.K.values, measured.diagram_period.values
        last = {f"{p} → {2 * p}": _last_before(K, period, p) for p in (2, 4, 8)}
        theory = predicted.doubling.values[1:4]
        chaos = float(K[(period == 0) & (K > 1.25)][0]) if np.any((period == 0) & (K > 1.25)) else float("nan")
        near = [abs(last[name] - THRESHOLDS[name]) < 1e-3 and abs(last[name] - t) < 1e-3
                for name, t in zip(THRESHOLDS, theory, strict=True)]  # fmt: skip
        yield claim(
            "cascade", f"Period 2 ends at √5 - 1, 4 near 1.2885, 8 near 1.2995 (last K with that period, on a grid of "
            f"{self.grid}), and chaos begins between 1.302 and 1.303", source="Appendix B, (B.12), extended",
            measured=last | {"no period up to 32 from": chaos},
            expected=THRESHOLDS | {"within": 1e-3, "by Newton's method": theory, "chaos": [1.302, 1.303]},
            holds=all(near) and 1.302 <= chaos <= 1.303,
        )  # fmt: skip

    def _judge_closed_form(self) -> Iterable[Claim]:
        K, worst = np.linspace(1.001, 1.5, 500), {}
        for mu in (1.0, 2.5):
            low, high = (np.asarray(d) for d in quartic_orbit.orbit(mu, K / mu))

            def step(x: np.ndarray, mu: float = mu) -> np.ndarray:
                return x - K / mu * (x**2 - mu) * x

            slopes = (1 - K / mu * (3 * low**2 - mu)) * (1 - K / mu * (3 * high**2 - mu))
            printed = [np.asarray(quartic_orbit.implicit_rate(mu, d)) * mu - K for d in (low, high)]
            worst[f"μ = {mu:g}"] = {
                "residual": max(np.abs(step(low) - high).max(), np.abs(step(high) - low).max()),
                "multiplier": np.abs(slopes - np.asarray(quartic_orbit.multiplier(K))).max(),
                "(3.4)": max(np.abs(gap).max() for gap in printed),
            }
        small = max(max(row["residual"], row["multiplier"]) for row in worst.values())
        printed = max(row["(3.4)"] for row in worst.values())
        yield claim(
            "closed-form", "d = (√(μ + 3/η) ∓ √(μ - 1/η))/2 is an orbit with multiplier 9 - 2(1 + K)², and satisfies "
            "(3.4) for K ≤ 1.5: largest errors", source="Theorem 3.3, (3.4), (B.12)", measured=worst,
            expected="residual and multiplier < 1e-13, (3.4) < 1e-6 (it has a square root at K = 1.5)",
            holds=small < 1e-13 and printed < 1e-6,
        )  # fmt: skip
        K = np.linspace(1.0, quartic_orbit.SUPERSTABLE, 102)[1:-1]
        low = np.asarray(quartic_orbit.normalized_orbit(K).low)
        bound, critical = float(quartic_orbit.lower_bound(1.0)), np.asarray(quartic_orbit.critical_point(1.0, K))
        share = np.linspace(0.001, 0.999, 50)[:, None]
        left, right = critical + share * (low - critical), low + share * (1 - low)
        forward = [
            np.asarray(advance(lambda x: quartic_orbit.step(x, K), jnp.asarray(x), 2)) - x for x in (left, right)
        ]
        yield claim(
            "proof", "Up to K = √4.5 - 1: F²(x) > x on [x_s, d1), F²(x) < x on (d1, √μ), d1² ≥ (3 + √2)μ/7 (B.18), and "
            "(2/3)(1 + K)(1 + K - (4/27)(1 + K)³) > 1 (B.20)", source="Theorem 3.3, proof",
            measured={"least F² - x": forward[0].min(), "largest": forward[1].max(), "least d1": low.min(),
                      "bound": bound,
                      "least of (B.20)": float(quartic_orbit.invariance(K).min())},
            expected="> 0, < 0, d1 ≥ bound, > 1",
            holds=forward[0].min() > 0 > forward[1].max() and low.min() >= bound
            and float(quartic_orbit.invariance(K).min()) > 1,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        figure, (diagram, paths, slope) = panels(3, size=(5.0, 4.0), width_ratios=(1.6, 1.2, 1.0))
        K = measured.K.values
        many = np.repeat(K, measured.sizes["kept"])
        diagram.plot(many, measured.diagram.values.ravel(), ",", color=PALETTE[1], alpha=0.6, rasterized=True)
        for d in predicted.diagram.values.T:
            diagram.plot(K, d, **THEORY)
        for mark, text in ((1.0, "2/f''"), (quartic_orbit.SUPERSTABLE, "√4.5 - 1"),
                           (quartic_orbit.STABILITY_LIMIT, "√5 - 1")):  # fmt: skip
            diagram.axvline(mark, color=FAINT, linewidth=0.8, zorder=0)
            diagram.text(mark + 0.004, 0.03, text, fontsize=8, rotation=90, color=INK, va="bottom")
        diagram.plot([], [], "o", markersize=3, color=PALETTE[1], label="last 64 iterates")
        diagram.plot([], [], **THEORY, label="orbit in closed form")
        diagram.legend(loc="lower left", bbox_to_anchor=(0.0, 0.22))
        diagram.set(xlabel="η μ", ylabel="x/√μ", title="Iterates after 20,000 steps", ylim=(0, 1.42), xlim=self.span)
        self._draw_paths(paths, measured)
        slope.plot(K, predicted.multiplier, **THEORY, label="9 - 2(1 + K)²")
        slope.axhspan(-1, 1, color=FAINT, alpha=0.15, linewidth=0, label="attracts")
        slope.plot(K[measured.diagram_period.values == 2], predicted.multiplier.values[measured.diagram_period == 2],
                   color=PALETTE[1], linewidth=4, alpha=0.5, label="period 2 found")  # fmt: skip
        slope.set(xlabel="η μ", ylabel="multiplier of two steps", title="Stability of the orbit")
        slope.set(xlim=(1, 1.3), ylim=(-1.6, 1.15))
        slope.legend(loc="lower left")
        return {"period-doubling": figure}

    def _draw_paths(self, axes: Axes, measured: xr.Dataset) -> None:
        for k, rate in enumerate(self.rates):
            tail = measured.orbit.values[k, -24:]
            for level in np.unique(np.round(tail, 4)):
                axes.axhline(level + 0.75 * (2 - k), color=PALETTE[k], linewidth=0.6, alpha=0.6)
            axes.plot(np.arange(24), tail + 0.75 * (2 - k), "o-", color=PALETTE[k], markersize=3, linewidth=0.7)
            axes.text(0, 0.75 * (2 - k) + 1.22, f"η = {rate:g}: period {measured.period.values[k]}", fontsize=9,
                      color=PALETTE[k])  # fmt: skip
        axes.set(xlabel="step, after 20,000", title="The orbits of Figure B.5", ylim=(0.6, 2.95))
        axes.set_yticks([])


def _with_lowest(state: dict[str, Array], setting: dict[str, Array]) -> dict[str, Array]:
    """The map of the quartic, with the least value so far; the first call scales the start by `reach`."""
    x = jnp.where(state["begun"] > 0, state["x"], state["x"] * setting["reach"])
    there = quartic_orbit.step(x, setting["K"])
    return {"x": there, "lowest": jnp.minimum(state["lowest"], there), "begun": jnp.ones_like(state["begun"])}


def _last_before(K: np.ndarray, periods: np.ndarray, period: int) -> float:
    """The largest K with this period, before the first with twice the period."""
    longer = np.flatnonzero((periods == 2 * period) & (K > 1.1))
    seen = np.flatnonzero(periods[: longer[0]] == period) if longer.size else np.array([], int)
    return float(K[seen[-1]]) if seen.size else float("nan")
