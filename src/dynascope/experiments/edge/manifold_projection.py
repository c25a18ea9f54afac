"""Figure 3.4: a trajectory of the product loss, and the manifolds to which it should be confined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.curves import orbits
from dynascope.experiments.edge import rate_scans
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim
from dynascope.lab.experiment import Source
from dynascope.tasks.products import many_factors, two_factors
from dynascope.theory.edge import constraint_manifolds, quartic_orbit

FROZEN = 5
"""Steps over which the projection onto M does not move."""
ON_CURVE = (1.574, 1.569, 1.550, 1.515, 1.348)
"""x of the projection onto M_c at the first steps, by an independent computation."""
LONG = 4000


class ManifoldProjection(EdgeExperiment):
    """Does the manifold {λ < 2/η, ∇L · u = 0} describe where gradient descent goes?"""

    id = "edge.manifold-projection"
    source = Source(DOCUMENT, "Figure 3.4; Propositions 5-7, Definition 4")
    cost = {"quick": 6, "full": 6}
    presets = {"quick": {}}
    control = {"start": (1.05, 0.9)}
    notes = """M = {λ < 2/η, ∇L · u = 0} is the manifold of Damian et al., M_c that of the document, with the second
    eigenvalue in place of λ; both are restricted to minimizers (see edge.errata). Above η = 1, M has no minimizer.
    Below it has, but the projection of a trajectory that starts far away is the end point of M and does not move while
    the trajectory does. The text gives no start; (1.6, 0.7) is our choice. The control starts next to M, and the
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
            {"rate": rates, "step": np.arange(self.steps + 1), "eta": etas, "x": x, "n": list(sharpness),
             "manifold": ["M", "M_c"]},
        )  # fmt: skip

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The orbit above the threshold, the ends of M below it, and which minimizers M holds."""
        inside = constraint_manifolds.on_hyperbola(measured.x.values, measured.eta.values[:, None])
        return xr.Dataset(
            {
                "orbit": ("point", [float(d) for d in quartic_orbit.normalized_orbit(self.above)]),
                "extent": ("end", np.asarray(constraint_manifolds.extent(self.below))),
                "inside": (("eta", "x"), np.asarray(inside)),
            }
        )

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        early = slice(0, FROZEN + 1)
        path, on_m, on_curve = (
            measured.factors.values[1, early],
            measured.on_M.values[early],
            measured.on_M_c.values[early],
        )
        moved = {"trajectory": _length(path), "onto M": _length(on_m), "onto M_c": _length(on_curve)}
        yield claim(
            "projection-still", f"At η = {self.below:g} the projection onto M does not move for t = 0 to {FROZEN}, "
            "while the trajectory and its projection onto M_c do (lengths of the paths)",
            source="Figure 3.4 (b)", measured=moved,
            expected="onto M < 1e-9; the others > 0.1",
            holds=moved["onto M"] < 1e-9 and moved["trajectory"] > 0.1 and moved["onto M_c"] > 0.1,
        )  # fmt: skip
        ends, end = predicted.extent.values, measured.ends.values[1, -1]
        later = measured.on_M.values[FROZEN + 1, 0]
        yield claim(
            "projection-values", "x of M's ends, of the projection before and after it moves, the end of the "
            "trajectory and its x + y", source="Figure 3.4 (b)",
            measured={"M": ends, "first": on_m[0, 0], "then": later, "end": end, "x + y": end.sum(),
                      "M_c": on_curve[:5, 0]},
            expected={"M": [0.8509, 1.1753], "first": 1.1753, "then": "about 1.066", "end": [1.0635, 0.9402],
                      "x + y": "2.004 < 2.0261", "M_c": list(ON_CURVE)},
            holds=bool(np.abs(ends - [0.8509, 1.1753]).max() < 1e-4 and abs(on_m[0, 0] - 1.1753) < 1e-4
                       and abs(later - 1.066) < 5e-3 and np.abs(end - [1.0635, 0.9402]).max() < 1e-4
                       and end.sum() < 2.0261 and np.abs(on_curve[:5, 0] - ON_CURVE).max() < 1e-3),
        )  # fmt: skip
        empty = ~measured.inside.values[0].any(axis=1)
        wrong = int((measured.inside.values[0] != predicted.inside.values).sum())
        outside = int((~measured.inside.values[1]).sum())
        yield claim(
            "minimizers", "Among minimizers M is {xy = 1, x + y < √(2 + 2/η)}, empty exactly for η ≥ 1, and M_c all of "
            "xy = 1 (number of points on a grid of η and x at which the Hessian disagrees)",
            source="Propositions 5 and 6",
            measured={"M": wrong, "M_c": outside, "η with M empty": [measured.eta.values[empty].min(), "to", 1.4]},
            expected="0, 0, from 1", holds=wrong == 0 and outside == 0
            and bool(np.array_equal(empty, measured.eta.values > 1 - 1e-12)), seeds=measured.inside[0].size,
        )  # fmt: skip
        cycle = [orbits.last_cycle(np.abs(measured.ends.values[0, :, k]), 2) for k in (0, 1)]
        off = max(np.abs(c - predicted.orbit.values).max() for c in cycle)
        yield claim(
            "orbit", f"At η = {self.above:g}, where M has no minimizer, both factors reach the orbit",
            source="Figure 3.4 (a)",
            measured={"x": cycle[0], "off by": off}, expected={"x": [0.8357, 1.1079], "off by": "< 1e-9"},
            holds=bool(off < 1e-9 and np.abs(cycle[0] - [0.8357, 1.1079]).max() < 1e-4),
        )  # fmt: skip
        top, formula = measured.sharpness.values[:, 0], measured.sharpness.values[:, 1]
        error = np.abs(top / formula - 1).max()
        yield claim(
            "many-factors", "At every minimizer of (Πx - 1)²/n the sharpness is (2/n) Σ 1/x² ≥ 2: M is empty for η > 1",
            source="Proposition 7",
            measured={"least": dict(zip(map(str, measured.n.values), top.min(axis=1), strict=True)),
                      "relative error of the formula": error},
            expected="≥ 2, error < 1e-9", holds=bool(top.min() >= 2 - 1e-9 and error < 1e-9), seeds=top.size,
        )  # fmt: skip
        far, mirrored = measured.far.values[0], measured.crossing.values[0]
        negative = orbits.last_cycle(np.abs(mirrored[:, 0]), 2)
        yield claim(
            "other-starts", f"At η = {self.above:g} {self.far_start} diverges; {self.crossing_start} crosses to "
            "negative factors and ends on the mirrored orbit", source="Figure 3.4, Theorem 3.4's assumption",
            measured={"far": not bool(np.isfinite(far).all()), "signs": np.sign(mirrored[-1]), "|x|": negative},
            expected={"far": True, "signs": [-1, -1], "|x|": predicted.orbit.values, "within": 1e-9},
            holds=bool(not np.isfinite(far).all() and np.all(mirrored < 0)
                       and np.abs(negative - predicted.orbit.values).max() < 1e-9),
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
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
                below.plot(*ends.T, "-", color=color, linewidth=0.8, alpha=0.9,
                           label=("projected onto M", "onto M_c")[which] if t == 0 else None)  # fmt: skip
                below.plot(*ends[1], "o", color=color, markersize=5, zorder=4)
        above.legend(loc="upper right")
        below.legend(loc="upper right", fontsize=8)
        early = slice(0, 21)
        for name, color, label in (("on_M_c", PALETTE[3], "projection onto M_c"),
                                    ("on_M", PALETTE[2], "projection onto M")):  # fmt: skip
            time.plot(measured.step[early], measured[name][early, 0], "o-", color=color, markersize=4, label=label)
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


def _length(path: np.ndarray) -> float:
    return float(np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1)))


def _plane(axes: Axes, path: np.ndarray) -> None:
    x = np.linspace(0.45, 2.2, 200)
    axes.plot(x, 1 / x, color=FAINT, zorder=0, label="minima, xy = 1")
    axes.plot(*path.T, "-", color=PALETTE[1], linewidth=0.5, alpha=0.6)
    axes.plot(*path.T, "o", color=PALETTE[1], markersize=3.5, zorder=3, label="gradient descent")
    axes.annotate("start", path[0], xytext=(5, 4), textcoords="offset points", fontsize=8, color=INK)
    left, bottom = path.min(axis=0) - 0.1
    axes.set(xlabel="x", ylabel="y", xlim=(min(0.5, left), 1.95), ylim=(min(0.3, bottom), 1.6))
