"""Figure B.3: factorizations that start near an unbalanced minimum end on the orbit of the balanced one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope import geometry
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.experiments.edge.quasi_symmetric_drawing import draw_noise, draw_runs, two_last
from dynascope.lab.criteria import agrees, below, share, slope, within
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.factorization import Factorization, Factors, generic_starts, quasi_symmetric_start
from dynascope.theory.edge.factorization import (
    gram_difference_change,
    orbit_losses,
    orbit_sizes,
    quasi_symmetric_condition,
    quasi_symmetric_limit,
)

CLOSE = 1e-3
"""The largest distance to a prediction after all steps."""
PRINTED_RATIO = 6.05 / 5.35, 6.15 / 5.25


class FactorizationDescent(ds.Member):
    """An ensemble member: gradient descent on ||Y Zᵀ - C||²/2. It records the components along the top eigenvector of
    C, and the factors themselves at the last step."""

    steps: int

    def __call__(self, case: dict[str, Array]) -> ds.Map:
        task, rate = Factorization(case["target"]), case["rate"]

        def lead(factors: Factors) -> dict[str, Array]:
            return geometry.leading_components(factors["Y"], factors["Z"], task.target, case["top"])

        def drift(factors: Factors) -> Array:
            """The error of a step's change of YᵀY - ZᵀZ against the exact formula, in units of |C|."""
            change = _gram_difference(task.step(factors, rate)) - _gram_difference(factors)
            error = change - gram_difference_change(factors, task.target, rate)
            return jnp.max(jnp.abs(error)) / jnp.linalg.norm(task.target)

        def factor(name: str) -> Probe:
            return probe(lambda snapshot: snapshot.model[name], ("row", "column"), every=[self.steps])

        return ds.Map(
            lambda factors: task.step(factors, rate),
            {"Y": case["Y"], "Z": case["Z"]},
            probes={"lead": lead, "error": task, "drift": drift, "Y": factor("Y"), "Z": factor("Z")},
        )


def _gram_difference(factors: Factors) -> Array:
    Y, Z = factors["Y"], factors["Z"]
    return jnp.matmul(Y.T, Y, precision="highest") - jnp.matmul(Z.T, Z, precision="highest")


def descend(cases: dict[str, np.ndarray], steps: int) -> xr.Dataset:
    """Every case (`Y`, `Z`, `target`, `top`, `rate`, each with a first axis): its first 256 steps and its last 64."""
    recorded = np.union1d(np.arange(min(257, steps + 1)), np.arange(max(0, steps - 63), steps + 1))
    return ds.ensemble(FactorizationDescent(steps), {"case": cases}, steps=steps, record=recorded).trace


class QuasiSymmetric(EdgeExperiment):
    """Do unbalanced layers of a factorization become equal when they oscillate?"""

    id = "edge.quasi-symmetric"
    source = Source(SIMPLE_STRUCTURES, "Figure B.3")
    card = ("quasi-symmetric", 4)
    cost = {"quick": 5, "full": 8}
    presets = {"quick": {"seeds": 6}}
    control = {"K": 0.98, "generic_rates": (0.98,)}
    notes = """K = η σ₁² is the rate in units of the threshold of the flattest minimum. The text does not give the
    distribution of X₀; N(0, 1) entries give the printed orbit 5.3, 6.1. Only draws that satisfy (3.9) for every α are
    run, the first ones of `draws`; the share of such draws is reported. The comparison is of |uᵀY|, with u the top
    eigenvector of C: the largest singular value, which the figure shows, belongs to the bulk in some low phases.
    Generic starts (Observation 1) are for factorizations of diag(1, 0.3 … 0.05). The control is below the threshold:
    no orbit."""

    dim: PositiveInt = 8
    alphas: tuple[float, ...] = (1.0, 0.8)
    K: float = Field(1.02, gt=0)
    noise: float = 0.01
    noises: tuple[float, ...] = (0.1, 0.01, 0.001, 0.0001)
    """Sizes of the noise, for the last α and three draws."""
    generic_scale: float = Field(0.1, gt=0)
    """Size of the entries of a generic start, in units of σ₁; in 8 dimensions starts of size 0.3 diverge."""
    generic_rates: tuple[float, ...] = (1.02, 1.05, 1.1)
    """K for generic starts, three each."""
    decayed: float = 0.5
    """K after the learning rate is lowered."""
    steps: PositiveInt = 3000
    seeds: PositiveInt = 12
    draws: PositiveInt = 1000

    def measure(self, seed: int) -> xr.Dataset:
        random = np.random.default_rng(seed)
        roots = random.standard_normal((self.draws, self.dim, self.dim))
        sizes = np.linalg.svd(roots, compute_uv=False)
        second = self.K * (sizes[:, 1] / sizes[:, 0]) ** 2
        admitted = np.all([np.asarray(quasi_symmetric_condition(self.K, second, al)) for al in self.alphas], axis=0)
        roots = roots[admitted][: self.seeds]
        runs = [self._quasi(random, roots, alpha, self.noise, "quasi") for alpha in self.alphas]
        runs += [self._quasi(random, roots[:3], self.alphas[-1], noise, "noise") for noise in self.noises]
        runs += [self._generic(random, K) for K in self.generic_rates]
        cases = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        labels = {name: ("case", cases.pop(name)) for name in ("kind", "alpha", "noise", "K", "sigma")}
        roots_of = cases.pop("root")
        oscillating = descend(cases, self.steps)
        rate = self.decayed / labels["sigma"][1] ** 2
        after = {"Y": oscillating.Y.values[:, -1], "Z": oscillating.Z.values[:, -1], "rate": rate}
        lowered = descend({**cases, **after}, self.steps)
        names = ("lead_Y", "lead_Z", "lead_Y_norm", "lead_Z_norm", "lead_off_top", "error", "drift")
        return xr.Dataset(
            {
                **{name: oscillating[name].variable for name in names},
                **{f"lowered_{name}": lowered[name].variable for name in names},
                **{name: (("case", "row", "column"), after[name]) for name in ("Y", "Z")},
                "root": (("case", "row", "column"), roots_of),
                "admitted": ("draw", admitted),
            },
            {"step": oscillating.step, **labels},
        )

    def _quasi(self, random: Any, roots: np.ndarray, alpha: float, noise: float, kind: str) -> dict[str, np.ndarray]:
        start = quasi_symmetric_start(roots, alpha, generic_starts(random, len(roots), self.dim, noise))
        return self._cases(start, roots, kind, alpha=alpha, noise=noise, K=self.K)

    def _generic(self, random: Any, K: float) -> dict[str, np.ndarray]:
        root = np.diag(np.sqrt([1.0, *np.linspace(0.3, 0.05, self.dim - 1)]))
        start = generic_starts(random, 3, self.dim, self.generic_scale)
        return self._cases(start, np.stack([root] * 3), "generic", alpha=1.0, noise=self.generic_scale, K=K)

    def _cases(self, start: Any, roots: np.ndarray, kind: str, **labels: float) -> dict[str, np.ndarray]:
        left, sizes, _ = np.linalg.svd(roots)
        sigma = sizes[:, 0]
        return {
            **{name: np.asarray(factor) for name, factor in start.items()},
            **{name: np.full(len(roots), float(value)) for name, value in labels.items()},
            "kind": np.full(len(roots), kind),
            "root": roots,
            "target": roots @ roots.transpose(0, 2, 1),
            "top": left[:, :, 0],
            "sigma": sigma,
            "rate": labels["K"] / sigma**2,
        }

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        sigma, K = measured.sigma.values, measured.K.values
        limits = [
            quasi_symmetric_limit(jnp.asarray(root), alpha, rate)
            for root, alpha, rate in zip(measured.root.values, measured.alpha.values, K / sigma**2, strict=True)
        ]
        of = ("case", "phase")
        return xr.Dataset(
            {
                "lead": (of, np.asarray(orbit_sizes(sigma, K))),
                "error": (of, np.asarray(orbit_losses(sigma, K))),
                "Y": ((*of, "row", "column"), np.array([[phase["Y"] for phase in pair] for pair in limits])),
                "Z": ((*of, "row", "column"), np.array([[phase["Z"] for phase in pair] for pair in limits])),
            }
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        sigma, last = measured.sigma, measured.isel(step=-1, drop=True)
        leads = [two_last(measured[f"lead_{layer}"]) for layer in "YZ"]
        apart = np.max([np.abs(lead - predicted.lead.values) for lead in leads], axis=(0, 2))
        norms = [two_last(measured[f"lead_{layer}_norm"]) for layer in "YZ"]
        largest = np.max([np.abs(norm - predicted.lead.values) for norm in norms], axis=(0, 2))
        losses = two_last(measured.error) / np.sort(predicted.error.values) - 1
        far = [abs(measured[name] - predicted[name]).max(("row", "column")) for name in ("Y", "Z")]
        sides = [abs(last[f"lowered_lead_{name}"] / sigma - 1) for name in "YZ"]
        gap = abs(measured.lead_Y - measured.lead_Z) / sigma
        return xr.Dataset(
            {
                "apart": ("case", apart),
                "largest_apart": ("case", largest / sigma.values),
                "ratio": ("case", leads[0][:, 1] / leads[0][:, 0]),
                "ratio_predicted": predicted.lead[:, 1] / predicted.lead[:, 0],
                "gap_start": gap.isel(step=0, drop=True),
                "gap_end": gap.isel(step=-1, drop=True),
                "loss_error": ("case", np.abs(losses).max(-1)),
                "deviation": xr.concat(far, "factor").max("factor").min("phase"),
                "off_top": last.lead_off_top,
                "drift": np.maximum(measured.drift, measured.lowered_drift).max("step"),
                "lowered_size": xr.concat(sides, "factor").max("factor"),
                "lowered_error": np.sqrt(2 * last.lowered_error) / sigma**2,
                "admitted": measured.admitted.mean(),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        def cases(kind: str) -> xr.Dataset:
            return reduced.isel(case=reduced.kind.values == kind)

        quasi, noisy, generic = cases("quasi"), cases("noise"), cases("generic")
        statement = "For every α, |uᵀY| and |uᵀZ| end on the orbit σ₁ρ₁, σ₁ρ₂ of the flattest minimum: largest distance"
        admitted = {"share of draws that (3.9) admits": reduced.admitted}
        place = "Figure B.3, Observation 2"
        yield below("one-orbit", statement, quasi.apart.max(), CLOSE, source=place, shown=admitted)
        statement = "In most draws, of both α, the largest singular values of Y and Z themselves end there"
        printed = "their leading singular values converge to the same period-2 orbit (about 6.1 and 5.3)"
        yield share("largest-on-orbit", statement, quasi.largest_apart < CLOSE, 0.5, printed=printed)
        statement = "The ratio of the two sizes is ρ₂/ρ₁"
        yield agrees("ratio", statement, quasi.ratio, quasi.ratio_predicted, absolute=CLOSE)
        statement, (low, high) = "It is that of 6.1 and 5.3, up to their last digits", PRINTED_RATIO
        yield within("printed-ratio", statement, quasi.ratio, low, high, printed="(about 6.1 and 5.3)")
        statement = "Layers that start at α and 1/α times σ₁ become equal: ||uᵀY| - |uᵀZ||/σ₁"
        unequal = quasi.isel(case=quasi.alpha.values != 1)
        yield below("layers-equal", statement, unequal.gap_end.max(), CLOSE, shown={"start": unequal.gap_start.min()})
        statement = "The loss alternates between (r_i² - σ₁²)²/2: largest relative distance"
        yield below("orbit-loss", statement, quasi.loss_error.max(), CLOSE)
        statement = "The factors end at (Y₀ + (ρ_i - α)σ₁uvᵀ, Z₀ + (ρ_i - 1/α)σ₁uvᵀ) up to O(ε): the exponent of ε"
        deviation = noisy.deviation.groupby("noise").median()
        place = "Observations 2 and 5"
        yield slope("limit-up-to-noise", statement, deviation, "noise", low=0.9, high=1.1, source=place)
        statement = "From generic starts |uᵀY| and |uᵀZ| end on the same orbit: largest distance"
        yield below("generic-starts", statement, generic.apart.max(), CLOSE, source="Observation 1")
        statement = "From generic starts the error ends along uuᵀ alone: largest other entry"
        yield below("generic-error", statement, generic.off_top.max(), 1e-12, source="Observation 1")
        statement = "A step adds exactly η²(ZᵀMᵀMZ - YᵀMMᵀY) to YᵀY - ZᵀZ: largest error over |C|"
        yield below("invariant", statement, reduced.drift.max(), 1e-12, source="Appendix B.10")
        statement = f"Lowering the rate to {self.decayed:g}/σ₁² leads to |uᵀY| = |uᵀZ| = σ₁ and YZᵀ = C: errors"
        errors = xr.concat([quasi.lowered_size.max(), quasi.lowered_error.max()], "of")
        yield below("decay", statement, errors, CLOSE, source="Remark 6")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        deviation = reduced.deviation[reduced.kind.values == "noise"].groupby("noise").median()
        runs = draw_runs(measured, predicted, self.alphas, self.K)
        return {"quasi-symmetric": runs, "noise": draw_noise(deviation)}
