"""Appendix D under its own assumptions: paths from starts as small as they require, with every lemma checked at every
step."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, agrees, below, every, within
from dynascope.lab.experiment import Claims
from dynascope.theory.concept.assumptions import Constants, feasible_constants, share_after_repair, signal_difference
from dynascope.theory.concept.jacobian_paths import factor_path, jacobian_euler_path
from dynascope.theory.concept.lemmas import check_lemmas, diagonal_growth_times, exit_steps
from dynascope.theory.concept.published_figures import PUBLISHED_FIGURES

PRINTED, CORRECTED = "Cor. D.1", "Cor. D.1 with P^2"
FEASIBLE = {"a = (1, 10)": (1.0, 10.0), "a = (1, 4, 16)": (1.0, 4.0, 16.0)}
FIGURES = {
    figure.name: figure
    for figure in PUBLISHED_FIGURES
    if figure.name in ("5", "8, caption's setting", "9, caption's setting")
}


class LemmaPath(NamedTuple):
    """A path of `W`: strengths, the start over omega (on and off the diagonal), the integrator, the number of steps."""

    a: tuple[float, ...]
    on: float
    off: float
    integrator: str
    steps: int

    @property
    def name(self) -> str:
        return f"a={tuple(map(int, self.a))}, {self.on:g} on and {self.off:+g} off, {self.integrator}"

    def run(self) -> tuple[np.ndarray, Constants]:
        """`W` at every step, (step, row, column), and the constants that satisfy the assumptions."""
        constants = feasible_constants(np.asarray(self.a))
        dim, size = len(self.a), math.exp(constants.log_omega)
        shape = np.full((dim, dim), self.off) + (self.on - self.off) * np.eye(dim)
        a = jnp.asarray(self.a)
        if self.integrator == "factor_gd":
            U = jnp.asarray(math.sqrt(size) * np.linalg.cholesky(shape))
            return np.asarray(factor_path(U, a, constants.eta, self.steps)), constants
        return np.asarray(jacobian_euler_path(jnp.asarray(size * shape), a, constants.eta, self.steps)), constants


SMALL = tuple(
    LemmaPath((1.0, 4.0), 1.5, sign, integrator, 90_000)
    for sign in (1.0, -1.0)
    for integrator in ("jacobian_euler", "factor_gd")
)
LARGE = (
    LemmaPath((1.0, 10.0), 1.5, 1.0, "jacobian_euler", 204_503),
    LemmaPath((1.0, 10.0), 1.5, -1.0, "jacobian_euler", 204_503),
    LemmaPath((1.0, 4.0, 16.0), 1.5, 1.0, "factor_gd", 431_309),
)
SINGULAR = (
    LemmaPath((1.0, 10.0), 1.05, 1.0, "jacobian_euler", 150_000),
    LemmaPath((1.0, 10.0), 1.05, 1.0, "factor_gd", 200_000),
)


def measure_lemmas(paths: tuple[LemmaPath, ...]) -> xr.Dataset:
    """For every path and lemma the first step at which it is broken (-1: never) and the worst margin; the step at which
    each major leaves the initial phase and the earliest allowed one; and the distance of the last `W` from I."""
    rows: list[xr.Dataset] = []
    for path in paths:
        W, constants = path.run()
        a = np.asarray(path.a)
        # an entry of U U^T is a sum of d products: D.7 bounds it by numbers far below their rounding
        rounding = len(a) * 1e-14 if path.integrator == "factor_gd" else 0
        verdicts = check_lemmas(W, a, constants, rounding)
        table = {
            "broken_at": ("lemma", [-1 if each.first_violation is None else each.first_violation for each in verdicts]),
            "margin": ("lemma", [each.worst_margin for each in verdicts]),
            "exit": ("major", exit_steps(W, constants)),
            "earliest": ("major", diagonal_growth_times(W[0], a, constants)),
            "end": float(np.nan_to_num(np.abs(W[-1] - np.eye(len(a))).max(), nan=np.inf, posinf=np.inf)),
        }
        rows.append(xr.Dataset(table, {"lemma": [each.lemma for each in verdicts], "major": np.arange(len(a))}))
    names = xr.DataArray([path.name for path in paths], dims="path", name="path")
    return xr.concat(rows, names, join="outer")


def reduce_assumptions() -> xr.Dataset:
    """The constants that Assumptions D.1 to D.5 allow for some strengths, and how far the figures are from D.5."""
    constants = [feasible_constants(np.asarray(a)) for a in FEASIBLE.values()]
    gaps = [
        signal_difference(figure.a, np.asarray(figure.start) @ np.transpose(figure.start))
        for figure in FIGURES.values()
    ]
    strengths = [np.sort(figure.a)[-figure.concepts :] for figure in FIGURES.values()]
    table = {
        "log_P": ("strengths", [each.log_P for each in constants]),
        "log_omega": ("strengths", [each.log_omega for each in constants]),
        "eta": ("strengths", [each.eta for each in constants]),
        "left": ("figure", [gap.lhs for gap in gaps]),
        "right": ("figure", [gap.rhs for gap in gaps]),
        "ratio": ("figure", [float(np.min(a[1:] / a[:-1])) for a in strengths]),
        "repaired": share_after_repair(),
    }
    return xr.Dataset(table, {"strengths": list(FEASIBLE), "figure": list(FIGURES)})


def judge_lemmas(reduced: xr.Dataset) -> Claims:
    """The lemmas, and the errata in them."""
    singular = [path.name for path in SINGULAR]
    regular, broken = reduced.drop_sel(path=singular), reduced.broken_at.sel(path=singular)
    paths = regular.sizes["path"]
    statement = "Lemmas D.1 to D.8, Corollary D.2 and the times in the proof of D.8 hold at every step of every path"
    right, margin = (regular[name].drop_sel(lemma=[PRINTED, CORRECTED]) for name in ("broken_at", "margin"))
    shown = {"worst margin": margin.min("path")}
    yield every("lemmas", statement, right == -1, shown=shown, seeds=paths, source="Appendix D")
    statement = "Each major leaves the initial phase between T_1^(i) and κ² T_1^(i): its step over T_1^(i)"
    late = (regular.exit / regular.earliest).values[regular.earliest.notnull().values]
    kappa = feasible_constants(np.array([1.0, 4.0])).kappa
    yield within("exit-times", statement, late, 1, round(kappa**2, 4), source="Lemma D.3", seeds=paths)
    first, squared = (regular.broken_at.sel(lemma=name) for name in (PRINTED, CORRECTED))
    statement = "Corollary D.1 lacks a factor P: |N_ij| exceeds the bound on every path; the bound that follows from "
    statement += "Assertion D.1, with P², holds"
    shown, broken_once = {"first broken at step": first}, (first >= 0) & (squared == -1)
    false = every("corollary-d1", statement, broken_once, shown=shown, seeds=paths)
    printed = "For all t ∈ N and all i, j, |N_{i,j}(t)| ≤ 2Pγαdβ²ω²"
    yield erratum(false, kind="error", printed=printed, at="Corollary D.1")
    statement = "A nearly singular start, W(0) = ω [[1.05, 1], [1, 1.05]], breaks the lemma for the weak major: its "
    statement += "noise is as large as its growth when the strong one saturates (first step)"
    at, known = broken.sel(lemma="D.3"), np.array([13843, 13993])
    false = agrees("near-singular-start", statement, at, known, absolute=5, shown={"D.3 broken at": at.values})
    printed = "for all t ∈ [T_1^(i)], at timepoint t the entry (i, i) is in the initial phase, and [it] satisfies"
    yield erratum(false, kind="error", printed=printed, at="Lemma D.3")
    statement = "The system (D.1) is not gradient descent on U and does not keep W PSD: from that start it drives w_11 "
    statement += "below 0 and diverges, where gradient descent ends at W = I (1/|W - I| and |W - I|)"
    euler, factor = reduced.end.sel(path=singular).values
    apart = np.array([1 / euler, factor])
    shown = {"|W - I| at the end": [euler, factor], "D.5 broken at": broken.sel(lemma="D.5").values}
    false = below("recursion-diverges", statement, apart, 1e-6, shown=shown)
    printed = "0 ≤ w_{i,i}(t) ≤ 1 + 2K^{-1} [...] since W(t) is PSD"
    yield erratum(false, kind="error", printed=printed, at="Lemma D.5 and its proof")


def judge_assumptions(reduced: xr.Dataset) -> Claims:
    """The errata in the assumptions."""
    printed, at = "several assumptions that all commonly hold in the practice", "Appendix D.1"
    statement = "Assumptions D.4 and D.5 together admit only tiny starts: the largest log ω (β = 1.5, κ = 1.11, K = 20)"
    shown = {"log ω": reduced.log_omega, "log P": reduced.log_P, "η ≤": reduced.eta}
    tiny = agrees(
        "infeasible-assumptions", statement, reduced.log_omega, np.array([-151.5, -221.9]), absolute=0.06, shown=shown
    )
    yield erratum(tiny, kind="error", printed=printed, at=at)
    statement = (
        "With the P² that Corollary D.1 needs, D.4 and D.5 exclude each other: the right side of D.5 is below 1/2"
    )
    yield below("repair-infeasible", statement, reduced.repaired, 0.5, source=at)
    statement = (
        "The published starts of Figures 5, 8, 9 break both halves of D.5: left side over the largest right side"
    )
    shown = {"left": reduced.left, "right": reduced.right, "smallest a_i / a_j": reduced.ratio}
    outside = xr.concat([reduced.left / reduced.right, 3 / reduced.ratio], "half")
    false = above("figures-outside-assumptions", statement, outside, 1, shown=shown)
    yield erratum(false, kind="error", printed=printed, at=at)
