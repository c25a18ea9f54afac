"""Figure 3.2: the largest second eigenvalue for which a factorization oscillates along the first."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from pydantic import Field, PositiveInt

from dynascope.dynamics.bifurcation import escape_times
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, every, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.factorization import Factors, diagonal_step, generic_starts, quasi_symmetric_start
from dynascope.theory.edge.factorization import largest_bulk, quasi_symmetric_condition
from dynascope.theory.edge.factorization_stability import critical_bulk
from dynascope.theory.edge.quartic_orbit import STABILITY_LIMIT, SUPERSTABLE

BAND, LINEAR_UNTIL = 0.1, 1.48
"""Cells with |a + b - 2| < 0.1 are not judged, nor columns beyond a = 1.48, at which starts diverge for any b."""


class FactorizationBoundary(EdgeExperiment):
    """How large may the second eigenvalue be while a factorization oscillates along the first?"""

    id = "edge.factorization-boundary"
    source = Source(SIMPLE_STRUCTURES, "Figure 3.2")
    cost = {"quick": 3, "full": 600}
    presets = {"quick": {"columns": 16, "rows": 30, "dim": 3, "steps": 3000, "seeds": 5}}
    control = {"tied": True}
    known_failures = {
        "tight": "With α = 0.8 the runs stay finite up to the line a + b = 2, as for α = 1: the layers become equal "
        "while they oscillate, and the bound of equal layers is the one that counts."
    }
    notes = """A cell is a pair a = η σ₁², b = η σ₂²; the other eigenvalues are b/2, b/4, ... Every start of every cell
    is a member of one array program, and counts as diverged once an entry exceeds 1000. The color of a cell is the
    share of its starts that stay finite, its verdict that of the majority. On the dotted line the product of the two
    transition matrices on the orbit gets an eigenvalue above 1 (up to K = √5 - 1, where the orbit itself loses
    stability). The text does not give the dimension, the grid, the spectrum or α. The control starts with Y = Z, which
    stays so: that is symmetric factorization, in which the second direction may oscillate too, and there is no
    boundary."""

    columns: PositiveInt = 100
    rows: PositiveInt = 100
    highest: tuple[float, float] = (1.6, 1.2)
    """The largest a (the smallest is 1) and b."""
    dim: PositiveInt = 8
    alpha: float = Field(0.8, gt=0)
    scales: tuple[float, float] = (0.3, 0.1)
    """Size of the entries of generic starts, in units of σ₁ √(3/d): the top singular value is about σ₁ in any d."""
    noise: float = 0.01
    steps: PositiveInt = 5000
    seeds: PositiveInt = 3
    tied: bool = False
    """Start with Z = Y."""

    def measure(self, seed: int) -> xr.Dataset:
        first = 1 + (self.highest[0] - 1) * (np.arange(self.columns) + 0.5) / self.columns
        second = self.highest[1] * (np.arange(self.rows) + 0.5) / self.rows
        grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
        cells = np.repeat(grid.reshape(-1, 2), self.seeds, axis=0)
        products = np.column_stack([cells[:, 0], *(cells[:, 1] / 2**i for i in range(self.dim - 1))])
        starts = self._starts(np.random.default_rng(seed), products)
        everything = {name: jnp.concatenate([start[name] for start in starts.values()]) for name in ("Y", "Z")}
        if self.tied:
            everything["Z"] = everything["Y"]
        settings = jnp.asarray(np.tile(products, (len(starts), 1)))
        escaped = escape_times(diagonal_step, settings, everything, steps=self.steps)
        shape = (len(starts), self.columns, self.rows, self.seeds)
        return xr.Dataset(
            {"escaped": (("start", "first", "second", "seed"), np.asarray(escaped).reshape(shape))},
            {"start": list(starts), "first": first, "second": second},
        )

    def _starts(self, random: Any, products: np.ndarray) -> dict[str, Any]:
        size, roots = np.sqrt(3 / self.dim * products[:, 0]), np.sqrt(products)[:, :, None] * np.eye(self.dim)

        def draw(scale: Any) -> Factors:
            return generic_starts(random, len(products), self.dim, scale)

        return {
            "generic": draw(self.scales[0] * size),
            "quasi": quasi_symmetric_start(roots, self.alpha, draw(self.noise)),
            "symmetric": quasi_symmetric_start(roots, 1.0, draw(self.noise)),
            "small": draw(self.scales[1] * size),
        }

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """For both quasi-symmetric starts, the largest b of (3.9) in every column, and at nine rates the b above which
        the other directions grow, by the product of transition matrices on the orbit."""
        rates = np.linspace(1.01, 1.235, 9)
        alphas = np.array([self.alpha, 1.0])
        admitted = [np.asarray(largest_bulk(measured["first"].values, alpha)) for alpha in alphas]
        every_rate = jax.vmap(critical_bulk, in_axes=(0, None))
        critical = jax.jit(jax.vmap(every_rate, in_axes=(None, 0)))(jnp.asarray(rates), jnp.asarray(alphas))
        return xr.Dataset(
            {"admitted": (("start", "first"), admitted), "critical": (("start", "rate"), np.asarray(critical))},
            {"start": ["quasi", "symmetric"], "first": measured["first"], "rate": rates},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        first, second = xr.broadcast(measured["first"], measured.second)
        inside = [quasi_symmetric_condition(first.values, second.values, alpha) for alpha in (self.alpha, 1.0)]
        return xr.Dataset(
            {
                "finite": (measured.escaped < 0).mean("seed"),
                "inside": (("quasi", "first", "second"), np.asarray(inside)),
                "critical": predicted.critical.rename(start="quasi"),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        finite, first, second = reduced.finite, reduced["first"], reduced.second
        judged = (abs(first + second - 2) >= BAND) & (first <= LINEAR_UNTIL) & (second <= first)
        agree = ((finite > 0.5) == (first + second < 2)).where(judged)
        quasi = finite.sel(start="quasi", drop=True)
        statement = f"Most generic starts stay finite where η(σ₁² + σ₂²) < 2, and diverge elsewhere: cells {BAND:g} "
        statement += "away"
        printed, place = "it verifies the condition η(σ_1² + σ_2²) < 2", "Figure 3.2a, Observation 1"
        generic = agree.sel(start="generic")
        yield share("generic-boundary", statement, generic, 0.95, source=place, printed=printed)
        statement = f"The same holds well beyond K = 1.121, where Theorem 3.3 ends: columns up to a = {LINEAR_UNTIL:g}"
        late = agree.sel(start="generic").where(first > SUPERSTABLE)
        printed = "the linear trend … keeps well when ησ_1² goes beyond 1.121 for a long range"
        yield share("linear-beyond", statement, late, 0.95, source="Figure 3.2a", printed=printed)
        statement = "The same holds for quasi-symmetric starts and for smaller generic ones: share of cells"
        others = agree.sel(start=["quasi", "symmetric", "small"]).mean(("first", "second"))
        yield above("same-boundary", statement, others, 0.95, source="Figure 3.2b, c")
        statement = "No quasi-symmetric run diverges in a cell where (3.9) holds"
        quiet = (finite == 1).sel(start=reduced.quasi).where(reduced.inside)
        yield every("sufficient", statement, quiet, source="Figure 3.2b, Observation 2")
        statement = f"With α = {self.alpha:g} most runs between (3.9) and the line stay finite too: share of runs"
        between = judged & ~reduced.inside.sel(quasi="quasi") & (first + second < 2)
        further = quasi.where(between).mean()
        yield above("not-necessary", statement, further, 0.5, source="Figure 3.2b")
        statement = f"With α = {self.alpha:g} most quasi-symmetric runs diverge beyond (3.9): share of cells"
        printed = "the second ησ_2² is novel (and tight) …, η(σ_1²/α² + σ_2²α²) < 2 in Observation 2"
        diverges = (quasi < 0.5).where(judged & ~reduced.inside.sel(quasi="quasi", drop=True))
        yield share("tight", statement, diverges, 0.95, source="Section 3.6.1", printed=printed)
        statement = "For α = 1 the product of transition matrices on the orbit has radius 1 up to b = 2 - K: K + b"
        symmetric, quasi = (reduced.critical.sel(quasi=name) for name in ("symmetric", "quasi"))
        place = "Appendix B.10.2"
        yield agrees("orbit-matrices", statement, symmetric + symmetric.rate, 2.0, absolute=1e-3, source=place)
        statement = f"Where that radius is 1 (α = {self.alpha:g}, K < √5 - 1) no run diverges"
        below = second < quasi.interp(rate=first).drop_vars("rate")
        quiet = (finite.sel(start="quasi") == 1).where(below & (first <= STABILITY_LIMIT))
        yield every("quiet-below", statement, quiet, source=place)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(4, size=(3.7, 4.0), sharey=True)
        titles = {
            "generic": f"(a) generic, scale {self.scales[0]:g}",
            "quasi": f"(b) quasi-symmetric, α = {self.alpha:g}",
            "symmetric": "(c) quasi-symmetric, α = 1",
            "small": f"generic, scale {self.scales[1]:g}",
        }
        colors = LinearSegmentedColormap.from_list("finite", ["#f0b9bf", "#fbf3e4", "#a9d3da"])
        for axes, (name, title) in zip(grid, titles.items(), strict=True):
            cells = reduced.finite.sel(start=name).T
            axes.pcolormesh(measured["first"], measured.second, cells, cmap=colors, vmin=0, vmax=1)
            _draw_lines(axes, measured, predicted, name)
            axes.set(xlabel="a = η σ₁²", title=title, xlim=(1, self.highest[0]), ylim=(0, self.highest[1]))
            axes.grid(False)
        grid[0].set_ylabel("b = η σ₂²")
        for axes in grid[:3]:
            axes.legend(loc="upper right")
        figure.colorbar(grid[0].collections[0], ax=grid, label="share of starts that stay finite", shrink=0.9, pad=0.01)
        return {"factorization-boundary": figure}


def _draw_lines(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset, name: str) -> None:
    first = measured["first"].values
    axes.plot(first, 2 - first, **THEORY, label="a + b = 2")
    if name not in predicted.start.values:
        axes.axvline(SUPERSTABLE, color=INK, linewidth=0.8, label="K = 1.121")
        return
    theory = predicted.sel(start=name)
    axes.plot(first, theory.admitted.where(theory.admitted > 0), color=PALETTE[3], label="(3.9)")
    axes.plot(theory.rate, theory.critical, ":", color=INK, linewidth=2, label="radius on the orbit > 1")
