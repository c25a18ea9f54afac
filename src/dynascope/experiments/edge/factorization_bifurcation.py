"""Figure 3.3: the leading direction of a factorization doubles its period as the quartic does, in both layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.curves.orbits import APERIODIC, period
from dynascope.dynamics.bifurcation import bifurcation
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, panels
from dynascope.lab.claims import Claim, claim, erratum, share_of
from dynascope.lab.experiment import Source
from dynascope.tasks.factorization import Factorization, Factors, generic_starts
from dynascope.theory.edge import quartic_orbit

NEAR = 2e-3
"""Rates this close to a doubling are not judged: convergence there takes longer than the run."""
MISMATCH = {0.1: 1.34, 0.2: 1.32, 0.3: 1.30, 0.5: 1.24}
"""The first K (on a grid of 0.02) at which the largest singular values differ, by σ₂²/σ₁²: independent values."""
KEPT = 64


class FactorizationBifurcation(EdgeExperiment):
    """How does the leading direction of a factorization oscillate as the learning rate grows?"""

    id = "edge.factorization-bifurcation"
    source = Source(DOCUMENT, "Figure 3.3")
    cost = {"quick": 3, "full": 8}
    presets = {"quick": {"rates": 61, "steps": 6000, "seeds": 2}}
    control = {"second": 0.95}
    notes = """Generic starts of a factorization of diag(1, σ₂², …), learning rate K. |uᵀY| and |uᵀZ| are the components
    along the top eigenvector of C; the figure of the document shows the largest singular values instead. Theory (black)
    is the one-dimensional quartic at the same K, and its doublings. The text does not give the spectrum, the start and
    the number of steps. The control makes the second eigenvalue nearly as large as the first: then η(σ₁² + σ₂²) > 2
    soon after the threshold, and gradient descent diverges instead of doubling its period."""

    lowest: float = 0.9
    highest: float = 1.5
    rates: PositiveInt = 121
    second: float = 0.3
    """σ₂²/σ₁²; the other eigenvalues are evenly spaced from there down to 0.05."""
    dim: PositiveInt = 5
    scale: float = 0.1
    """Of the entries at the start; in 5 dimensions some starts of size 0.3 diverge at every K."""
    steps: PositiveInt = 20000
    seeds: PositiveInt = 4

    def measure(self, seed: int) -> xr.Dataset:
        rates = np.linspace(self.lowest, self.highest, self.rates)
        coarse = np.arange(self.lowest, self.highest + 1e-9, 0.02)
        settings = [(K, self.second) for K in rates] + [(K, ratio) for ratio in MISMATCH for K in coarse]
        runs = [self._orbits(settings, seed + number) for number in range(self.seeds)]
        shown = {name: np.stack([run[name][: self.rates] for run in runs]) for name in runs[0]}
        gaps = [np.abs(run["Y_norm"] - run["Z_norm"])[self.rates :, -10:].max(-1) for run in runs]
        return xr.Dataset(
            {
                **{name: (("seed", "K", "iterate"), values) for name, values in shown.items()},
                "norm_gap": (("seed", "ratio", "coarse_K"), np.reshape(gaps, (self.seeds, len(MISMATCH), len(coarse)))),
            },
            {"K": rates, "ratio": list(MISMATCH), "coarse_K": coarse},
        )

    def _orbits(self, settings: list[tuple[float, float]], seed: int) -> dict[str, np.ndarray]:
        """The last iterates for every (K, σ₂²/σ₁²), from one start: sizes along u, largest singular values."""
        starts = generic_starts(np.random.default_rng(seed), 1, self.dim, self.scale)
        start = {name: factor[0] for name, factor in starts.items()}
        spectra = [[1.0, *np.linspace(ratio, 0.05, self.dim - 1)] for _, ratio in settings]
        numbers = {"rate": jnp.asarray([K for K, _ in settings]), "spectrum": jnp.asarray(spectra)}
        kept = bifurcation(_step, numbers, start, burn_in=self.steps - KEPT, keep=KEPT)
        Y, Z = (np.moveaxis(np.asarray(kept.iterates[name]), -1, 1) for name in ("Y", "Z"))
        return {"Y": _size(Y), "Z": _size(Z), "Y_norm": _largest(Y), "Z_norm": _largest(Z)}

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The quartic at the same rates: its last iterates, its orbit of period two, and where its period doubles."""
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

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        rates, doublings = measured.K.values, predicted.doubling.values
        found = period(measured.Y.values)
        expected = 2 ** np.searchsorted(doublings, rates)
        judged = (np.abs(rates[:, None] - doublings).min(1) > NEAR) & (rates < doublings[-1])
        right = found[:, judged] == expected[judged]
        yield claim(
            "periods",
            "|uᵀY| has period 1 up to K = 1, 2 up to √5 - 1, 4 up to 1.2880, 8 up to 1.2992: share of rates and starts "
            f"(except {NEAR:g} around the doublings)", source="Figure 3.3",
            measured={**share_of(right.ravel()), **_ranges(rates, found)}, expected="share = 1", holds=right.all(),
            seeds=self.seeds,
        )  # fmt: skip
        two = judged & (expected == 2)
        ends = np.sort(measured.Y.values[:, two, -2:], axis=-1)
        off = np.abs(ends - predicted.orbit.values[two]).max()
        yield claim(
            "orbit", "Where the period is two the sizes are σ₁ρ₁ and σ₁ρ₂", source="Observation 1", measured=off,
            expected="≤ 1e-9", holds=off <= 1e-9, seeds=self.seeds,
        )  # fmt: skip
        apart = abs(measured.Y - measured.Z).max(("seed", "iterate")).values
        above = rates > 1 + NEAR
        yield claim(
            "layers-equal", f"|uᵀY| = |uᵀZ| at every K from 1 to {self.highest:g}, chaos included",
            source="Figure 3.3", measured=apart[above].max(), expected="≤ 1e-9", holds=np.all(apart[above] <= 1e-9),
            seeds=self.seeds,
        )  # fmt: skip
        chaotic = found[:, rates > quartic_orbit.ONSET_OF_CHAOS + NEAR] == APERIODIC
        yield claim(
            "rather-chaotic", "Beyond the doublings, K > 1.3023, most rates have no period up to 32",
            source="Figure 3.3", measured=share_of(chaotic.ravel()), expected="share > 0.5", holds=chaotic.mean() > 0.5,
            seeds=self.seeds,
        )  # fmt: skip
        first = self._first_mismatch(measured)
        lowest = min(min(row) for row in first.values())
        yield erratum(
            "largest-singular-value",
            "Printed: the largest singular values of Y and Z agree for K up to 1.38. Where they separate depends on "
            "the spectrum and the start, since in the low phase they belong to the bulk: first K of a mismatch, by "
            "σ₂²/σ₁²",
            source="Figure 3.3", measured=first, expected={"some below": 1.38 - 0.02, "independent": MISMATCH},
            refuted=lowest < 1.38 - 0.02, seeds=self.seeds,
        )  # fmt: skip

    def _first_mismatch(self, measured: xr.Dataset) -> dict[float, list[float]]:
        """For every spectrum and start, the first K above 1 at which the largest singular values differ."""
        K = measured.coarse_K.values
        differ = (measured.norm_gap.values > 1e-6) & (K > 1 + NEAR)
        first = np.where(differ.any(-1), K[np.argmax(differ, axis=-1)], np.inf)
        return {float(ratio): first[:, i].tolist() for i, ratio in enumerate(measured.ratio.values)}

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
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
    """The largest singular value, nan where the run diverged."""
    finite = np.asarray(np.isfinite(factors).all((-1, -2)))
    return np.where(finite, np.linalg.norm(np.where(finite[..., None, None], factors, 0), 2, (-2, -1)), np.nan)


def _ranges(rates: np.ndarray, found: np.ndarray) -> dict[str, list[float]]:
    """The lowest and the highest rate at which all starts have each period."""
    seen = {p: rates[(found == p).all(0)] for p in (1, 2, 4, 8)}
    return {f"period {p} at K": [at.min(), at.max()] for p, at in seen.items() if at.size}


def _cloud(axes: Axes, orbits: xr.DataArray, color: str, size: float, label: str) -> None:
    tail = orbits.values[:, -32:]
    axes.plot(np.repeat(orbits.K.values, tail.shape[1]), tail.ravel(), "o", color=color, markersize=size,
              markeredgewidth=0, label=label)  # fmt: skip
