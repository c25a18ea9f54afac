"""Figure B.3: factorizations that start near an unbalanced minimum end on the orbit of the balanced one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope import geometry
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.experiments.edge.quasi_symmetric_drawing import draw_noise, draw_runs, two_last
from dynascope.lab.claims import Claim, claim, erratum, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.factorization import Factorization, Factors, generic_starts, quasi_symmetric_start
from dynascope.theory.edge.factorization import (
    gram_difference_change,
    orbit_losses,
    orbit_sizes,
    quasi_symmetric_condition,
    quasi_symmetric_limit,
)
from dynascope.theory.edge.quartic_orbit import normalized_orbit

CLOSE = 1e-3
"""The largest distance to a prediction after all steps."""


class FactorizationDescent(eqx.Module):
    """An ensemble member: gradient descent on ||Y Zᵀ - C||²/2. It records the components along the top eigenvector of
    C, and the factors themselves at the last step."""

    steps: int = eqx.field(static=True)

    def __call__(self, case: dict[str, Array]) -> ds.Map:
        task, rate = Factorization(case["target"]), case["rate"]

        def lead(factors: Factors) -> dict[str, Array]:
            return geometry.leading_components(factors["Y"], factors["Z"], task.target, case["top"])

        def drift(factors: Factors) -> Array:
            """How far a step's change of YᵀY - ZᵀZ is from the exact formula, in units of |C|."""
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
    source = Source(DOCUMENT, "Figure B.3")
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
            "Y": np.asarray(start["Y"]), "Z": np.asarray(start["Z"]), "root": roots,
            "target": roots @ roots.transpose(0, 2, 1), "top": left[:, :, 0], "rate": labels["K"] / sigma**2,
            "sigma": sigma, "kind": np.full(len(roots), kind),
            **{name: np.full(len(roots), float(value)) for name, value in labels.items()},
        }  # fmt: skip

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        sigma, K = measured.sigma.values, measured.K.values
        limits = [
            quasi_symmetric_limit(jnp.asarray(root), alpha, rate)
            for root, alpha, rate in zip(measured.root.values, measured.alpha.values, K / sigma**2, strict=True)
        ]
        return xr.Dataset(
            {
                "lead": (("case", "phase"), np.asarray(orbit_sizes(sigma, K))),
                "error": (("case", "phase"), np.asarray(orbit_losses(sigma, K))),
                **{name: (("case", "phase", "row", "column"), np.array([[p[name] for p in pair] for pair in limits]))
                   for name in ("Y", "Z")},
            }
        )  # fmt: skip

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        quasi, seeds = measured.kind.values == "quasi", self.seeds * len(self.alphas)
        ends = {name: two_last(measured[name]) for name in ("lead_Y", "lead_Z", "error")}
        apart = np.maximum(*(np.abs(ends[name] - predicted.lead.values).max(-1) for name in ("lead_Y", "lead_Z")))
        by_alpha = {f"α = {al:g}": apart[quasi & (measured.alpha.values == al)].max() for al in self.alphas}
        yield claim(
            "one-orbit",
            f"For every α, |uᵀY| and |uᵀZ| end on the orbit σ₁ρ₁, σ₁ρ₂ of the flattest minimum (largest distance after "
            f"{self.steps} steps)", source="Figure B.3, Observation 2",
            measured={**by_alpha, "draws that (3.9) admits": share_of(measured.admitted.values)}, expected="≤ 1e-3",
            holds=np.all(apart[quasi] <= CLOSE), seeds=seeds,
        )  # fmt: skip
        ratio = (ends["lead_Y"][:, 1] / ends["lead_Y"][:, 0])[quasi]
        theory = float(predicted.lead[0, 1] / predicted.lead[0, 0])
        yield claim(
            "printed-ratio", "The ratio of the two sizes is ρ₂/ρ₁, as of the printed 6.1 and 5.3", source="Figure B.3",
            measured=[ratio.min(), ratio.max()], expected={"ρ₂/ρ₁": theory, "printed": 6.1 / 5.3, "within": CLOSE},
            holds=np.all(np.abs(ratio - theory) <= CLOSE), seeds=seeds,
        )  # fmt: skip
        gap = (np.abs(measured.lead_Y - measured.lead_Z) / measured.sigma).values
        unequal = quasi & (measured.alpha.values != 1)
        yield claim(
            "layers-equal", "Layers that start at α and 1/α times σ₁ become equal: ||uᵀY| - |uᵀZ||/σ₁",
            source="Figure B.3", measured={"start": gap[unequal, 0].min(), "end": gap[unequal, -1].max()},
            expected={"start": "1/α - α", "end": "≤ 1e-3"}, holds=np.all(gap[unequal, -1] <= CLOSE), seeds=self.seeds,
        )  # fmt: skip
        losses = np.abs(ends["error"] / np.sort(predicted.error.values) - 1)[quasi].max()
        yield claim(
            "orbit-loss", "The loss alternates between (r_i² - σ₁²)²/2 (largest relative distance)",
            source="Figure B.3", measured=losses, expected="≤ 1e-3", holds=losses <= CLOSE, seeds=seeds,
        )  # fmt: skip
        deviations = self._deviations(measured, predicted)
        yield claim(
            "limit-up-to-noise",
            "The factors end at (Y₀ + (ρ_i - α)σ₁uvᵀ, Z₀ + (ρ_i - 1/α)σ₁uvᵀ) up to O(ε): largest deviation",
            source="Observations 2 and 5", measured={**deviations, "exponent": _exponent(deviations)},
            expected="proportional to ε: exponent 1 ± 0.1", holds=abs(_exponent(deviations) - 1) <= 0.1, seeds=3,
        )  # fmt: skip
        others = measured.kind.values == "generic"
        off = float(measured.lead_off_top.values[others, -1].max())
        yield claim(
            "generic-starts", "From generic starts, too, the error ends along uuᵀ alone, on the same orbit (K = "
            + ", ".join(f"{K:g}" for K in self.generic_rates) + ")", source="Observation 1",
            measured={"distance": apart[others].max(), "off uuᵀ": off}, expected="distance ≤ 1e-3, off uuᵀ ≤ 1e-12",
            holds=apart[others].max() <= CLOSE and off <= 1e-12, seeds=int(others.sum()),
        )  # fmt: skip
        drift = float(np.maximum(measured.drift.max(), measured.lowered_drift.max()))
        yield claim(
            "invariant", "A step adds exactly η²(ZᵀMᵀMZ - YᵀMMᵀY) to YᵀY - ZᵀZ", source="Appendix B.10",
            measured=drift, expected="≤ 1e-12 |C|", holds=drift <= 1e-12, seeds=measured.sizes["case"],
        )  # fmt: skip
        sides = [np.abs(measured[f"lowered_lead_{name}"].values[:, -1] / measured.sigma.values - 1) for name in "YZ"]
        sizes = np.maximum(*sides)[quasi].max()
        error = (np.sqrt(2 * measured.lowered_error.values[:, -1]) / measured.sigma.values**2)[quasi].max()
        yield claim(
            "decay", f"Lowering the rate to {self.decayed:g}/σ₁² leads to |uᵀY| = |uᵀZ| = σ₁ and YZᵀ = C",
            source="Remark 6", measured={"| |uᵀY|/σ₁ - 1 |": sizes, "|YZᵀ - C|/σ₁²": error}, expected="≤ 1e-3",
            holds=max(sizes, error) <= CLOSE, seeds=seeds,
        )  # fmt: skip
        norms = (np.abs(measured.lead_Y_norm - measured.lead_Z_norm) / measured.sigma).values[:, -2:].max(-1)
        yield erratum(
            "largest-singular-value",
            "Printed: the top singular values of the layers become equal. In the low phase one may belong to the bulk, "
            "and differ while |uᵀY| = |uᵀZ|: share of the runs with α ≠ 1", source="Figure B.3",
            measured=share_of(norms[unequal] > CLOSE), expected="> 0", refuted=np.any(norms[unequal] > CLOSE),
            seeds=self.seeds,
        )  # fmt: skip

    def _deviations(self, measured: xr.Dataset, predicted: xr.Dataset) -> dict[str, float]:
        """The median deviation from the limit, for each size of the noise."""
        far = [abs(measured[name] - predicted[name]).max(("row", "column")).values for name in ("Y", "Z")]
        nearest = np.min(np.maximum(*far), axis=-1)
        of = [(measured.kind.values == "noise") & (measured.noise.values == noise) for noise in self.noises]
        return {f"{noise:g}": float(np.median(nearest[chosen])) for noise, chosen in zip(self.noises, of, strict=True)}

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        runs = draw_runs(measured, predicted, self.alphas, self.K)
        noise = draw_noise(measured, self._deviations(measured, predicted), np.asarray(normalized_orbit(self.K)))
        return {"quasi-symmetric": runs, "noise": noise}


def _exponent(deviations: Mapping[str, float]) -> float:
    return float(np.polyfit(np.log([float(noise) for noise in deviations]), np.log(list(deviations.values())), 1)[0])
