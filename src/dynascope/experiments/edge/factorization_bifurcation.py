"""Figure 3.3: the leading direction of a factorization doubles its period as the quartic does, in both layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from pydantic import Field, PositiveInt, model_validator

from dynascope.curves.orbits import APERIODIC, period
from dynascope.dynamics.bifurcation import bifurcation
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, panels
from dynascope.lab.criteria import above, below, every, falling, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.factorization import Factorization, Factors, generic_starts
from dynascope.theory.edge import quartic_orbit

NEAR = 2e-3
"""Rates this close to a doubling are not judged: convergence there takes longer than the run."""
PRINTED_RANGES, CHAOTIC, READ = ((1.0, 1.23), (1.23, 1.28)), 1.28, 0.01
"""Ranges of K with periods 2 and 4 and the begin of chaos, as printed, and the precision of such a reading."""
RATIOS = (0.1, 0.3, 0.5)
"""σ₂²/σ₁² at which the largest singular values are compared, on a coarser grid of K."""
KEPT = 64


class FactorizationBifurcation(EdgeExperiment):
    """How does the leading direction of a factorization oscillate as the learning rate grows?"""

    id = "edge.factorization-bifurcation"
    source = Source(SIMPLE_STRUCTURES, "Figure 3.3")
    cost = {"quick": 3, "full": 8}
    presets = {"quick": {"rates": 61, "steps": 6000, "seeds": 2}}
    control = {"second": 0.95}
    known_failures = {
        "equal-to-138": "The largest singular value of a factor can belong to another direction in the low phase, and "
        "does from a K on that falls with σ₂²/σ₁², which the document does not state. The components along the top "
        "direction are equal."
    }
    notes = """Generic starts of a factorization of diag(1, σ₂², …), learning rate K. |uᵀY| and |uᵀZ| are the components
    along the top eigenvector of C; the figure of the document shows the largest singular values instead. Theory (black)
    is the one-dimensional quartic at the same K, and its doublings. The text does not give the spectrum, the start or
    the number of steps. The control makes the second eigenvalue nearly as large as the first: then η(σ₁² + σ₂²) > 2
    soon after the threshold, and gradient descent diverges instead of doubling its period."""

    lowest: float = 0.9
    highest: float = 1.5
    rates: PositiveInt = 121
    second: float = 0.3
    """σ₂²/σ₁²; the other eigenvalues are evenly spaced from there down to 0.05."""
    dim: PositiveInt = 5
    scale: float = 0.1
    """Size of the entries at the start; in 5 dimensions some starts of size 0.3 diverge at every K."""
    steps: int = Field(20000, ge=KEPT)
    seeds: PositiveInt = 4

    @model_validator(mode="after")
    def _rises(self) -> Any:
        if self.lowest >= self.highest:
            raise ValueError(f"lowest must be below highest ({self.highest:g}); got {self.lowest:g}")
        return self

    def measure(self, seed: int) -> xr.Dataset:
        rates = np.linspace(self.lowest, self.highest, self.rates)
        coarse = np.arange(self.lowest, self.highest + 1e-9, 0.02)
        settings = [(K, self.second) for K in rates] + [(K, ratio) for ratio in RATIOS for K in coarse]
        runs = [self._orbits(settings, [seed, number]) for number in range(self.seeds)]
        shown = {name: np.stack([run[name][: self.rates] for run in runs]) for name in runs[0]}
        gaps = [np.abs(run["Y_norm"] - run["Z_norm"])[self.rates :, -10:].max(-1) for run in runs]
        return xr.Dataset(
            {
                **{name: (("seed", "K", "iterate"), values) for name, values in shown.items()},
                "norm_gap": (("seed", "ratio", "coarse_K"), np.reshape(gaps, (self.seeds, len(RATIOS), len(coarse)))),
            },
            {"K": rates, "ratio": list(RATIOS), "coarse_K": coarse},
        )

    def _orbits(self, settings: Sequence[tuple[float, float]], seed: list[int]) -> dict[str, np.ndarray]:
        """The last iterates for every (K, σ₂²/σ₁²), from one start: sizes along u, largest singular values."""
        starts = generic_starts(np.random.default_rng(seed), 1, self.dim, self.scale)
        start = {name: factor[0] for name, factor in starts.items()}
        spectra = [[1.0, *np.linspace(ratio, 0.05, self.dim - 1)] for _, ratio in settings]
        numbers = {"rate": jnp.asarray([K for K, _ in settings]), "spectrum": jnp.asarray(spectra)}
        kept = bifurcation(_step, numbers, start, burn_in=self.steps - KEPT, keep=KEPT)
        Y, Z = (np.moveaxis(np.asarray(kept.iterates[name]), -1, 1) for name in ("Y", "Z"))
        return {"Y": _size(Y), "Z": _size(Z), "Y_norm": _largest(Y), "Z_norm": _largest(Z)}

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The quartic at the same rates: its last iterates, its orbit of period two, and its period doublings."""
        rates = measured.K.values
        kept = bifurcation(quartic_orbit.step, jnp.asarray(rates), 0.5, burn_in=self.steps - KEPT, keep=KEPT)
        pair = np.stack([np.asarray(point) for point in quartic_orbit.normalized_orbit(rates)], axis=-1)
        doublings = np.asarray(quartic_orbit.cascade(4))
        return xr.Dataset(
            {
                "quartic": (("K", "iterate"), np.asarray(kept.iterates)),
                "orbit": (("K", "phase"), pair),
                "doubling": ("number", doublings),
            },
            {"K": rates},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        ends = np.sort(measured.Y.values[..., -2:], axis=-1)
        doubling = predicted.doubling
        return xr.Dataset(
            {
                "period": (("seed", "K"), period(measured.Y.values)),
                "period_predicted": ("K", 2 ** np.searchsorted(doubling.values, measured.K.values)),
                "from_doubling": abs(measured.K - doubling).min("number"),
                "last_doubling": doubling[-1],
                "off_orbit": ("K", np.abs(ends - predicted.orbit.values).max((0, 2))),
                "apart": abs(measured.Y - measured.Z).max(("seed", "iterate")),
                "norm_gap": measured.norm_gap,
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        K = reduced.K
        judged = (reduced.from_doubling > NEAR) & (reduced.last_doubling > K)
        statement = "|uᵀY| has period 1 up to K = 1, 2 up to √5 - 1, 4 up to 1.2880, 8 up to 1.2992: rates and "
        statement += f"starts, except {NEAR:g} around the doublings"
        yield every("periods", statement, (reduced.period == reduced.period_predicted).where(judged))
        statement = "Where the period is two the sizes are σ₁ρ₁ and σ₁ρ₂: largest distance"
        two = judged & (reduced.period_predicted == 2)
        yield below("orbit", statement, reduced.off_orbit[two], 1e-9, source="Observation 1")
        statement = f"|uᵀY| = |uᵀZ| at every K from 1 to {self.highest:g}, chaos included: largest difference"
        yield below("layers-equal", statement, reduced.apart[K > 1 + NEAR], 1e-9)
        statement = f"Period 2 in (1, 1.23) and 4 in (1.23, 1.28): except {READ:g} around the ends, as read"
        inside = [abs(K - (low + high) / 2) < (high - low) / 2 - READ for low, high in PRINTED_RANGES]
        agree = (reduced.period == xr.where(inside[0], 2, 4)).where(inside[0] | inside[1])
        printed = "when ησ_1² ∈ (1, 1.23), it converges to a period-2 orbit; … (1.23, 1.28), … a period-4 orbit"
        yield every("printed-ranges", statement, agree, printed=printed)
        statement = "For K > 1.28 most rates have no period up to 32"
        chaotic = (reduced.period == APERIODIC).where(K > CHAOTIC)
        yield share("rather-chaotic", statement, chaotic, 0.5, printed="when ησ_1² > 1.28, it is rather chaotic")
        yield from self._judge_largest(reduced)

    def _judge_largest(self, reduced: xr.Dataset) -> Claims:
        K, oscillates = reduced.coarse_K, reduced.coarse_K > 1 + NEAR
        first = K.where((reduced.norm_gap > 1e-6) & oscillates).min(("seed", "coarse_K"))
        statement = "σ_max(Y) = σ_max(Z) for all K in (1, 1.38) and every σ₂²/σ₁²: first K of each at which they differ"
        printed = "when ησ_1² ∈ (1, 1.38), all cases have σ_max(Y) = σ_max(Z)"
        yield above("equal-to-138", statement, first.fillna(np.inf), 1.38, printed=printed)
        statement = "The first K at which σ_max(Y) ≠ σ_max(Z) falls with σ₂²/σ₁²: lowest of the starts"
        yield falling("largest-singular-value", statement, first, along="ratio")
        statement = "σ_max(Y) = σ_max(Z) at most rates above 1 at which the run stays finite: share for each σ₂²/σ₁²"
        equal = (reduced.norm_gap < 1e-6).where(oscillates & reduced.norm_gap.notnull()).mean(("seed", "coarse_K"))
        printed = "during most of these, the balancing effect holds, i.e., σ_max(Y) = σ_max(Z)"
        yield above("mostly-balanced", statement, equal, 0.5, source="Section 3.6.1", printed=printed)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(2, 2, size=(6.2, 3.2), sharex=True, sharey=True)
        for axes, name, title in (
            (grid[0, 0], "Y", "|uᵀY|, the component along the top direction"),
            (grid[0, 1], "Z", "|uᵀZ|"),
            (grid[1, 0], "Y_norm", "Largest singular value of Y"),
            (grid[1, 1], "Z_norm", "Largest singular value of Z"),
        ):
            _cloud(axes, predicted.quartic, FAINT, 4.5, "the quartic at the same K")
            _cloud(axes, measured[name].isel(seed=0), PALETTE[0 if name.startswith("Y") else 1], 1.8, "measured")
            for K in predicted.doubling.values:
                axes.axvline(K, color=INK, linewidth=0.7, linestyle=(0, (4, 2.5)))
            axes.set_title(title)
        for axes in grid[1]:
            axes.set_xlabel("K = η σ₁²")
        grid[0, 0].legend(loc="lower left", markerscale=2)
        grid[0, 0].set(ylabel="last iterates / σ₁", ylim=(0.2, 1.4))
        grid[1, 0].set_ylabel("last iterates / σ₁")
        return {"factorization-bifurcation": figure}


def _step(factors: Factors, setting: dict[str, Array]) -> Factors:
    return Factorization(jnp.diag(setting["spectrum"])).step(factors, setting["rate"])


def _size(factors: np.ndarray) -> np.ndarray:
    """|uᵀY|: C is diagonal, so u is the first unit vector."""
    return np.sqrt(np.sum(factors[:, :, 0] ** 2, axis=-1))


def _largest(factors: np.ndarray) -> np.ndarray:
    """The largest singular value, nan if the run diverged."""
    finite = np.asarray(np.isfinite(factors).all((-1, -2)))
    return np.where(finite, np.linalg.norm(np.where(finite[..., None, None], factors, 0), 2, (-2, -1)), np.nan)


def _cloud(axes: Axes, orbits: xr.DataArray, color: str, size: float, label: str) -> None:
    tail = orbits.values[:, -32:]
    rates = np.repeat(orbits.K.values, tail.shape[1])
    axes.plot(rates, tail.ravel(), "o", color=color, markersize=size, markeredgewidth=0, label=label)
