"""Statements of Chapter 4 and Appendix C that do not hold as printed, each with a counter-example."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.recall import errata, phases
from dynascope.theory.recall.contexts import contexts
from dynascope.theory.recall.first_step import ENTRIES

TIMES = (1, 2, 5, 10, 20, 50, 100)
"""Lengths of contexts over the number of tokens."""


class RecallErrata(Experiment):
    """Which statements on association and in-context recall do not hold as printed?"""

    id = "recall.errata"
    source = Source(SIMPLE_STRUCTURES, "Theorem 4.2, Table C.1, Appendices C.3, C.4 and C.5")
    cost = {"quick": 6, "full": 8}
    presets = {"quick": {"tokens": 80}}
    control = {"previous": 0.0}
    notes = """All numbers are exact: moments of the chain behind the task, and population gradients, without sampling.
    In the end attention learns what the document states (recall.phases); only the first step goes the other way, since
    terms that are negligible one by one add up over the N tokens. In the control the values hold current tokens only,
    and the first step has the printed sign. Misprints without consequence for a number: the recursion of the noise
    logit has the new logit on its right side; (4.6) lacks the learning rate; both W_QK of Section 4.4.4.2 are
    transposed; Lemma C.10 has a stray 1 - alpha; the gradient in the proof of Lemma C.2 is called W_F."""

    defaults = {"precision": "float64"}

    tokens: Annotated[int, Field(ge=20, le=400)] = 160
    ratio: Annotated[int, Field(ge=2, le=100)] = 10
    """The length of a context over the number of tokens."""
    alpha: float = Field(0.3, gt=0, lt=0.38)
    previous: float = Field(1.0, ge=0, le=1)
    """The ratio beta_2/beta_1 of the values for previous tokens to those for current ones."""

    def measure(self, seed: int) -> xr.Dataset:
        size, length, alpha = self.tokens, self.ratio * self.tokens, self.alpha
        moments = contexts(size, length, alpha)
        step = phases.attention_step(moments, phases.diagonal_values(size, 1.0, self.previous), alpha)
        values = phases.value_step(moments, alpha)
        first = [errata.first_attention(size, many * size, alpha) for many in TIMES]
        alphas = np.array([0.1, 0.2, 0.3, 0.37])
        learned = [errata.attention_gaps(size, length, float(each)) for each in alphas]
        return xr.Dataset(
            {
                "diagonal_gap": size**2 * phases.gaps(step).noise,
                "learned_gap": ("alpha", [each["noise"] for each in learned]),
                "trigger_gap": ("alpha", [each["trigger"] for each in learned]),
                "value": size**2 * values[2, 2],
                "first_noise": ("times", [each["noise"] for each in first]),
                "first_other": ("times", [each["other"] for each in first]),
                **{
                    f"{name}_variance": ("entry", ratio)
                    for name, ratio in errata.table_variances(size, length, alpha).items()
                },
                **{f"square_{name}": number for name, number in errata.trigger_counts(size, length, alpha).items()},
                **{f"memory_{name}": number for name, number in errata.printed_memory_rate(alpha).items()},
                **{f"rank_{name}": number for name, number in errata.rank_one_choice().items()},
                "alternating": errata.alternating_share(length + 1, size),
            },
            {"alpha": alphas, "times": list(TIMES), "entry": list(ENTRIES)},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """Limits for many tokens and long contexts."""
        diagonal = phases.diagonal_gap_limits(self.alpha, 1.0, self.previous)
        learned = [phases.gap_limits(float(alpha)) for alpha in measured.alpha.values]
        first = [phases.early_attention_limits(self.alpha, float(many)) for many in measured.times.values]
        return xr.Dataset(
            {
                "diagonal_gap": diagonal["noise"],
                "learned_gap": ("alpha", [each["noise"] for each in learned]),
                "first_other": ("times", [each["other"] for each in first]),
                "value": phases.value_limits(self.alpha)["diagonal"],
            },
            {"alpha": measured.alpha.values, "times": measured.times.values},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        limits = predicted.rename({name: f"{name}_limit" for name in predicted.data_vars})
        return xr.merge([measured, limits], join="exact", compat="equals")

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "With the values of the proof and beta_1 = beta_2, one step of W_QK attends more to noise after a "
        statement += (
            "trigger than to the target: the terms dropped as o(T/N) add up over the N tokens (N² times the gap)"
        )
        limits = {"limit": float(reduced.diagonal_gap_limit)}
        counter = below("noise-is-attended-first", statement, reduced.diagonal_gap, 0, shown=limits)
        printed = r"\xi_{q \to j} - \xi_{q \to N+1} = \Omega(N^{-4}) > 0, \quad \forall \ j \le N"
        yield erratum(counter, kind="error", printed=printed, at="Theorem 4.2, (4.4)")
        statement = "The same with the values that phase 2 makes, for every alpha (N⁴ times the gap)"
        counter = below("learned-values", statement, reduced.learned_gap, 0)
        yield erratum(counter, kind="error", printed=printed, at="Theorem 4.2, (4.4)")
        statement = "Both are on the way to their limits (relative difference)"
        off = [float(reduced.diagonal_gap / reduced.diagonal_gap_limit) - 1]
        off += list((reduced.learned_gap / reduced.learned_gap_limit).values - 1)
        yield below("gap-limits", statement, np.abs(off), 30 / self.tokens, source="Appendix C.4")
        statement = "(4.3) holds: after one step all that follows a trigger is attended to more (N³ times the gap)"
        yield above("triggers-are-attended", statement, reduced.trigger_gap, 0, source="Theorem 4.2, (4.3)")
        statement = "On tokens that are not noise the first step of W_QK is negative in contexts of T = N, because the "
        statement += "last token is a trigger; its sign is the printed one for T >> N only (N³ times it)"
        signs = [reduced.first_other.values[0] < 0, reduced.first_other.values[-1] > 0]
        counter = every("first-attention", statement, signs, shown={"by T/N": reduced.first_other})
        printed = r"\Theta(\frac{1}{N^{3}}), & \text{if } j \leq N."
        yield erratum(counter, kind="error", printed=printed, at="(C.19)")
        statement = "It tends to alpha³(1 - alpha) - alpha² (N/T)(1 + N/T)"
        first, limit = reduced.first_other.values, reduced.first_other_limit.values
        yield agrees("first-attention-limit", statement, first, limit, absolute=1 / self.tokens, source="(C.19)")
        statement = "The coefficient is (1 - alpha)² (N² times the entry)"
        counter = agrees(
            "value-coefficient", statement, reduced.value, float(reduced.value_limit), relative=5 / self.tokens
        )
        printed = r"\frac{1}{N^{2}}\mathbb{1}\{j=k\} + O\left(\frac{1}{N^{3}}\right), \forall j,k \leq N"
        yield erratum(counter, kind="misprint", printed=printed, at="(C.20)")
        statement = "2/alpha² should be 2/alpha (the exact second moment, over the corrected one)"
        ratios = {"over the printed one": float(reduced.square_exact / reduced.square_printed)}
        right = reduced.square_exact / reduced.square_corrected
        counter = agrees("trigger-counts", statement, right, 1, relative=10 / self.tokens, shown=ratios)
        printed = r"\frac{T}{\alpha N} \left(-1+\frac{2}{\alpha^2}\right) + \frac{T^2}{\alpha^2 N^2}"
        yield erratum(counter, kind="error", printed=printed, at="Lemma C.4, (C.9)")
        statement = "For j ≤ N the proof has 1/(N + 1) where its square belongs: the variances are upper bounds only, "
        statement += "so that the lemma stands (exact variances over printed ones)"
        below_print = reduced.printed_variance.isel(entry=slice(3, None))
        shown = {"over the corrected ones": reduced.corrected_variance.values.round(3).tolist()}
        counter = below("table-variances", statement, below_print, 0.95, shown=shown)
        printed = r"(2-\alpha)\left(\frac{1}{TN^2}+\frac{1}{N^3}\right)"
        yield erratum(counter, kind="gap", printed=printed, at="Table C.1")
        statement = "The context q, noise, q, noise, ... with the target as the label attains 1/2"
        counter = above("table-range", statement, reduced.alternating, 0.45)
        yield erratum(counter, kind="error", printed=r"\frac{1}{3}", at="Table C.1, range in the row ([N]\\{q}, N + 1)")
        statement = "(C.38) as printed tends to 1/(t e^a) = 3.6 (1 - alpha); the lemma's constant is that at alpha = "
        statement += "0.2 only. The rates of the theorem stand"
        shown = {"printed": float(reduced.memory_printed)}
        right = float(reduced.memory_right)
        counter = agrees("memory-constant", statement, reduced.memory_integrated, right, relative=1e-3, shown=shown)
        printed = r"a \to -\log(t) - \log(1 - \alpha)(4 - 2\alpha)"
        yield erratum(counter, kind="error", printed=printed, at="Proof of Theorem C.11, Lemma C.14")
        statement = "The second equation moves three times too fast, since the basis is not normalized: gradient flow "
        statement += "of the summed loss has 1/(t e^a) = 1.5 (1 - alpha)"
        counter = agrees("memory-flow", statement, reduced.memory_flow, 1.5 * (1 - self.alpha), relative=1e-3)
        printed = r"\dot{\beta}_{2} = -\gamma_{2} = \frac{3\exp(-2\beta_{2})}"
        yield erratum(counter, kind="error", printed=printed, at="(C.37)")
        statement = "The rank-1 model is the memory's where 2 beta_1 > 2 sqrt 3 |beta_2|, which holds at late times; "
        statement += "with beta_1 = 1 and beta_2 = 0.8 it is that of the noise (share of the memory in it)"
        counter = below("rank-one-choice", statement, reduced.rank_share, 1e-6)
        printed = r"For the rank-1 model (assuming $\beta_1 > \beta_2$)"
        yield erratum(counter, kind="gap", printed=printed, at="Proof of Theorem C.11")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (gaps, first, table) = panels(3)
        gaps.axhline(0, color=INK, linewidth=0.8)
        gaps.plot(reduced.alpha, reduced.learned_gap, "o-", color=PALETTE[0], label=f"exact, N = {self.tokens}")
        gaps.plot(reduced.alpha, reduced.learned_gap_limit, label="N → ∞", **THEORY)
        gaps.set(xlabel="noise level α", ylabel="N⁴ × gap", title="(4.4): target less noise, first step")
        gaps.legend()
        first.axhline(0, color=INK, linewidth=0.8)
        first.plot(reduced.times, reduced.first_other, "o-", color=PALETTE[1], label=f"exact, N = {self.tokens}")
        first.plot(reduced.times, reduced.first_other_limit, label="N → ∞", **THEORY)
        first.set(xscale="log", xlabel="T / N", ylabel="N³ × step on a token", title="(C.19): printed as positive")
        first.legend()
        place = np.arange(len(ENTRIES))
        table.axhline(1, color=INK, linewidth=0.8)
        table.bar(place - 0.2, reduced.corrected_variance, 0.4, color=PALETTE[1], label="over the corrected one")
        table.bar(place + 0.2, reduced.printed_variance, 0.4, color=PALETTE[2], label="over the printed one")
        table.set_xticks(place, list(ENTRIES), fontsize=8)
        table.set(xlabel="entry of Table C.1", title="Exact variance", ylim=(0, 1.45))
        table.legend(ncols=2, fontsize=8)
        return {"errata": figure}
