"""Printed statements on linearity, quadratic models and catapults that are refuted by numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from pydantic import Field

from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, erratum
from dynascope.lab.criteria import above, agrees, below, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.catapult import errata as chapters_3_and_4, quadratic_model
from dynascope.theory.catapult.gated_network import one_example
from dynascope.theory.linearity import errata as chapter_2

RATES = np.geomspace(1e-3, 1, 13)
RIGHT, WRONG = PALETTE[1], PALETTE[0]
EXACT = 1e-7
"""The corrected form is exact if its error is below this share of the printed one's."""
COUNTER_EXAMPLES = {**chapters_3_and_4.COUNTER_EXAMPLES, **chapter_2.COUNTER_EXAMPLES}
AGAINST = "error of the corrected form over that of the printed one"


class Errata(Experiment):
    """Which statements on linearity, quadratic models and catapults do not hold as printed?"""

    id = "catapult.errata"
    source = Source(OVER_PARAMETERIZED, "Chapters 2 to 4, Appendices A to C")
    cost = {"quick": 5, "full": 6}
    presets = {"quick": {"width": 1000}}
    control = {"curvature": 0.0}
    notes = """The main results stand: three regimes of the quadratic model, its thresholds, its stable equilibria, the
    bounds on the Hessian. One recursion and some constants and signs do not hold. Slips that change no number (indices,
    cross references, captions that name panels which do not exist) are not listed; for results that did not
    reproduce, see the other experiments. Appendix C.6 does not state how biases start; the rates it prints fit
    networks without
    biases best (the critical rate of its rank-2 data is about 6 without, 0.5 with N(0, 1) biases). The control takes
    the curvature out of the random model, whose kernel is then constant: (3.16) holds there."""

    defaults = {"precision": "float64"}

    curvature: float = 1.0
    """Curvature of the random quadratic model on which (3.16) is tried."""
    width: int = Field(2000, ge=100)
    """Width of the run just above the critical rate that is drawn."""

    def measure(self, seed: int) -> xr.DataTree:
        """A node for each counter-example; `recursion`: errors of (3.16) by rate; `above`: the run that is drawn."""
        recursions = [chapters_3_and_4.kernel_recursion(rate=float(rate), curvature=self.curvature) for rate in RATES]
        losses, kernels, _ = one_example(self.width, 2.05, 250)
        nodes: dict[str, Any] = {name: find() for name, find in COUNTER_EXAMPLES.items()}
        nodes["kernel-recursion"] = chapters_3_and_4.kernel_recursion(curvature=self.curvature)
        nodes["recursion"] = {
            name: ("rate", [found[name] for found in recursions]) for name in ("printed", "corrected")
        } | {"rate": RATES}
        nodes["above"] = {"loss": ("step", losses / losses[0]), "kernel": ("step", kernels / kernels[0])}
        return xr.DataTree.from_dict({name: xr.Dataset(numbers) for name, numbers in nodes.items()})

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.DataTree:
        return measured

    def judge(self, reduced: xr.DataTree) -> Claims:
        yield from self._judge_statements(reduced)
        yield from self._judge_proofs(reduced)
        yield from self._judge_misprints(reduced)

    def _judge_statements(self, reduced: xr.DataTree) -> Claims:
        def error(counter: Claim, printed: str, at: str) -> Claim:
            return erratum(counter, kind="error", printed=printed, at=at)

        one = reduced["kernel-recursion"]
        statement = f"K' = K - η(GJᵀ + JGᵀ) + η²GGᵀ; the printed one is not even symmetric: {AGAINST}"
        shown = {"printed": one.printed, "asymmetry": one.asymmetry}
        counter = below("kernel-recursion", statement, one.corrected / one.printed, EXACT, shown=shown)
        yield error(counter, "K(t+1) = K(t) - ¼ η (4 G(t) ∇f_quad(t)ᵀ - η G(t) G(t)ᵀ)", "(3.16)")
        one = reduced["falling-kernel"]
        statement = "It takes u > 16 C²/(m (4 - v)²): at twice the printed threshold v rises, by"
        shown = {"printed threshold": one.printed, "corrected": one.corrected}
        counter = above("falling-kernel", statement, one.change, 0, shown=shown)
        yield error(counter, "if u(t) > 4C/(m(4-v(t))²), then v(t+1) < v(t)", "Proposition B.5.2")
        one = reduced["slightly-above"]
        statement = "The loss rises first: its highest value over the first, at ηλ₀ = 2.05"
        counter = above("slightly-above", statement, one.peak, 1.5, shown={"last kernel / first": one.last_kernel})
        printed = "for constant learning rate that is slightly larger than η_crit …, R_λ(t) stays positive during "
        printed += "training, resulting in both monotonic decrease of tangent kernel λ and the loss"
        yield error(counter, printed, "Section 3.3, after (3.12)")
        statement = "Only at an excess of order 1/m (ηλ₀ = 2.0005 at m = 2000) does the loss stay below its start, "
        statement += "from a part of the random starts"
        yield within("barely-above", statement, one.never_above, 0.25, 0.75, source="Section 3.3", seeds=100)
        one = reduced["mean-gradient"]
        statement = "The mean need not be so large, its root mean square is: E|∇f| of chains with the identity, one "
        statement += "layer and six, where the bound is 1 (the proof takes E|·|² for (E|·|)²)"
        shown = {"ReLU, six layers, at most": one.relu, "its bound": one.relu_bound}
        means = np.array([one.one_layer.item(), one.identity.item() + 4 * one.identity_error.item()])
        counter = below("mean-gradient", statement, means, 1, shown=shown)
        yield error(counter, "E[‖∇_w f_k(w_0)‖] ≥ √min(1, min_j C_σ^(Σ r^ℓ')) = Ω(1)", "Proposition 2.4.4, (2.18)")
        one = reduced["units-of-rates"]
        statement = "These are n/λ, of the mean squared error: 2/λ of such data, both directions"
        shown = {"n/λ": [one.first_of_mean.item(), one.second_of_mean.item()]}
        rates = np.array([one.first.item(), one.second.item()])
        counter = below("units-of-rates", statement, rates, 0.02, shown=shown)
        printed = "two critical values are 2/λ_1(0) = 0.37 and 2/λ_2(0) = 0.39"
        yield erratum(counter, kind="misprint", printed=printed, at="Figures 3.3 and B.1")

    def _judge_proofs(self, reduced: xr.DataTree) -> Claims:
        def gap(counter: Claim, printed: str, at: str) -> Claim:
            return erratum(counter, kind="gap", printed=printed, at=at)

        one = reduced["turning-point"]
        statement = "It is no equilibrium, since the output goes from -y to 3y; and u is 4 C²/m: the output after, "
        statement += "over y, and u m/C²"
        found = np.array([one.after.item(), one.height.item()])
        counter = agrees("turning-point", statement, found, np.array([3.0, 4.0]), absolute=0.1, shown={"found": found})
        yield gap(counter, "yields u* ∈ (4/3 C²/m, 2 C²/m)", "proof of Theorem 3.3.4, case (2.1)")
        one = reduced["missed-point"]
        statement = "u = 4, v = 4 + w is one too, unstable, so that the theorem stands: how far a step moves it"
        shown = {"multipliers": [one.smaller.item(), one.larger.item()]}
        counter = below("missed-point", statement, one.moved, 1e-8, shown=shown)
        yield gap(counter, "there are only two possible cases", "proof of Theorem 3.3.4")
        one = reduced["direction-expansion"]
        statement = "The factor |p_1|² is missing, and <r, p><y, p>/|p|² stands in the place of <r ∘ m, y ∘ m>: "
        statement += f"exactly one example with |x|² → |p_1|², d → 1: {AGAINST}"
        errors = [
            abs(one[name].item() / one.weights.item() - 1) for name in ("printed_unit", "printed_whole", "corrected")
        ]
        shown = {name: one[name] for name in ("weights", "printed_unit", "printed_whole")}
        counter = below("direction-expansion", statement, errors[2] / min(errors[:2]), EXACT, shown=shown)
        yield gap(counter, "p_1ᵀ R_K p_1 = 2η/m Π_1 L (ηλ_1 - 4) - 4η/m <(g - y) ∘ m_+, y ∘ m_+>", "Appendix B.12")
        one = reduced["without-linear-term"]
        statement = f"γ² in both, and ηγ² in the second: γ² plays 1/m: {AGAINST}"
        printed = min(one.printed_output.item(), one.printed_kernel.item())
        counter = below("without-linear-term", statement, one.corrected / printed, EXACT)
        printed = "g(t+1) = (1 - ηλ + γη²‖x‖²g²) g, λ(t+1) = λ - γ‖x‖²g²(4 - ηλ)"
        yield gap(counter, printed, "proof of Proposition B.13.1")
        statement = (
            "The proposition stands: from random starts between 2/λ(0) and 4/λ(0) the loss rises above its start "
        )
        statement += "and comes back below it, with a kernel below 2/η"
        statement += ": first over highest output, last over first, and ηλ/2 at the end"
        one = reduced["pure-catapults"]
        found = np.array([1 / one.peak.item(), one.end.item(), one["product"].item() / 2])
        yield below("pure-catapults", statement, found, 1, source="Proposition B.13.1", seeds=5)
        statement = "|w(0)| is of order 1/m: its exponent over random starts"
        counter = agrees("start-of-w", statement, reduced["start-of-w"].slope, -1.0, absolute=0.1)
        yield gap(counter, "we have |w(0)| ≤ C_u C/m^(3/2)", "proofs of Theorem B.3.1 and Lemma 3.3.2")

    def _judge_misprints(self, reduced: xr.DataTree) -> Claims:
        def misprint(counter: Claim, printed: str, at: str) -> Claim:
            return erratum(counter, kind="misprint", printed=printed, at=at)

        one = reduced["kernel-weights"]
        statement = f"Each term is divided by |p_i|²: {AGAINST}"
        counter = below("kernel-weights", statement, one.corrected / one.printed, EXACT)
        yield misprint(counter, "K = λ_1 p_1 p_1ᵀ + λ_2 p_2 p_2ᵀ", "proof of Proposition B.11.1")
        one = reduced["remainder-sign"]
        statement = "R_λ is subtracted, and negative where the kernel grows: its largest value at ηλ₀ = 4.4"
        counter = below("remainder-sign", statement, one.largest, 0)
        yield misprint(counter, "note that R_λ(t) > 0 since … η > 4/λ(t)", "Section 3.3, Divergence")
        one = reduced["after-catapult"]
        statement = "η < 2/λ_1 and η < 2/λ_2 are meant, and |1 - ηλ_i| < 1 along p_1 and p_2 (of the whole space ‖I - "
        statement += "ηK‖ is 1, since K has rank 2): ηλ after a catapult"
        products = np.array([one.first.item(), one.second.item()])
        counter = below("after-catapult", statement, products, 2, shown={"‖I - ηK‖": one.norm})
        printed = "we generally have η > 2/λ_1 and η > 2/λ_2; ‖I - ηK(t)‖ < 2, hence ‖g(t) - y‖ decreases exponentially"
        yield misprint(counter, printed, "Appendix B.11, after the catapult and at sub-critical rates")
        one = reduced["half-of-curvature"]
        statement = f"Half of it: {AGAINST}"
        counter = below("half-of-curvature", statement, one.corrected / one.printed, EXACT)
        yield misprint(counter, "Δ_H := <w^(t+1) - w^t, ∇²f(ξ)(w^(t+1) - w^t)>", "(4.3)")
        one = reduced["series-radius"]
        statement = "t + R √ν, as in its proof: the probability of more than t + Rν over the one allowed"
        shown = {"of more than t + R √ν": one.corrected / one.allowed}
        counter = above("series-radius", statement, one.printed / one.allowed, 1, shown=shown)
        yield misprint(counter, "‖Z‖ ≤ t + Rν", "Lemma A.11.8, (A.30)")
        one = reduced["derivative-too-high"]
        statement = "σ and σ' are Lipschitz: the proofs use |σ'| ≤ γ_1, and z² has a derivative of more times γ_1"
        counter = above("smoothness-assumption", statement, one.derivative / one.lipschitz, 1)
        yield misprint(counter, "|σ'(z_1) - σ'(z_2)| ≤ γ_1 |z_1 - z_2|", "Assumption 2.3.2")
        one = reduced["removal-scale"]
        statement = "By the in-degree left, as (2.2) has it (a constant factor): the variance of a neuron that lost "
        statement += "half of its edges"
        counter = agrees(
            "removal-scale", statement, one.old, 0.5, absolute=0.02, shown={"by the degree left": one.left}
        )
        yield misprint(counter, "1/√in(v) Σ w_(u,v) f_u · 1{ξ_(u,v) ≥ p}", "Appendix A.1, randomly dropped edges")

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.DataTree) -> Figures:
        figure, grid = panels(2, 2, size=(5.2, 3.5))
        _recursion(grid[0, 0], reduced["recursion"].to_dataset())
        _falling(grid[0, 1])
        _slightly_above(grid[1, 0], reduced["above"].to_dataset())
        _directions(grid[1, 1], reduced["direction-expansion"].to_dataset())
        return {"errata": figure}


def _recursion(axes: Axes, errors: xr.Dataset) -> None:
    for name, color in (("printed", WRONG), ("corrected", RIGHT)):
        axes.loglog(errors.rate, np.maximum(errors[name], 1e-18), "o-", color=color, label=name)
    axes.set(xlabel="learning rate", ylabel="error of K after a step", title="(3.16): the kernel's recursion")
    axes.legend(loc="center right")


def _falling(axes: Axes) -> None:
    u, size, v, width = np.linspace(1e-6, 8e-4, 200), 1.3, 3.2, 1e5
    state = quadratic_model.Normalized(jnp.asarray(u), -size * jnp.sqrt(jnp.asarray(u) / width), jnp.full(200, v))
    axes.plot(u, np.asarray(quadratic_model.normalized_step(state).v) - v, color=PALETTE[2], label="v' - v")
    axes.axhline(0, color=FAINT, linewidth=0.8)
    numbers = chapters_3_and_4.falling_kernel(size, v, width)
    axes.axvline(numbers["printed"], color=WRONG, label="printed threshold")
    axes.axvline(numbers["corrected"], color=RIGHT, label="corrected")
    axes.set(xlabel="u", ylabel="change of v = ηλ in a step", title="Prop. B.5.2: when the kernel falls")
    axes.ticklabel_format(scilimits=(-2, 3))
    axes.legend(loc="upper right")


def _slightly_above(axes: Axes, run: xr.Dataset) -> None:
    for name, color in (("loss", WRONG), ("kernel", RIGHT)):
        axes.plot(run.step, run[name], color=color, label=name)
    axes.axhline(1, **THEORY)
    title = "Sec. 3.3, ηλ₀ = 2.05: the loss does rise first"
    axes.set(xlabel="step", ylabel="over the first value", title=title, xlim=(0, 120))
    axes.legend(loc="upper right")


def _directions(axes: Axes, found: xr.Dataset) -> None:
    names = ("weights", "corrected", "printed_unit", "printed_whole")
    axes.barh(range(4), [found[name].item() for name in names], color=[FAINT, RIGHT, WRONG, WRONG])
    axes.set_yticks(range(4), ["in weights", "corrected", "printed, |p| = 1", "printed, p = x₊"])
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=5)
    axes.set(xlabel="change of λ₁ in the first step", title="App. B.12: one direction of many examples")
