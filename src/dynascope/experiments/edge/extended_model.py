"""Section 3.6.2: coupling of directions, which should limit the number of directions that exceed 2/η. In the document's
own example it does not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

from dynascope.dynamics.bifurcation import escape_times
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.geometry.hessian import dense_hessian
from dynascope.geometry.orbits import has_diverged
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import below, every, rising
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.factorization import diagonal_step
from dynascope.tasks.separable import ExtendedLoss
from dynascope.theory.edge.factorization import extended_spectrum

COUPLINGS = {
    "no pair": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    "one pair": [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
    "all pairs": [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
}
COLORS = PALETTE[1:]
KEPT = 64
"""Last iterates at which the Hessian is diagonalized."""
ABOVE = 1.05
"""A cell has two directions above 2/η if its two largest η a_i reach this."""


class ExtendedModel(EdgeExperiment):
    """Is a second direction kept below 2/η by the coupling of directions, or by separate factors?"""

    id = "edge.extended-model"
    source = Source(SIMPLE_STRUCTURES, "Section 3.6.2")
    cost = {"quick": 4, "full": 17}
    presets = {"quick": {"starts": 40, "steps": 1500}}
    control = {"tied": True}
    notes = """The document extends the separable model by couplings (3.12), with symmetric factorization as an example,
    and expects fewer eigenvalues above 2/η the more pairs are coupled. The setting here: three blocks in three
    dimensions, η = 1, weights 1/4 and 1/2, b = 0; with all pairs the loss is exactly ||XXᵀ - diag a||²/4. Asymmetry
    restricts the second direction: with separate Y and Z nearly all starts diverge. The control ties Z = Y, which turns
    the second problem into the first."""

    firsts: tuple[float, ...] = (1.05, 1.2, 1.35, 1.5)
    """η a₁."""
    seconds: tuple[float, ...] = (0.4, 0.7, 0.9, 1.05, 1.15, 1.3)
    """η a₂."""
    third: float = 0.98
    """a₃/a₂."""
    scale: float = Field(0.3, gt=0)
    """Size of the entries at the start, in units of √a."""
    starts: PositiveInt = 200
    steps: PositiveInt = 3000
    tied: bool = False
    """Start the asymmetric problem with Z = Y."""

    def measure(self, seed: int) -> xr.Dataset:
        cells = np.array([(a, b, self.third * b) for a in self.firsts for b in self.seconds])
        random = np.random.default_rng(seed)
        shape = (len(cells), self.starts, 3, 3)
        draw = [self.scale * np.sqrt(cells)[:, None, :, None] * random.standard_normal(shape) for _ in "YZ"]
        couplings = [np.array(pairs, float) for pairs in COUPLINGS.values()]
        symmetric = [self._symmetric(cells, draw[0], pairs) for pairs in couplings]
        asymmetric = self._asymmetric(cells, draw[0], draw[0] if self.tied else draw[1])
        at_minimum = [[_spectrum(np.diag(np.sqrt(a)), a, pairs) for a in cells] for pairs in couplings]
        finite, above = (np.stack([np.asarray(one[i]) for one in symmetric]) for i in (0, 1))
        return xr.Dataset(
            {
                "finite": (("coupling", "cell", "start"), finite),
                "above": (("coupling", "cell", "start"), above),
                "asymmetric": (("cell", "start"), asymmetric),
                "at_minimum": (("coupling", "cell", "eigenvalue"), np.asarray(at_minimum)),
                "products": (("cell", "block"), cells),
            },
            {"coupling": list(COUPLINGS)},
        )

    def _symmetric(self, cells: np.ndarray, starts: np.ndarray, couplings: np.ndarray) -> tuple[Array, Array]:
        """Whether each start stays finite, and the mean number of eigenvalues above 2/η = 2 over the last iterates."""

        def one(strengths: Array, start: Array, pairs: Array, steps: Array) -> tuple[Array, Array]:
            task = ExtendedLoss(strengths, pairs)

            def count(X: Array, _: None) -> tuple[Array, Array]:
                return task.step(X, 1.0), jnp.sum(jnp.linalg.eigvalsh(dense_hessian(task, X)) > 2)

            late = jax.lax.fori_loop(0, steps, lambda _, X: task.step(X, 1.0), start)
            end, counts = jax.lax.scan(count, late, None, length=KEPT)
            return ~has_diverged(end), jnp.mean(counts.astype(end.dtype))

        over_starts = jax.vmap(one, in_axes=(None, 0, None, None))
        program = jax.jit(jax.vmap(over_starts, in_axes=(0, 0, None, None)))
        return program(jnp.asarray(cells), jnp.asarray(starts), jnp.asarray(couplings), jnp.asarray(self.steps))

    def _asymmetric(self, cells: np.ndarray, Y: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Whether each start of ||YZᵀ - diag a||²/2 stays finite."""
        settings = jnp.asarray(np.repeat(cells, self.starts, axis=0))
        starts = {"Y": jnp.asarray(Y.reshape(-1, 3, 3)), "Z": jnp.asarray(Z.reshape(-1, 3, 3))}
        escaped = escape_times(diagonal_step, settings, starts, steps=self.steps)
        return np.asarray(escaped).reshape(len(cells), self.starts) < 0

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """At X = diag √a the Hessian has the eigenvalues 2 a_i, a_i + a_j for the coupled pairs, and else 0."""
        cells = measured.products.values
        spectrum = np.array([[extended_spectrum(a, np.array(pairs)) for a in cells] for pairs in COUPLINGS.values()])
        return xr.Dataset(
            {
                "at_minimum": (("coupling", "cell", "eigenvalue"), spectrum),
                "above": (("coupling", "cell"), (spectrum > 2).sum(-1)),
            }
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        return xr.Dataset(
            {
                "second": measured.products.isel(block=slice(0, 2)).min("block"),
                "finite": measured.finite.mean("start"),
                "asymmetric": measured.asymmetric.mean("start"),
                "above": measured.above.where(measured.finite).mean("start"),
                "above_minimum": predicted.above,
                "spectrum_error": abs(measured.at_minimum - predicted.at_minimum).max(),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        two = reduced.isel(cell=(reduced.second >= ABOVE).values)
        statement = f"With separate factors few starts stay finite where two η σ_i² ≥ {ABOVE:g}: share in each cell"
        yield below("two-factors-restrict", statement, two.asymmetric, 0.05)
        statement = "There the symmetric model stays finite from every start, with any coupling"
        yield every("symmetric-lives", statement, two.finite == 1)
        statement = "The document's intuition that a larger E allows fewer: in its example more pairs give more (means)"
        more, minimum = two.above.mean("cell"), two.above_minimum.mean("cell")
        counter = rising("fewer-eigenvalues", statement, more, along="coupling", shown={"at the minimum": minimum})
        printed = "Intuitively, such a model with larger |E| allows fewer eigenvalues of Hessian to go beyond 2/η"
        yield erratum(counter, kind="error", printed=printed, at="Section 3.6.2")
        statement = "At X = diag √a the eigenvalues are 2 a_i, and a_i + a_j for the coupled pairs: largest error"
        yield below("spectrum", statement, reduced.spectrum_error, 1e-12, source="(3.12)")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (share, counts) = panels(2, size=(4.9, 3.9))
        label = "factors tied" if self.tied else "separate factors"
        products = measured.products.values
        sums, two = products[:, :2].sum(-1), products[:, :2].min(-1) >= ABOVE
        for name, color, size in zip(COUPLINGS, COLORS, (11, 7.5, 4), strict=True):
            style = {"color": color, "markersize": size, "label": f"symmetric, {name}"}
            share.plot(sums, reduced.finite.sel(coupling=name), "o", **style)
        share.plot(sums, reduced.asymmetric, "s", color=PALETTE[0], label=label)
        share.axvline(2, **THEORY, label="η (a₁ + a₂) = 2")
        share.set(xlabel="η (a₁ + a₂)", ylabel="share of starts", ylim=(-0.05, 1.1), title="Starts that stay finite")
        share.legend(loc="center right")
        for at, (values, minimum) in enumerate(zip(measured.above.values, predicted.above.values, strict=True)):
            seen = values[two].ravel()
            near = at + 0.2 * np.linspace(-1, 1, seen.size)
            counts.plot(near, seen, "o", color=COLORS[at], markersize=2.5, alpha=0.5, markeredgewidth=0)
            counts.plot([at - 0.3, at + 0.3], [minimum[two].mean()] * 2, **THEORY, label="" if at else "at the minimum")
        counts.plot([], [], "o", color=FAINT, markersize=4, label="mean over an orbit")
        counts.set(ylabel="eigenvalues above 2/η", title="Coupling adds eigenvalues above 2/η", ylim=(0, 7))
        counts.set_xticks(range(len(COUPLINGS)), list(COUPLINGS))
        counts.legend(loc="upper left")
        return {"extended-model": figure}


def _spectrum(X: np.ndarray, strengths: np.ndarray, couplings: np.ndarray) -> np.ndarray:
    task = ExtendedLoss(jnp.asarray(strengths), jnp.asarray(couplings))
    return np.linalg.eigvalsh(np.asarray(_hessian(task, jnp.asarray(X))))


_hessian = jax.jit(dense_hessian)
