"""Figure 3.4: a trajectory of the product loss, and the manifolds to which it should be confined."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from pydantic import PositiveInt

from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge import rate_scans
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.products import many_factors, two_factors
from dynascope.theory.edge import constraint_manifolds, quartic_orbit

FROZEN = 5
"""Steps over which the projection onto M does not move."""
LONG = 4000


class ManifoldProjection(EdgeExperiment):
    """Does the manifold {λ < 2/η, ∇L · u = 0} describe where gradient descent goes?"""

    id = "edge.manifold-projection"
    source = Source(SIMPLE_STRUCTURES, "Figure 3.4; Propositions 5-7, Definition 4")
    cost = {"quick": 6, "full": 6}
    presets = {"quick": {}}
    control = {"start": (1.05, 0.9)}
    notes = """M = {λ < 2/η, ∇L · u = 0} is the manifold of Damian et al., M_c that of the document, with the second
    eigenvalue in place of λ; both are restricted to minimizers (see edge.errata). Above η = 1, M has no minimizer.
    Below, it has some, but the projection of a trajectory that starts far away is the end point of M and does not move
    while the trajectory does. The text gives no start; (1.6, 0.7) is our choice. The control starts next to M, and the
    projection moves from the first step. The full setting takes seconds, so `quick` is the same."""

    above: float = 1.08
    """The rate of panel (a)."""
    below: float = 0.95
    """The rate of panel (b)."""
    start: tuple[float, float] = (1.6, 0.7)
    far_start: tuple[float, float] = (2.0, 0.52)
    crossing_start: tuple[float, float] = (1.8, 0.6)
    """A start from which both factors become negative and end on the mirrored orbit."""
    steps: PositiveInt = 60
    minima: PositiveInt = 2000
    """Random minimizers for each number of factors."""

    def measure(self, seed: int) -> xr.Dataset:
        task, rates = two_factors(), np.array([self.above, self.below])
        shown = rate_scans.run_at_rates(
            task.step, np.array(self.start), rates, LONG, record=rate_scans.ends_of(LONG, self.steps)
        )
        path = shown.state.values[:, : self.steps + 1]

        def project(rate: float, which: constraint_manifolds.Which) -> np.ndarray:
            found = jax.jit(jax.vmap(lambda x: constraint_manifolds.project(x, rate, which)))
            return np.asarray(found(jnp.asarray(path[1])))

        others = {}
        for name, start in (("far", self.far_start), ("crossing", self.crossing_start)):
            run = rate_scans.run_at_rates(task.step, np.array(start), rates, LONG, record=rate_scans.ends_of(LONG, 0))
            others[name] = (("rate", "kept", "which"), run.state.values[:, -rate_scans.LATE :])
        x = np.linspace(0.5, 2.0, 601)
        curve, etas = jnp.asarray(np.stack([x, 1 / x], axis=-1)), np.linspace(0.6, 1.4, 40)
        member = jax.jit(jax.vmap(jax.vmap(_among_minima, in_axes=(0, None)), in_axes=(None, 0)))
        inside = np.moveaxis(np.asarray(member(curve, jnp.asarray(etas))), -1, 0)
        rng, sharpness = np.random.default_rng(seed), {}
        for n in (2, 3, 4, 6, 10):
            logs = rng.standard_normal((self.minima, n)) * rng.uniform(0, 0.5, (self.minima, 1))
            points = jnp.asarray(np.exp(logs - logs.mean(axis=1, keepdims=True)))
            top = jnp.linalg.eigvalsh(many_factors(n).hessian(points))[:, -1]
            sharpness[n] = np.stack([np.asarray(top), 2 / n * np.sum(np.asarray(points) ** -2.0, axis=1)])
        return xr.Dataset(
            {
                "factors": (("rate", "step", "which"), path),
                "ends": (("rate", "kept", "which"), shown.state.values[:, -rate_scans.LATE :]),
                "on_M": (("step", "which"), project(self.below, "M")),
                "on_M_c": (("step", "which"), project(self.below, "M_c")),
                "inside": (("manifold", "eta", "x"), inside),
                "sharpness": (("n", "how", "minimum"), np.stack(list(sharpness.values()))),
                **others,
            },
            {"step": np.arange(self.steps + 1), "eta": etas, "x": x, "n": list(sharpness), "manifold": ["M", "M_c"]},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The orbit above the threshold, the ends of M below it, and the minimizers on M."""
        inside = constraint_manifolds.on_hyperbola(measured.x.values, measured.eta.values[:, None])
        return xr.Dataset(
            {
                "orbit": ("point", [float(d) for d in quartic_orbit.normalized_orbit(self.above)]),
                "extent": ("end", np.asarray(constraint_manifolds.extent(self.below))),
                "inside": (("eta", "x"), np.asarray(inside)),
            }
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        paths = [measured.factors[1], measured.on_M, measured.on_M_c]
        lengths = [np.sqrt((path[: FROZEN + 1].diff("step") ** 2).sum("which")).sum().item() for path in paths]
        end = measured.ends[1, -1]
        cycles = [np.sort(np.abs(measured[name].values[0, -2:]).T) for name in ("ends", "crossing")]
        off, off_mirrored = (np.abs(cycle - predicted.orbit.values).max() for cycle in cycles)
        top, formula = measured.sharpness.transpose("how", ...)
        return xr.Dataset(
            {
                "moved": ("path", lengths),
                "projected": measured.on_M.values[0, 0] / predicted.extent[1],
                "end_sum": end.sum() / np.sqrt(2 + 2 / self.below),
                "end_loss": (end.prod() - 1) ** 2 / 2,
                "outside_M": (measured.inside.sel(manifold="M", drop=True) != predicted.inside).sum(),
                "outside_M_c": (~measured.inside.sel(manifold="M_c", drop=True)).sum(),
                "off_orbit": off,
                "off_mirrored": off_mirrored,
                "signs": np.sign(measured.crossing[0]).max(),
                "far_finite": np.isfinite(measured.far[0]).all(),
                "least_sharpness": top.min("minimum"),
                "sharpness_error": np.abs(top / formula - 1).max(),
            },
            {"path": ["trajectory", "onto M", "onto M_c"]},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = f"At η = {self.below:g} the projection onto M rests for t = 0 to {FROZEN}: length of its path"
        place = "Figure 3.4 (b)"
        yield below("projection-still", statement, reduced.moved.sel(path="onto M"), 1e-9, source=place)
        statement = "The trajectory and its projection onto M_c do move: lengths of their paths"
        others = reduced.moved.sel(path=["trajectory", "onto M_c"])
        yield above("others-move", statement, others, 0.1, source=place)
        statement = "While it does not move, the projection is the end of M: x over that of the end"
        yield agrees("projection-end", statement, reduced.projected, 1.0, absolute=1e-6, source=place)
        statement = "The trajectory ends on M: x + y over √(2 + 2/η), at a loss of 0"
        yield below("ends-on-M", statement, reduced.end_sum, 1.0, source=place, shown={"loss": reduced.end_loss})
        place = "Propositions 5 and 6"
        statement = "Among minimizers M is {xy = 1, x + y < √(2 + 2/η)} and M_c is {xy = 1}: grid points that differ"
        wrong = xr.concat([reduced.outside_M, reduced.outside_M_c], "manifold")
        yield below("minimizers", statement, wrong, 1, source=place)
        statement = f"At η = {self.above:g}, where M has no minimizer, both factors reach the orbit: largest distance"
        yield below("orbit", statement, reduced.off_orbit, 1e-9, source="Figure 3.4 (a)")
        statement = "At every minimizer of (Πx - 1)²/n the sharpness is at least 2, so that M is empty for η > 1"
        yield above("many-factors", statement, reduced.least_sharpness, 2 - 1e-9, source="Proposition 7")
        statement = "It is (2/n) Σ 1/x²: largest relative error"
        yield below("many-factors-formula", statement, reduced.sharpness_error, 1e-9, source="Proposition 7")
        place = "Figure 3.4, Theorem 3.4's assumption"
        statement = f"At η = {self.above:g} {self.far_start} diverges, and {self.crossing_start} ends with x, y < 0"
        outcomes = [not reduced.far_finite, reduced.signs < 0]
        yield every("other-starts", statement, outcomes, source=place)
        statement = "These are on the mirrored orbit: largest distance of |x|"
        yield below("mirrored-orbit", statement, reduced.off_mirrored, 1e-9, source=place)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (above, below, time) = panels(3, size=(4.8, 4.4))
        for axes, which, rate in ((above, 0, self.above), (below, 1, self.below)):
            _plane(axes, measured.factors.values[which])
            axes.set_title(f"({'ab'[which]}) η = {rate:g}")
        orbit = predicted.orbit.values
        above.plot(orbit, orbit, "x", color="black", markersize=9, label="predicted orbit")
        x = np.linspace(predicted.extent.values[0], predicted.extent.values[1], 100)
        below.plot(x, 1 / x, color=PALETTE[2], linewidth=5, alpha=0.8, zorder=1, label="M")
        for t in range(FROZEN + 1):
            for which, (name, color) in enumerate((("on_M", PALETTE[2]), ("on_M_c", PALETTE[3]))):
                ends = np.stack([measured.factors.values[1, t], measured[name].values[t]])
                label = ("projected onto M", "onto M_c")[which] if t == 0 else None
                below.plot(*ends.T, "-", color=color, linewidth=0.8, alpha=0.9, label=label)
                below.plot(*ends[1], "o", color=color, markersize=5, zorder=4)
        above.legend(loc="upper right")
        below.legend(loc="upper right", fontsize=8)
        early = slice(0, 21)
        for name, color in (("M_c", PALETTE[3]), ("M", PALETTE[2])):
            style = {"color": color, "markersize": 4, "label": f"projection onto {name}"}
            time.plot(measured.step[early], measured[f"on_{name}"][early, 0], "o-", **style)
        path = measured.factors[1, early, 0]
        time.plot(measured.step[early], path, "o", color=PALETTE[1], markersize=3, label="trajectory")
        time.axhline(predicted.extent.values[1], **THEORY, label="end of M")
        time.axvspan(0, FROZEN, color=FAINT, alpha=0.2, linewidth=0)
        time.set(xlabel="step", ylabel="x", title=f"η = {self.below:g}: trajectory and projections")
        time.set_xticks(np.arange(0, 21, 5))
        time.legend(loc="upper right")
        return {"manifold-projection": figure}


def _among_minima(point: jnp.ndarray, rate: jnp.ndarray) -> jnp.ndarray:
    """Whether a minimizer is on M, and on M_c."""
    return jnp.stack([constraint_manifolds.in_manifold(point, rate, which) for which in ("M", "M_c")])


def _plane(axes: Axes, path: np.ndarray) -> None:
    x = np.linspace(0.45, 2.2, 200)
    axes.plot(x, 1 / x, color=FAINT, zorder=0, label="minima, xy = 1")
    axes.plot(*path.T, "-", color=PALETTE[1], linewidth=0.5, alpha=0.6)
    axes.plot(*path.T, "o", color=PALETTE[1], markersize=3.5, zorder=3, label="gradient descent")
    axes.annotate("start", path[0], xytext=(5, 4), textcoords="offset points", fontsize=8, color=INK)
    left, bottom = path.min(axis=0) - 0.1
    axes.set(xlabel="x", ylabel="y", xlim=(min(0.5, left), 1.95), ylim=(min(0.3, bottom), 1.6))
