"""The lemmas behind Theorem 4.1: conservation, the weights on the log scale, exits, and the drift on a plateau."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.lab.criteria import below
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.diagonal import QuadraticLoss, exit_and_return
from dynascope.theory.rank import assumptions
from dynascope.theory.rank.diagonal_flow import conservation_residual, force, reduced_flow
from dynascope.theory.rank.greedy_ranks import Stage, greedy_stages

PLATEAU_SCALE, RHO, POINTS = 1e-16, 1e-4, 200
"""The initial scale and rho with which Lemma C.5 is tested, and the number of times on each plateau."""
MARGINS = (0.05, 0.1, 0.3)
"""The constants c of Lemmas D.1 to D.3."""


class RankLemmas(Experiment):
    """Do the conservation law and the lemmas behind the theorem hold?"""

    id = "rank.lemmas"
    source = Source(GRADUAL_RANK, "Lemma 4.2, Lemmas C.5 and D.1-D.4")
    cost = {"quick": 6, "full": 10}
    presets = {"quick": {"draws": 2000}}
    control = {"euler": True, "step": 0.1}
    notes = """Conservation and equation (7) are measured on the flow of u and v themselves, by Runge-Kutta steps from
    random starts. Lemmas D.1 to D.3 are about any weights with u² - v² of order alpha²: here random ones, with b from
    -0.5 to 2.5. D.4 is tested on the plateaus of Algorithm 1, and C.5 on the exact flow, of random quadratic losses and
    of the example in which a coordinate leaves and returns. In the control gradient descent with a rate of 0.1 replaces
    the flow; it does not conserve u² - v²."""

    defaults = {"precision": "float64"}

    dim: PositiveInt = 6
    losses: PositiveInt = 5
    draws: PositiveInt = 20_000
    scale: float = Field(1e-64, gt=0, lt=1)
    """The initial scale at which Lemmas D.1 to D.3 are tested."""
    step: float = Field(0.01, gt=0)
    euler: bool = False
    """Take steps of gradient descent instead."""
    steps: PositiveInt = 3000

    def measure(self, seed: int) -> xr.Dataset:
        rng = np.random.default_rng(seed)
        tasks = [exit_and_return().loss(), *(self._loss(rng) for _ in range(self.losses))]
        starts = [rng.normal(size=(2, len(task.c))) for task in tasks]
        paths = [self._path(task, jnp.asarray(0.1 * start)) for task, start in zip(tasks, starts, strict=True)]
        found = [_plateaus(task, *start) for task, start in zip(tasks, starts, strict=True)]
        return xr.Dataset(
            {
                "conservation": (("loss", "step"), np.stack([kept for kept, _ in paths])),
                "from_sum": ("loss", [float(error.max()) for _, error in paths]),
                "log_scale": (("margin", "lemma"), self._log_scale(rng)),
                "moved": ("plateau", np.concatenate([moved for moved, _ in found])),
                "exits": ("loss", [wrong for _, wrong in found]),
            },
            {"step": self.step * np.arange(self.steps), "margin": list(MARGINS), "lemma": ["D.1", "D.2", "D.3"]},
        )

    def _loss(self, rng: np.random.Generator) -> QuadraticLoss:
        root = rng.normal(size=(self.dim, 2 * self.dim))
        return QuadraticLoss(jnp.asarray(root @ root.T / (2 * self.dim)), jnp.asarray(rng.normal(size=self.dim)))

    def _path(self, task: QuadraticLoss, start: Array) -> tuple[np.ndarray, np.ndarray]:
        """The change of u² - v² from its start, relative to u² + v², and the error of (7), at every step."""

        def velocity(pair: Array) -> Array:
            return pair[::-1] * force(task, pair[0] * pair[1])

        def advance(pair: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
            h, first = self.step, velocity(pair)
            second = velocity(pair + h / 2 * first)
            third = velocity(pair + h / 2 * second)
            fourth = velocity(pair + h * third)
            slope = first if self.euler else (first + 2 * second + 2 * third + fourth) / 6
            total = pair[0] + pair[1]
            kappa = start[0] ** 2 - start[1] ** 2
            error = jnp.max(jnp.abs((total + kappa / total) / 2 - pair[0]) / jnp.max(jnp.abs(pair)))
            return pair + h * slope, (conservation_residual(pair[0], pair[1], kappa), error)

        kept, error = jax.lax.scan(advance, start, None, length=self.steps)[1]
        return np.asarray(kept), np.asarray(error)

    def _log_scale(self, rng: np.random.Generator) -> np.ndarray:
        """The share of random weights that violate D.1, D.2 and D.3, for each margin."""
        b, kappa = rng.uniform(-0.5, 2.5, self.draws), self.scale**2 * rng.uniform(0.1, 2, self.draws)
        total = self.scale**b
        u, v = (total + kappa / total) / 2, (total - kappa / total) / 2
        found = [assumptions.log_scale_lemmas(u, v, b, self.scale, margin) for margin in MARGINS]
        return np.array([[one.number / self.draws for one in row] for row in found])

    def predict(self, measured: xr.Dataset) -> None:
        return None

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        largest = measured.conservation.max("step")
        return measured.drop_dims("step").assign(conservation=largest)

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "u_i² - v_i² stays as it was at the start: largest change, over u_i² + v_i²"
        printed = "For any i ∈ [p] and any time t, we have u_i²(t) - v_i²(t) = u_i²(0) - v_i²(0)"
        yield below("conserved", statement, reduced.conservation, 1e-6, source="Lemma 4.2", printed=printed)
        statement = "So u is (w + (u²(0) - v²(0))/w)/2 with w = u + v: largest error"
        yield below("from-the-sum", statement, reduced.from_sum, 1e-6, source="(7)")
        for lemma, id, printed in (
            ("D.1", "log-scale-d1", "max(|u_i|, |v_i|) ≤ α^(c/2)"),
            ("D.2", "log-scale-d2", "|u_i| > 1"),
            ("D.3", "log-scale-d3", "if log_α(w_i) > 1 + c then sgn(v_i) < 0"),
        ):
            statement = f"No weights at α = {self.scale:g} violate Lemma {lemma}: share of random ones, for each c"
            broken = reduced.log_scale.sel(lemma=lemma)
            yield below(id, statement, broken, 1e-12, source=f"Lemma {lemma}", printed=printed, seeds=self.draws)
        statement = "An inactive coordinate has b = 0 or 2 only where it has just left the support, and is pushed away "
        statement += "there; every plateau lasts: violations"
        printed = "if b_i^k ∈ {0, 2} then we must have i ∈ supp(u^(k-1)) \\ supp(u^k)"
        yield below("exits", statement, reduced.exits, 1, source="Lemma D.4", printed=printed)
        statement = "Once near a plateau, the weights stay within max(24ρ, 18 √(ρK/c_k)) of it until the inactive ones "
        statement += "have moved by 4ρ: distance over the bound"
        printed = "||θ_α(t) - θ^k|| < ρ' := max(24ρ, 18 √(ρ K_R/c_k))"
        yield below(
            "plateau-bound", statement, reduced.moved.dropna("plateau"), 1.0, source="Lemma C.5", printed=printed
        )

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, (kept, moved) = panels(2, size=(4.8, 3.4))
        for k, path in enumerate(measured.conservation.values):
            kept.semilogy(measured.step, np.maximum(path, 1e-18), color=PALETTE[k % len(PALETTE)], linewidth=1)
        kept.set(xlabel="time", ylabel="change of u² - v², over u² + v²", title="Lemma 4.2")
        moved.semilogy(reduced.moved, "o", color=PALETTE[0], label="distance over the bound")
        moved.axhline(1.0, **THEORY)
        moved.set(xlabel="plateau", title="Lemma C.5")
        return {"lemmas": figure}


def _plateaus(task: QuadraticLoss, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, int]:
    """The distance that the weights move away from each plateau that they reach, over the bound of Lemma C.5; and the
    number of violations of Lemma D.4."""
    stages = greedy_stages(task, len(u))
    wrong = sum(not one.holds for one in assumptions.non_degeneracy(stages, u, v) if "D.4" in one.name)
    wrong += sum(_unexplained(stage) for stage in stages[1:])
    last = 1.2 * stages[-1].time + 0.1
    times = [np.linspace(stage.time, min(stage.next_time, last), POINTS + 2)[1:-1] for stage in stages]
    trace = reduced_flow(task, u, v, [PLATEAU_SCALE], np.concatenate(times), tolerance=1e-9).isel(scale=0)
    total, kappa = PLATEAU_SCALE**trace.log_weight.values, PLATEAU_SCALE**2 * np.abs(u**2 - v**2)
    weights = np.concatenate([total + kappa / total, total - kappa / total], axis=1) / 2
    parts = np.split(weights, len(stages))
    ratios = [_over_bound(task, stage, path) for stage, path in zip(stages, parts, strict=True) if stage.support]
    return np.array(ratios), wrong


def _unexplained(stage: Stage) -> int:
    """Inactive coordinates with b = 0 or 2 that have not just left the support."""
    at_end = np.minimum(np.abs(stage.log_weight), np.abs(stage.log_weight - 2)) < 1e-9
    return sum(bool(at_end[i]) and i not in stage.left for i in range(len(at_end)) if i not in stage.support)


def _over_bound(task: QuadraticLoss, stage: Stage, path: np.ndarray) -> float:
    """The largest distance from theta^k over max(24 rho, 18 sqrt(rho K/c_k)), from the time at which the weights are
    within rho/(4p) of it until the inactive ones have moved by 4 rho; NaN if they do not come so close. K bounds
    |grad L| ≤ |theta| |g| on the ball of radius |theta^k| + 1, where |beta| ≤ |theta|²/2."""
    size, there = len(stage.beta), np.sqrt(np.abs(stage.beta))
    away = np.linalg.norm(path - np.concatenate([there, np.sign(stage.beta) * there]), axis=1)
    near = np.flatnonzero(away < RHO / (4 * size))
    if not near.size:
        return np.nan
    inactive = np.delete(path.reshape(len(path), 2, size), stage.support, axis=2)[near[0] :]
    moved = np.linalg.norm(inactive - inactive[0], axis=2).sum(axis=1) > 4 * RHO
    end = near[0] + (int(np.argmax(moved)) if moved.any() else len(moved))
    radius = np.sqrt(2) * np.linalg.norm(there) + 1
    slope = np.linalg.norm(np.asarray(task.S), 2) * radius**2 / 2 + np.linalg.norm(np.asarray(task.c))
    curvature = assumptions.strict_minimum(task, stage).number / 2
    return float(away[near[0] : end].max() / assumptions.plateau_bound(RHO, radius * slope, curvature))
