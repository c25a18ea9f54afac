"""Statements of Chapter 3 and Appendix B that do not hold as printed, each with a counter-example."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge import example_losses, rate_scans
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import INK, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.claims import claim, erratum
from dynascope.lab.criteria import above, agrees, below, every, within
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.scalar_losses import BASE_MODELS, compose, power_series, squared_loss
from dynascope.tasks.single_neuron import reduced_step
from dynascope.theory.edge.errata import COUNTER_OUTER, SLOPE, every_counter_example
from dynascope.theory.edge.neuron_intervals import I4


class Errata(EdgeExperiment):
    """Which statements on the edge of stability do not hold as printed?"""

    id = "edge.errata"
    source = Source(SIMPLE_STRUCTURES, "Proposition 2, Propositions 5 and 6, Observations 1 and 5, Appendix B")
    cost = {"quick": 10, "full": 7}
    presets = {"quick": {"states": 20_000}}
    control = {"bend": -0.5}
    notes = """The main results of the document stand. Proposition 2 (compositions inherit the condition) does not, the
    enclosures of Appendix B.9 have a gap, and two remarks on factorization are too broad; the rest are misprints. Slips
    that change no number (indices, cross references, mixed symbols) are not listed. The control bends p the other way,
    so that q' q'' p'' > 0: there Proposition 2 holds, and there is no counter-example."""

    bend: float = 0.5
    """p = x - bend x² + 59 x³/60; its margin at 0 is 0.1 for ± 1/2, and so is that of q = y + y²/2 + 59 y³/60."""
    states: PositiveInt = 100_000
    """Random states of the neuron in a box of Appendix B.9."""
    steps: PositiveInt = 2000

    def measure(self, seed: int) -> xr.Dataset:
        inner = power_series((0.0, 1.0, -self.bend, SLOPE))
        exp, log = (BASE_MODELS[name].function for name in ("exp", "log"))
        losses = {
            "(q(p(x)))²": squared_loss(compose(COUNTER_OUTER, inner), 0.0),
            "(log(exp x) - y)²": squared_loss(compose(log, exp), 0.5),
            "(exp x - y)²": squared_loss(exp, 0.5),
            "(log x - y)²": squared_loss(log, float(np.exp(0.5))),
        }
        family = example_losses.LossFamily(losses)
        thresholds, minima = family.each(lambda loss: loss.threshold), family.each(lambda loss: loss.minimum)
        runs = rate_scans.run_at_rates(
            lambda x, factor: family.step(x, factor * thresholds), minima + 1e-3, [1.002], self.steps, record=4
        )
        return xr.Dataset(
            {
                **every_counter_example(seed, self.bend),
                "away": (("step", "loss"), np.abs(runs.state.values[0] - minima)),
                "height": ("state", self._heights(seed)),
            },
            {"step": runs.step.values, "loss": list(losses)},
        )

    def _heights(self, seed: int) -> np.ndarray:
        """wy after one step from random states of box I4 at its full height, for K in (1, 1.1]."""
        rng = np.random.default_rng(seed)
        product = rng.uniform(I4.product_low, I4.product_high, self.states)
        gap = rng.uniform(I4.gap_low, I4.gap_high, self.states)
        mean, K = np.sqrt(product + gap**2 / 4), rng.uniform(1.0, 1.1, self.states)
        state = {"v": mean + gap / 2, "wx": mean - gap / 2, "wy": np.full(self.states, I4.height)}
        return np.asarray(reduced_step({name: jnp.asarray(value) for name, value in state.items()}, K)["wy"])

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        numbers = measured.drop_dims(("step", "state"))
        beyond = (measured.height > measured.height_printed).mean()
        return numbers.assign(away=measured.away[-1].fillna(np.inf), height=measured.height.max(), beyond=beyond)

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield from self._judge_statements(reduced)
        yield from self._judge_proofs(reduced)
        yield from self._judge_misprints(reduced)

    def _judge_statements(self, reduced: xr.Dataset) -> Claims:
        margins = [reduced[f"{name}_margin"].item() for name in ("inner", "outer", "composite")]
        statement = "Where p and q have positive margins 6 g''² - g' g''', q(p) may have a negative one"
        found = {"p": margins[0], "q": margins[1], "q(p)": margins[2]}
        holds, expected = min(margins[:2]) > 0 > margins[2], "p > 0, q > 0, q(p) < 0"
        counter = claim("composition", statement, measured=found, expected=expected, holds=holds)
        printed = "Assume both p(x), q(y) … satisfies the conditions of g in Prop 1. Then q(p(x)) also satisfies"
        yield erratum(counter, kind="error", printed=printed, at="Proposition 2")
        statement = "At 1.002 × 2/f'' gradient descent stays near the minima of (exp x - y)² and (log x - y)², and "
        statement += "leaves those of the composites, (log(exp x) - y)² and (q(p(x)))²"
        composite, part = reduced.away.values[:2], reduced.away.values[2:]
        leaves = np.concatenate([composite > 0.5, part < 0.5])
        distances = {"composites": composite, "exp, log": part}
        yield every("composition-descent", statement, leaves, source="Proposition 2", shown=distances)
        statement = "On the low phase |uᵀY| = |uᵀZ|, but σ_max(Z) may belong to the bulk: σ_max(Z)/σ_max(Y) - 1"
        apart, lead = reduced.phase_Z_norm / reduced.phase_Y_norm - 1, reduced.phase_Z / reduced.phase_Y - 1
        counter = above("largest-singular-values", statement, apart, 0.01, shown={"|uᵀZ|/|uᵀY| - 1": lead})
        printed = "Note that the top singular values of Y, Z are always the same in the orbit"
        yield erratum(counter, kind="error", printed=printed, at="Remark 4")
        statement = "A share of generic starts stays bounded at (η σ₁², η σ₂²) = (1.1, 1.02)"
        others = {"at (1.2, 0.95)": reduced.share_beyond_line, "at (1.2, 0.6)": reduced.share_within_line}
        counter = above("second-eigenvalue", statement, reduced.share_beyond_one, 0.1, shown=others)
        printed = "our experiments in Figure 3.2 have shown that GD will blow up once η σ_2 > 1"
        yield erratum(counter, kind="error", printed=printed, at="Section 3.6.2 (η σ_2² is meant)")

    def _judge_proofs(self, reduced: xr.Dataset) -> Claims:
        statement = "(B.90) needs the inverse of its ratio: the largest wy after a step from random states of box I4 "
        statement += "lies between the printed and the valid bound (Theorem 3.5 stands every test)"
        bounds = reduced.height_printed.item(), reduced.height_valid.item()
        share = {"share of states above the printed bound": reduced.beyond}
        counter = within("height-enclosure", statement, reduced.height, *bounds, shown=share, seeds=self.states)
        printed = "I_4 mapps to I_8 = {w_y ≤ 0.214, v - w_x ∈ [-0.309, 0.0545], vw_x ∈ [0.942, 1.25786]}"
        yield erratum(counter, kind="gap", printed=printed, at="Appendix B.9, (B.90)")
        statement = "The ratio is at most m³ for m ≥ 1, where it is used, and above m³ for m < 1: least ratio over m³"
        largest = {"largest, m ≥ 1": reduced.cube_from_one}
        counter = above("cube-bound", statement, reduced.cube_below_one, 1.0, shown=largest)
        printed = "(arctan(mx) - mx/(1 + m²x²))/(arctan(x) - x/(1 + x²)) ≤ m³, for any m > 0, x > 0"
        yield erratum(counter, kind="gap", printed=printed, at="(B.100)")
        statement = "(B.17) is the limit of the branch (3.4), not of existence: |F(F(x)) - x| of the orbit at K = 1.55"
        branch = {"K by (3.4)": reduced.branch_K}
        counter = below("existence-limit", statement, reduced.orbit_moves, 1e-9, shown=branch)
        printed = "One necessary condition for existence is μ ≥ ¾x_0² … and achieve the upper bound as ημ ≤ 3/2"
        yield erratum(counter, kind="gap", printed=printed, at="Appendix B.6, (B.17)")

    def _judge_misprints(self, reduced: xr.Dataset) -> Claims:
        statement = "So it is among minimizers. As defined, M and M_c also contain x = y < 1/√2: the loss at (½, ½)"
        numbers = {"λ": reduced.manifold_sharpness, "2/η": reduced.manifold_limit}
        counter = above("literal-manifold", statement, reduced.manifold_loss, 0.0, shown=numbers)
        printed = "For L(x, y) = 1/2(xy - 1)² with η > 1 on {x > 0, y > 0}, such a manifold M does not exist"
        yield erratum(counter, kind="misprint", printed=printed, at="Propositions 5 and 6, Definition 4")
        statement = "√4.5 - 2 is meant, since η = 1/σ₁² + β: at β σ₁² = 1.1 the multiplier of the orbit is below -1"
        counter = below("observation-range", statement, reduced.multiplier_at_21, -1.0)
        printed = "Assume 0 < β σ_1² < √4.5 - 1 ≈ 1.121"
        yield erratum(counter, kind="misprint", printed=printed, at="Observation 5")
        statement = "The limit is σ₁ρ_i, as in Observation 2: two steps move ρ₁, not σ₁ρ₁"
        right = {"σ₁ρ₁ moves by": reduced.scaled_rho_moves}
        counter = above("missing-scale", statement, reduced.rho_moves, 1.0, shown=right)
        yield erratum(counter, kind="misprint", printed="Y = ρ_i uvᵀ + …", at="Observation 1, Remark 4")
        statement = "It is +2/x³, and the corollary holds: g''' x³/2 at x = 0.7"
        counter = agrees("log-derivative", statement, reduced.log_third, 1.0, absolute=1e-6)
        yield erratum(counter, kind="misprint", printed="g^(3)(x̄) = -2/x̄³", at="Corollary 7, proof")
        statement = "The printed expression is ½; with μ + 1/(2η), the bound derived above it, it is 3/2"
        meant = {"with μ + 1/(2η)": reduced.half_step_meant}
        counter = agrees("half-step", statement, reduced.half_step_printed, 0.5, absolute=1e-9, shown=meant)
        yield erratum(counter, kind="misprint", printed="1 - η(μ - (μ - 1/(2η))) = 3/2", at="(B.41)")
        statement = "The bracket is to be squared: at wy = 0.1 the printed growth is smaller, the squared one is not"
        squared = {"squared": reduced.growth_squared}
        counter = below("missing-square", statement, reduced.growth_printed, 3.28, shown=squared)
        printed = "v^(t+1) w_x^(t+1) ≥ v^(t) w_x^(t) (1 - 0.181 + 1 - … - 1.1w_y²) ≥ 3.28 v^(t) w_x^(t)"
        yield erratum(counter, kind="misprint", printed=printed, at="(B.125), (B.126)")
        statement = "This always holds; η(σ₁²α² + σ_p²/α²) < 2 is meant. An eigenvalue that satisfies the printed one"
        counter = below("spectral-condition", statement, reduced.spectral_eigenvalue, -1.0)
        printed = "and 1 - η σ_1² α² - η σ_p²/α² < 2"
        yield erratum(counter, kind="misprint", printed=printed, at="Appendix B.10.2, (B.184)")
        statement = "Z begins with σ₁/α: the top entry of YZᵀ, over σ₁², with α = 0.8 as printed"
        meant = {"with σ₁/α": reduced.start_meant}
        counter = agrees("remark-start", statement, reduced.start_printed, 0.64, absolute=1e-9, shown=meant)
        printed = "Z = [α σ_1, 0; 0, diag([σ_i/α])] + O(ε)"
        yield erratum(counter, kind="misprint", printed=printed, at="Remark 4, Appendix B.10.2")

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, (where, descent, enclosure) = panels(3, size=(4.7, 3.6))
        _where_composition_fails(figure, where, self.bend)
        _descent(descent, measured)
        _enclosure(enclosure, measured)
        return {"errata": figure}


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
    axes.set(yscale="log", ylim=(3e-4, 3e2), title="Descent, 0.2 % above the threshold")
    axes.set(xlabel="step", ylabel="distance from the minimum")
    axes.legend(loc="upper left", ncols=2, fontsize=8)


def _enclosure(axes: Axes, measured: xr.Dataset) -> None:
    counts, _, _ = axes.hist(measured.height, bins=60, color=PALETTE[1], alpha=0.6)
    axes.set_ylim(0, 1.3 * np.max(counts))
    printed, valid = measured.height_printed.item(), measured.height_valid.item()
    axes.axvline(printed, color=PALETTE[0], linewidth=1.6, label=f"printed bound, {printed:.3f}")
    axes.axvline(valid, **THEORY, label=f"valid bound, {valid:.3f}")
    axes.set(xlabel="wy after a step from box I4", ylabel="random states", title="(B.90): not an enclosure", yticks=[])
    axes.legend(loc="upper left")
