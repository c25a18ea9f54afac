"""What does not hold as printed in Chapter 3 and Appendix B, each with a counter-example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.experiments.edge import example_losses, rate_scans
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.claims import Claim, erratum, share_of
from dynascope.lab.experiment import Source
from dynascope.tasks.scalar_losses import BASE_MODELS, compose, power_series, squared_loss
from dynascope.tasks.single_neuron import reduced_step
from dynascope.theory.edge import quartic_orbit
from dynascope.theory.edge.errata import COUNTER_OUTER, ERRATA, SLOPE
from dynascope.theory.edge.neuron_intervals import propagate
from dynascope.theory.edge.proof_errata import ARGUMENTS, I8, RATIOS, angle_ratio
from dynascope.theory.edge.squared_margins import composition_condition, margin


class Errata(EdgeExperiment):
    """Which statements on the edge of stability do not hold as printed?"""

    id = "edge.errata"
    source = Source(DOCUMENT, "Proposition 2, Propositions 5 and 6, Observations 1 and 5, Appendix B")
    cost = {"quick": 10, "full": 7}
    presets = {"quick": {"states": 20_000}}
    control = {"bend": -0.5}
    notes = """Each erratum says what is printed, what holds, and which numbers decide. The main results of the document
    stand. Proposition 2 (compositions inherit the condition) does not, nor does the literal reading of the constraint
    manifolds; the enclosures of Appendix B.9 have a gap, and some constants are wrong. Errors that change no number
    (indices, cross references, mixed symbols) are not listed. The control bends p the other way, so that
    q' q'' p'' > 0: there Proposition 2 holds, and there is no counter-example."""

    bend: float = 0.5
    """p = x - bend x² + 59 x³/60; its margin at 0 is 0.1 for ± 1/2, and so is that of q = y + y²/2 + 59 y³/60."""
    states: PositiveInt = 100_000
    """Random states of the neuron in a box of Appendix B.9."""
    steps: PositiveInt = 2000

    def measure(self, seed: int) -> xr.Dataset:
        inner = power_series((0.0, 1.0, -self.bend, SLOPE))
        condition = composition_condition(inner, COUNTER_OUTER, 0.0)
        margins = [float(value) for value in (margin(inner, 0.0), margin(COUNTER_OUTER, 0.0), condition.margin)]
        exp, log = (BASE_MODELS[name].function for name in ("exp", "log"))
        losses = {
            "(q(p(x)))²": squared_loss(compose(COUNTER_OUTER, inner), 0.0),
            "(log(exp x) - y)²": squared_loss(compose(log, exp), 0.5),
            "(exp x - y)²": squared_loss(exp, 0.5),
            "(log x - y)²": squared_loss(log, float(np.exp(0.5))),
        }
        every = example_losses.LossFamily(losses)
        thresholds, minima = every.each(lambda loss: loss.threshold), every.each(lambda loss: loss.minimum)
        runs = rate_scans.run_at_rates(
            lambda x, factor: every.step(x, factor * thresholds), minima + 1e-3, [1.002], self.steps, record=4
        )
        evidence = {entry.id: entry.evidence() for entry in ERRATA}
        numbers = {f"{name}: {key}": value for name, found in evidence.items() for key, value in found.numbers.items()}
        return xr.Dataset(
            {
                "margin": ("part", margins),
                "away": (("step", "loss"), np.abs(runs.state.values[0] - minima)),
                "number": ("what", np.array(list(numbers.values()), float)),
                "refutes": ("erratum", np.array([found.refutes for found in evidence.values()])),
                "height": ("state", self._heights(seed)),
            },
            {"part": ["p", "q", "q(p)"], "step": runs.step.values, "loss": list(losses), "what": list(numbers),
             "erratum": list(evidence)},
        )  # fmt: skip

    def _heights(self, seed: int) -> np.ndarray:
        """wy after one step from random states of the box at its full height, for K in (1, 1.1]."""
        rng = np.random.default_rng(seed)
        product = rng.uniform(I8.product_low, I8.product_high, self.states)
        gap = rng.uniform(I8.gap_low, I8.gap_high, self.states)
        mean, K = np.sqrt(product + gap**2 / 4), rng.uniform(1.0, 1.1, self.states)
        state = {"v": mean + gap / 2, "wx": mean - gap / 2, "wy": np.full(self.states, I8.height)}
        return np.asarray(reduced_step({name: jnp.asarray(value) for name, value in state.items()}, K)["wy"])

    def judge(self, measured: xr.Dataset, predicted: None) -> Iterable[Claim]:
        inner, outer, both = measured.margin.values
        end = dict(zip(measured.loss.values.tolist(), measured.away.values[-1], strict=True))
        left = {name: not value < 0.5 for name, value in end.items()}
        yield erratum(
            "composition", "Proposition 2: if p and q satisfy 6 g''² > g' g''', so does q(p(x)). It need not: the "
            "margin of the composite has a third term, 9 q' q'' p'² p''. Two cubics with positive margins have a "
            "negative one; and with exp or log alone gradient descent stays near the minimum (at 1.002 × 2/f''), with "
            "log(exp x) = x it does not", source="Proposition 2",
            measured={"margins of p, q, q(p)": [inner, outer, both], "distance at the end": end},
            expected={"margins": [0.1, 0.1, -8.8], "distance": "> 0.5 for the composites, smaller for exp and log"},
            refuted=inner > 0 and outer > 0 and both < 0 and left["(q(p(x)))²"] and left["(log(exp x) - y)²"]
            and not left["(exp x - y)²"] and not left["(log x - y)²"],
        )  # fmt: skip
        for entry in ERRATA:
            if entry.id == "composition":
                continue
            numbers = {
                str(name).split(": ", 1)[1]: value
                for name, value in zip(measured.what.values, measured.number.values, strict=True)
                if name.startswith(f"{entry.id}: ")
            }
            yield erratum(
                entry.id, f"Printed: {entry.printed}. Right: {entry.holds}", source=entry.where, measured=numbers,
                expected=EXPECTED[entry.id], refuted=measured.refutes.sel(erratum=entry.id).item(),
            )  # fmt: skip
        printed, valid = propagate(I8, "printed").height, propagate(I8, "valid").height
        beyond = measured.height.values > printed
        yield erratum(
            "enclosure-share", "Printed: every state of box I8 has wy ≤ 0.214 a step later. Right: 0.285. Random "
            "states at the full height of the box exceed the printed bound, none the valid one", source="(B.90), I8",
            measured={"largest wy": measured.height.max(), "printed": printed, "valid": valid,
                      "beyond": share_of(beyond)},
            expected="some beyond 0.214, none beyond 0.285", seeds=self.states,
            refuted=bool(beyond.any() and measured.height.max() <= valid),
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: None) -> Mapping[str, Figure]:
        return {"errata": draw_errata(measured, self.bend)}


EXPECTED = {
    "literal-manifold": "loss > 0 at a point of M and M_c, with sharpness 0.75 < 2/η",
    "symmetric-motivation": "symmetric: all 40 starts bounded; asymmetric: at most 5 %",
    "second-eigenvalue": "unbounded at 2.15, bounded at 1.8",
    "observation-range": "|multiplier| > 1 at K = 2.1; it is within 1 up to K = √5 - 1",
    "missing-scale": "residual 0 for σ1 ρ only",
    "largest-singular-values": "|uᵀY| = |uᵀZ|, the largest singular values differ",
    "existence-limit": "residual 0 at K = 1.55, where (3.4) gives another rate (1.454)",
    "log-derivative": "positive",
    "height-enclosure": "0.214 < wy ≤ 0.285",
    "cube-bound": "≤ 1, > 1, above 100",
    "half-step": 1.5,
    "missing-square": {"squared": "≥ 3.28"},
    "spectral-condition": "below -1 though below 2",
    "remark-start": {"Y Zᵀ": 4.0},
}
"""What each counter-example should show."""


def draw_errata(measured: xr.Dataset, bend: float) -> Figure:
    """Where Proposition 2 fails and what gradient descent does there; the manifold, (3.4), (B.90) and (B.100)."""
    figure, grid = panels(3, 2, size=(4.7, 3.6))
    _where_composition_fails(figure, grid[0, 0], bend)
    _descent(grid[0, 1], measured)
    _literal_manifold(grid[0, 2])
    _implicit_rate(grid[1, 0])
    _enclosure(grid[1, 1], measured)
    _cubes(grid[1, 2])
    return figure


def _where_composition_fails(figure: Figure, axes: Axes, bend: float) -> None:
    """The margin of q(p) at 0 for p = x + b x² + c x³ and q likewise, with c such that both have margin 0.1."""
    b = np.linspace(-1, 1, 201)
    inner, outer = np.meshgrid(b, b)
    total = 0.1 + 0.1 + 36 * inner * outer
    image = axes.pcolormesh(b, b, total, cmap="RdBu", vmin=-30, vmax=30, shading="nearest", rasterized=True)
    figure.colorbar(image, ax=axes, label="margin of q(p)")
    axes.plot([-bend], [0.5], "*", color="black", markersize=12)
    for x, y, text in ((-0.5, -0.5, "holds"), (0.5, 0.5, "holds"), (0.5, -0.5, "fails"), (-0.5, 0.65, "fails")):
        axes.text(x, y, f"q(p) {text}", ha="center", va="center", fontsize=9, color=INK)
    axes.set(xlabel="bend of p, p''/2", ylabel="bend of q, q''/2", title="Prop. 2: p and q each have margin 0.1")
    axes.grid(visible=False)


def _descent(axes: Axes, measured: xr.Dataset) -> None:
    styles = ("-", "-", "-", (0, (4, 3)))
    for color, style, name in zip(settings_colors(4), styles, measured.loss.values, strict=True):
        path = measured.away.sel(loss=name)
        axes.plot(path.step, path.where(path < 1e2), color=color, linestyle=style, label=name)
    axes.set(yscale="log", ylim=(3e-4, 3e2), xlabel="step", ylabel="distance from the minimum",
             title="Descent, 0.2 % above the threshold")  # fmt: skip
    axes.legend(loc="upper left", ncols=2, fontsize=8)


def _literal_manifold(axes: Axes) -> None:
    x, edge = np.linspace(0.35, 2, 200), 1 / np.sqrt(2)
    axes.plot(x, 1 / x, color=FAINT, label="minima")
    axes.plot([0.05, edge], [0.05, edge], color=PALETTE[0], linewidth=4, alpha=0.8,
              label="∇L · u = 0, λ = 1 - x² < 2/η")  # fmt: skip
    axes.annotate("", (0.5 + 0.2, 0.5 - 0.2), (0.5, 0.5), arrowprops={"arrowstyle": "->", "color": INK})
    axes.annotate("", (0.5 + 0.25, 0.5 + 0.25), (0.5, 0.5), arrowprops={"arrowstyle": "->", "color": PALETTE[1]})
    axes.text(0.73, 0.26, "u, top eigenvector", fontsize=8)
    axes.text(0.78, 0.72, "-∇L", fontsize=8, color=PALETTE[1])
    axes.plot([0.5], [0.5], "o", color=INK, markersize=5)
    axes.set(xlabel="x", ylabel="y", xlim=(0, 2), ylim=(0, 2), title="Props. 5, 6: points of M for η > 1")
    axes.legend(loc="upper right")


def _implicit_rate(axes: Axes) -> None:
    K = np.linspace(1.001, 1.9, 300)
    high = quartic_orbit.normalized_orbit(jnp.asarray(K)).high
    axes.plot(K, np.asarray(quartic_orbit.implicit_rate(1.0, high)), color=PALETTE[1], label="(3.4) at d₂")
    axes.plot(K, K, **THEORY, label="closed form: all K > 1")
    axes.axvline(quartic_orbit.IMPLICIT_LIMIT, color=FAINT, linewidth=0.8)
    axes.set(xlabel="η μ", ylabel="rate given back", title="(B.17): the orbit does not end at 1.5")
    axes.legend(loc="upper left")


def _enclosure(axes: Axes, measured: xr.Dataset) -> None:
    counts, _, _ = axes.hist(measured.height, bins=60, color=PALETTE[1], alpha=0.6)
    axes.set_ylim(0, 1.3 * np.max(counts))
    printed, valid = propagate(I8, "printed").height, propagate(I8, "valid").height
    axes.axvline(printed, color=PALETTE[0], linewidth=1.6, label=f"printed bound, {printed:.3f}")
    axes.axvline(valid, **THEORY, label=f"valid bound, {valid:.3f}")
    axes.set(xlabel="wy after a step from box I8", ylabel="random states", title="(B.90): not an enclosure", yticks=[])
    axes.legend(loc="upper left")


def _cubes(axes: Axes) -> None:
    for color, x in zip(settings_colors(4), ARGUMENTS[[10, 20, 27, 35]], strict=True):
        axes.plot(RATIOS, angle_ratio(RATIOS, x) / RATIOS**3, color=color, label=f"x = {x:.2g}")
    axes.axhline(1, **THEORY, label="printed: never above")
    axes.axvline(1, color=FAINT, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="m", ylabel="ratio over m³", title="(B.100): only for m ≥ 1")
    axes.legend(loc="upper right")
