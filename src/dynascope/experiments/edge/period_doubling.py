"""Figure B.5 and Theorem 3.3: the orbit of the quartic, the largest rate at which it attracts, and the cascade
beyond."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from pydantic import PositiveInt

from dynascope.curves import orbits
from dynascope.dynamics.bifurcation import bifurcation, escape_times
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.edge import quartic_orbit
from dynascope.theory.edge.quartic_proof import closed_form_errors, proof_margins

DOUBLED = (2, 4, 8)
"""Periods whose largest rate is searched for."""
ATTRACTED = (1.005, 1.02, 1.05, 1.1, 1.121, 1.15, 1.2, 1.235)
"""Rates at which random starts are followed."""


class PeriodDoubling(EdgeExperiment):
    """Up to which learning rate does the period-two orbit of the quartic attract, and what follows it?"""

    id = "edge.period-doubling"
    source = Source(SIMPLE_STRUCTURES, "Figure B.5; Theorem 3.3")
    cost = {"quick": 5, "full": 12}
    presets = {"quick": {"random_starts": 1000}}
    control = {"rates": (0.9, 0.95, 0.97)}
    notes = """μ = 1 throughout, so K = η: only η μ matters. Theorem 3.3 proves convergence up to K = √4.5 - 1 = 1.121,
    where two steps have multiplier 0; the orbit attracts almost every start up to √5 - 1 = 1.236, where period four
    takes over. The text does not give the start of the figure; 0.5 is our choice. The control is below the threshold,
    where gradient descent converges to the minimum."""

    rates: tuple[float, float, float] = (1.05, 1.235, 1.237)
    start: float = 0.5
    burn_in: PositiveInt = 20_000
    span: tuple[float, float] = (0.9, 1.6)
    """The range of rates in the diagram."""
    grid: PositiveInt = 2001
    """Number of rates in the diagram."""
    random_starts: PositiveInt = 20_000

    def measure(self, seed: int) -> xr.Dataset:
        shown = bifurcation(quartic_orbit.step, jnp.array(self.rates), jnp.array(self.start), burn_in=self.burn_in)
        grid = np.linspace(*self.span, self.grid)
        diagram = bifurcation(quartic_orbit.step, jnp.asarray(grid), jnp.array(self.start), burn_in=self.burn_in)
        K = np.array([*ATTRACTED, quartic_orbit.POSITIVITY_LIMIT - 0.005, quartic_orbit.POSITIVITY_LIMIT + 0.005])
        share = jnp.asarray(np.random.default_rng(seed).uniform(0, 1, self.random_starts))
        reach = np.minimum(np.sqrt(1.7), np.sqrt(1 + 1 / K))
        reach[-2:] = np.sqrt(1 + 1 / K[-2:])
        setting = {"K": jnp.asarray(K), "reach": jnp.asarray(reach)}
        start = {"x": share, "lowest": jnp.ones_like(share), "begun": jnp.zeros(())}
        followed = bifurcation(_with_lowest, setting, start, burn_in=self.burn_in, keep=2)
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
        """The orbit in closed form and its multiplier, and the period doublings; nan below the threshold."""
        found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        for name, axis in (("orbit", "rate"), ("diagram", "K"), ("random_orbit", "random_K")):
            points = quartic_orbit.normalized_orbit(measured[axis].values)
            found[name] = ((axis, "point"), np.stack([np.asarray(d) for d in points], axis=-1))
        K = measured.K.values
        found["multiplier"] = (("K",), np.where(K > 1, np.asarray(quartic_orbit.multiplier(K)), np.nan))
        found["doubling"] = (("doublings",), np.asarray(quartic_orbit.cascade(5)))
        return xr.Dataset(found, {"rate": measured.rate, "K": measured.K, "random_K": measured.random_K})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        K, period, attracted = measured.K.values, measured.diagram_period.values, slice(len(ATTRACTED))
        ends = np.sort(measured.random_orbit.values[attracted], axis=-1)
        far = np.abs(ends - predicted.random_orbit.values[attracted, None]).max((1, 2))
        pair = np.sort(measured.orbit.values[:, -2:])
        chaotic = K[(period == orbits.APERIODIC) & (K > 1.25)]
        lowest = measured.random_lowest.min("random_start").values
        return xr.Dataset(
            {
                "period": measured.period,
                "off_orbit": ("rate", np.abs(pair - predicted.orbit.values).max(-1)),
                "random_distance": ("attracted", far),
                "random_lowest": ("attracted", lowest[attracted]),
                "last": ("doubled", [_last_before(K, period, p) for p in DOUBLED]),
                "last_predicted": ("doubled", predicted.doubling.values[1 : 1 + len(DOUBLED)]),
                "chaos": chaotic[0] if chaotic.size else np.nan,
                "positive": ("side", (measured.random_lowest[-2:] > 0).mean("random_start").values),
                "escaped": measured.escaped,
                **closed_form_errors(),
                "proof": ("difference", list(proof_margins().values())),
            },
            {"doubled": list(DOUBLED), "attracted": list(ATTRACTED), "side": ["inside", "outside"]},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = f"At η = {', '.join(map(str, self.rates))} gradient descent has period 2, 2 and 4"
        periods = {"periods": reduced.period.values}
        yield every("periods", statement, reduced.period == [2, 2, 4], source="Figure B.5", shown=periods)
        statement = "Where the period is 2 the points are those of the closed form: largest distance"
        yield below("points", statement, reduced.off_orbit[reduced.period.values == 2], 1e-9, source="Figure B.5")
        place, seeds = "Theorem 3.3", self.random_starts
        statement = "From every random x0 in (0, √1.7) the orbit is reached, also beyond the theorem's 1.121: distance"
        yield below("almost-every-start", statement, reduced.random_distance, 1e-12, source=place, seeds=seeds)
        statement = "None of these runs ever becomes negative: least x"
        yield above("never-negative", statement, reduced.random_lowest, 0.0, source=place, seeds=seeds)
        statement = "Periods 2, 4 and 8 end where the theory has the doublings: last K with each, on the grid"
        spacing = (self.span[1] - self.span[0]) / (self.grid - 1)
        place = "Appendix B, (B.12), extended"
        yield agrees("cascade", statement, reduced.last, reduced.last_predicted, absolute=3 * spacing, source=place)
        statement = "Chaos begins at the limit of the doublings: first K without a period up to 32"
        onset = quartic_orbit.ONSET_OF_CHAOS
        yield agrees("chaos", statement, reduced.chaos, onset, absolute=3 * spacing, source=place)
        statement = "d = (√(μ + 3/η) ∓ √(μ - 1/η))/2 is an orbit, with multiplier 9 - 2(1 + K)²: largest errors"
        errors = xr.concat([reduced.closed_residual, reduced.closed_multiplier], "of")
        yield below("closed-form", statement, errors, 1e-13, source="Theorem 3.3, (B.12)")
        statement = "It satisfies (3.4) for K ≤ 1.5 (where (3.4) has a square root): largest error"
        yield below("implicit-form", statement, reduced.closed_implicit, 1e-6, source="(3.4)")
        statement = "Up to K = √4.5 - 1 F²(x) - x is positive on [x_s, d1) and negative on (d1, √μ), d1² ≥ (3 + √2)μ/7 "
        statement += "(B.18), and the left side of (B.20) is above 1: least of the four differences"
        yield above("proof", statement, reduced.proof, 0.0, source="Theorem 3.3, proof")
        place = "Theorem 3.3, extended"
        statement = "Starts in (0, √(μ + 1/η)) stay positive for K ≤ 3√3/2 - 1 = 1.598: share of them, K 0.005 below"
        inside, outside = reduced.positive
        yield agrees("positive", statement, inside, 1.0, absolute=0.0, source=place, seeds=seeds)
        statement = "Beyond it some become negative: share that stays positive, K 0.005 above"
        yield below("not-positive", statement, outside, 1.0, source=place, seeds=seeds)
        statement = "Starts 0.1 % beyond √(μ + 2/η) diverge, starts as far within it do not, at each rate"
        right = reduced.escaped == (reduced.side == "outside")
        yield every("outer-orbit", statement, right, source=place)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (diagram, paths, slope) = panels(3, size=(5.0, 4.0), width_ratios=(1.6, 1.2, 1.0))
        K = measured.K.values
        many = np.repeat(K, measured.sizes["kept"])
        diagram.plot(many, measured.diagram.values.ravel(), ",", color=PALETTE[1], alpha=0.6, rasterized=True)
        for d in predicted.diagram.values.T:
            diagram.plot(K, d, **THEORY)
        marks = {1.0: "2/f''", quartic_orbit.SUPERSTABLE: "√4.5 - 1", quartic_orbit.STABILITY_LIMIT: "√5 - 1"}
        for mark, text in marks.items():
            diagram.axvline(mark, color=FAINT, linewidth=0.8, zorder=0)
            diagram.text(mark + 0.004, 0.03, text, fontsize=8, rotation=90, color=INK, va="bottom")
        diagram.plot([], [], "o", markersize=3, color=PALETTE[1], label="last 64 iterates")
        diagram.plot([], [], **THEORY, label="orbit in closed form")
        diagram.legend(loc="lower left", bbox_to_anchor=(0.0, 0.22))
        diagram.set(xlabel="η μ", ylabel="x/√μ", title="Iterates after 20,000 steps", ylim=(0, 1.42), xlim=self.span)
        self._draw_paths(paths, measured)
        slope.plot(K, predicted.multiplier, **THEORY, label="9 - 2(1 + K)²")
        slope.axhspan(-1, 1, color=FAINT, alpha=0.15, linewidth=0, label="attracts")
        found = predicted.multiplier.where(measured.diagram_period == 2)
        slope.plot(K, found, color=PALETTE[1], linewidth=4, alpha=0.5, label="period 2 found")
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
            label = f"η = {rate:g}: period {measured.period.values[k]}"
            axes.text(0, 0.75 * (2 - k) + 1.22, label, fontsize=9, color=PALETTE[k])
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
