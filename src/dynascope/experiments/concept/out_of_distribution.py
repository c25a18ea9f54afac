"""Figures 15 and 16 of the submission: the test point is far from all training data, and truncation changes nothing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import stages
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.concept import transients
from dynascope.experiments.concept.sim_experiment import Signals, SimExperiment
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import FAINT, INK, THEORY, concept_plane, panels
from dynascope.lab.criteria import agrees, below, every, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.models.mlp import MLP
from dynascope.tasks.structured_identity import StructuredIdentity, random_rotation
from dynascope.theory.concept.nearest_point import nearest_point

WIDE_SIGMA = 0.3
"""A spread at which truncation rejects some points."""


class OutOfDistribution(SimExperiment):
    """Is the test point out of distribution, and does removing the training points near it change learning?"""

    id = "concept.out-of-distribution"
    source = Source(CONCEPTS, "Figures 15 and 16 of the submission")
    cost = {"quick": 14, "full": 35}
    presets = {"quick": {"seeds": 20, "high_seeds": 2, "epochs": 20}}
    control = {"sigma": (0.5, 0.5)}
    notes = """The nearest training cluster is μ₁ = 1 away from the test point: 20 of the paper's standard deviations
    of 0.05. No training point lies within the radius of 0.5 that the truncation clears, so truncated and untruncated
    runs are the same runs, bit for bit. With a wider spread, σ = 0.3, truncation redraws about 3 % of the nearer
    cluster. There the noise of the batches makes the loss jitter on its plateaus by more than 1 % of its start, so
    runs are compared by whether they turn and by their deepest rise, not by the number of turns. The control spreads
    the clusters by 0.5, and training points lie around the test point. Theory: a point falls within r of the test point
    with the probability that its Gaussian gives to that disc."""

    defaults = {"depth": 4, "seeds": 50}

    mu: tuple[float, float] = (1.0, 2.0)
    sigma: tuple[float, float] = (0.05, 0.05)
    radius: float = Field(0.5, gt=0)
    """Training points nearer than this to the test point are redrawn."""
    dim: PositiveInt = 64
    """The high dimension."""
    low_dim: PositiveInt = 2
    high_seeds: PositiveInt = 10

    def spreads(self) -> list[tuple[float, float]]:
        return [self.sigma, (WIDE_SIGMA, WIDE_SIGMA)]

    def measure(self, seed: int) -> xr.DataTree:
        signals = [(self.mu, spread) for spread in self.spreads()]
        radii = np.array([0.0, self.radius], self.precision)
        nodes = {"/": xr.Dataset({"rotation_error": rotation_error(self, signals, seed)})}
        for name, dim, seeds, chosen in (
            ("low", self.low_dim, self.seeds, signals),
            ("high", self.dim, self.high_seeds, signals[:1]),
        ):
            set_up = self.model_copy(update={"dim": dim, "seeds": seeds})
            record = ds.log_steps(self.steps(2), 400)
            trace = set_up.train(chosen, seed, record=record, over={"truncate_radius": radii})
            loss = trace.test_loss.isel(signal=0, truncate_radius=0).transpose("seed", "step").values
            deepest = int(np.argmax(stages.memorization_depth(loss)))
            members = member_seeds(seed, seeds)
            data = data_near_test_point(set_up, chosen, members, radii, self.radius, shown=deepest)
            nodes[name] = trace.drop_dims("start_step").merge(data)
        return xr.DataTree.from_dict(nodes)

    def predict(self, measured: xr.DataTree) -> xr.Dataset:
        """The expected number of points inside the radius, and the range of the smallest distance in 99 % of
        samples."""
        expected = [nearest_point(self.mu, spread, self.radius, self.samples or 5000) for spread in self.spreads()]
        return xr.concat(expected, "signal")

    def reduce(self, measured: xr.DataTree, predicted: xr.Dataset) -> xr.DataTree:
        """The node `narrow` has the runs of both dimensions, `wide` those with a spread of `wide_sigma`."""
        names = ["inside", "nearest", "moment", "test_loss", "output"]
        low, high = (measured[name].to_dataset()[names] for name in ("low", "high"))
        narrow = xr.concat([part.isel(signal=0, drop=True) for part in (low, high)], "seed")
        nodes = {"narrow": narrow, "wide": low.isel(signal=1, drop=True)}
        tree: dict[str, xr.Dataset] = {"/": predicted.assign(rotation_error=measured.rotation_error)}
        for name, runs in nodes.items():
            loss = runs.test_loss.transpose("truncate_radius", "seed", "step")
            levels = np.array([transients.deepest_rise(curves) for curves in loss.values])
            tree[name] = runs[["inside", "nearest", "moment"]].assign(
                changed=(runs.output.diff("truncate_radius") != 0).any(("truncate_radius", "step", "concept"))
                | (loss.diff("truncate_radius") != 0).any(("truncate_radius", "step")),
                descents=transients.count_descents(loss),
                levels=(("truncate_radius", "extremum", "seed"), levels),
            )
        return xr.DataTree.from_dict(tree)

    def judge(self, reduced: xr.DataTree) -> Claims:
        narrow, wide = reduced["narrow"].to_dataset(), reduced["wide"].to_dataset()
        free = narrow.isel(truncate_radius=0)
        statement = f"No training point lies within {self.radius:g} of the test point, in any seed"
        yield every("nothing-near", statement, free.inside == 0, shown={"smallest distance": free.nearest.min()})
        near, far = reduced.nearest.isel(signal=0).values
        statement = "The distance of the nearest point is in the range that Gaussian clusters give in 99 % of samples"
        shown = {"range": [near, far], "median": free.nearest.median()}
        yield share("nearest", statement, (free.nearest >= near) & (free.nearest <= far), 0.9, shown=shown)
        statement = "So truncation rejects nothing, and every curve is the same, bit for bit"
        yield every("identical", statement, ~narrow.changed, source="Figure 16")
        rejected, expected = wide.inside.isel(truncate_radius=0), float(reduced.inside.isel(signal=1))
        statement = f"With σ = {WIDE_SIGMA:g} truncation rejects as many points as the Gaussian puts into the disc"
        error = 4 * (expected / rejected.size) ** 0.5
        yield agrees("wide-rejections", statement, rejected.mean(), expected, absolute=error, source="Figure 16")
        yield from self._judge_wide(wide)
        left = np.append(narrow.inside.isel(truncate_radius=1), wide.inside.isel(truncate_radius=1))
        yield every("truncated", "Truncation leaves no point inside the radius", left == 0, source="Appendix F.3")
        a = xr.DataArray(self.strengths([(self.mu, self.sigma)])[0], dims="concept")
        statement = "The second moment of the samples is a = σ² + μ²/s, in every seed"
        yield agrees("second-moment", statement, free.moment, a, relative=0.02, source="Equation C.13")
        statement = "Rotating the data and the network with them changes no loss (float64)"
        yield below("rotation", statement, reduced.rotation_error, 1e-12, source="Appendix F.1", seeds=1)

    def _judge_wide(self, wide: xr.Dataset) -> Claims:
        twice = wide.descents >= 2
        statement = "All curves then differ, but the same seeds have two descents or more"
        same = (twice.isel(truncate_radius=0) == twice.isel(truncate_radius=1)) & wide.changed
        yield share("wide-unchanged", statement, same, 0.9, source="Figure 16")
        levels = wide.levels.where(twice.all("truncate_radius"), drop=True)
        shift = np.abs(levels.diff("truncate_radius")).median(("truncate_radius", "seed"))
        statement = "The minimum and the maximum of the deepest rise move less than seeds differ: median over spread"
        yield below(
            "wide-extrema", statement, shift / levels.isel(truncate_radius=0).std("seed"), 1, source="Figure 16"
        )

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset, reduced: xr.DataTree) -> Figures:
        low, high = measured["low"].to_dataset(), measured["high"].to_dataset()
        figure, grid = panels(3, 2)
        cases = ((low, 0, 0, self.low_dim), (high, 0, 0, self.dim), (low, 1, 1, self.low_dim))
        styles = ((0, {"color": transients.MEMORIZING}, "all points"), (1, THEORY, "truncated"))
        for (plane, losses), (part, signal, radius, dim) in zip(grid.T, cases, strict=True):
            run = part.isel(signal=signal, seed=int(part.shown))
            self._draw_data(plane, run.isel(truncate_radius=radius))
            plane.set_title(f"d = {dim}, σ = {self.spreads()[signal][0]:g}" + (", truncated" if radius else ""))
            for k, style, label in styles:
                curve = run.test_loss.isel(truncate_radius=k)
                losses.plot(run.step, curve / curve[0], label=label, **style)
            transients.loss_axes(losses)
            losses.legend(loc="upper right")
            rejected = int(run.inside.isel(truncate_radius=0))
            losses.set_title(f"{rejected} of {run.sizes['point']:,} points rejected")
        grid[0, 1].legend(loc="center right", bbox_to_anchor=(1, 0.42))
        return {"out-of-distribution": figure}

    def _draw_data(self, axes: Axes, run: xr.Dataset) -> None:
        points = run["points"].values[::5]
        axes.plot(*points.T, ".", color=FAINT, markersize=1.5, alpha=0.6, rasterized=True)
        axes.plot(*run.output.transpose("step", "concept").values.T, color=transients.MEMORIZING, label="output")
        circle = {"fill": False, "color": INK, "linewidth": 1, "linestyle": "--"}
        axes.add_patch(Circle(self.mu, self.radius, **circle, label=f"radius {self.radius:g}"))
        concept_plane(axes, self.mu)
        axes.set_aspect("equal", adjustable="datalim")


def data_near_test_point(
    experiment: SimExperiment, signals: Signals, seeds: np.ndarray, radii: np.ndarray, within: float, shown: int
) -> xr.Dataset:
    """The data that the networks of `experiment` are trained on, for every signal, seed and truncation radius: the
    `nearest` distance from the test point, how many points are `inside` the distance `within`, the second `moment`; and
    the `points` of the seed number `shown`, all in the unrotated frame."""
    learner, rate = experiment.learner(), jnp.asarray(experiment.learning_rate, experiment.precision)
    mu, sigma = (np.asarray([signal[k] for signal in signals], experiment.precision) for k in (0, 1))
    concepts = mu.shape[1]

    def points(seed: Array, mu: Array, sigma: Array, radius: Array) -> Array:
        descent = learner(seed, (mu, sigma), rate, truncate_radius=radius)
        task: Any = descent.objective.task  # a structured identity
        return task.concepts(descent.objective.data)

    def statistics(setting: Any) -> tuple[Array, Array, Array]:
        x, target = points(*setting), jnp.pad(setting[1], (0, experiment.dim - concepts))
        distance = jnp.linalg.norm(x - target[None, :], axis=1)
        return jnp.min(distance), jnp.sum(distance < within), jnp.mean(x**2, axis=0)[:concepts]

    shape = (len(signals), len(seeds), len(radii))
    which, seed, radius = np.indices(shape).reshape(3, -1)
    every = jax.jit(lambda settings: jax.lax.map(statistics, settings))
    nearest, inside, moment = every((seeds[seed], mu[which], sigma[which], radii[radius]))
    seen = jax.jit(points)
    chosen = [[seen(seeds[shown], mu[k], sigma[k], r)[:, :concepts] for r in radii] for k in range(len(signals))]
    dims = ("signal", "seed", "truncate_radius")
    table = {
        "nearest": (dims, np.asarray(nearest).reshape(shape)),
        "inside": (dims, np.asarray(inside).reshape(shape)),
        "moment": ((*dims, "concept"), np.asarray(moment).reshape(*shape, concepts)),
        "points": (("signal", "truncate_radius", "point", "concept"), np.array(chosen)),
        "shown": shown,
    }
    return xr.Dataset(table)


def rotation_error(experiment: SimExperiment, signals: Signals, seed: int) -> float:
    """In float64, the largest relative change of the population, sample and test loss of a network when the data are
    rotated and the network with them."""
    mu, sigma = signals[0]
    with jax.enable_x64(True):
        turn, init, data = jax.random.split(jax.random.key(seed), 3)
        rotation = random_rotation(turn, experiment.dim)
        network = MLP(experiment.dim, experiment.depth, key=init)
        weights = list(network.weights)
        weights[0] = weights[0] @ rotation.T
        weights[-1] = rotation @ weights[-1]
        losses = []
        for model, turned in ((network, None), (MLP.from_weights(weights), rotation)):
            task = StructuredIdentity(np.array(mu), np.array(sigma), experiment.dim, rotation=turned)
            x = task.dataset(data, 500).x
            losses.append([task.population_loss(model), task.loss(model, x), task.test_loss(model)])
        first, second = np.array(losses)
    return float(np.max(np.abs(second / first - 1)))
