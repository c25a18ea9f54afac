"""Example 3.2: in a diagonal transformer one product gains rank at a time, unless two heads of a layer tie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import ACTIVE, Scale, against_stages, as_predicted, record_times
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import agrees, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.models.diagonal import DiagonalTransformer
from dynascope.tasks.diagonal import DiagonalRegression
from dynascope.theory.rank.diagonal_flow import reduced_flow
from dynascope.theory.rank.greedy_ranks import LAG, Stage, greedy_stages, resolved_plateaus, staircase

COROLLARY = (
    "As a corollary of Theorem 4.1, the gradient flow on a diagonal transformer with small initialization will learn "
    "in stages, where in each stage there will be at most one head i ∈ [H] in one layer ℓ ∈ [L] such that either the "
    "rank of W_K (W_Q)ᵀ [...] or the rank of W_V (W_Q)ᵀ [...] increases by at most one."
)


class DiagonalTransformerRank(Experiment):
    """Does a diagonal transformer of two layers gain rank in one product of one head at a time?"""

    id = "rank.diagonal-transformer"
    source = Source(GRADUAL_RANK, "Example 3.2, Theorem 4.1")
    cost = {"quick": 18, "full": 90}
    presets = {"quick": {"samples": 60, "stages": 4, "points": 300}}
    control = {"scale": 0.3}
    notes = """The paper has no such run. Its Section 4 applies the theorem to transformers with diagonal attention
    matrices, any number of layers and heads, and frozen feedforward layers. With one head per layer it does. With two
    it cannot: at beta = 0 both attend uniformly, so that the forces on their value-output coordinates are equal for any
    data, the race of Algorithm 1 is a tie, and Assumption 4.3 fails. Both heads then learn the coordinate together, in
    shares (u0 ± v0)² that do not depend on the scale. Plateaus are judged if they are resolved, as in rank.weights; the
    scale is so small because the stages of such a network are close together. With one head per layer, several
    teachers, each with its own start, are followed, because one of them may have a single resolved plateau; with two
    heads, only the first of them."""

    defaults = {"precision": "float64"}

    dim: PositiveInt = Field(4, ge=2)
    tokens: PositiveInt = Field(4, ge=2)
    depth: PositiveInt = 2
    hidden: PositiveInt = 8
    samples: PositiveInt = 200
    kept: PositiveInt = 2
    """Nonzero entries of each of the teacher's products."""
    scale: Scale = 1e-300
    stages: PositiveInt = Field(6, ge=2)
    """The number of stages that are followed."""
    points: PositiveInt = Field(300, ge=10)
    seeds: PositiveInt = 3
    """The number of teachers with one head per layer."""

    def problem(self, seed: int, heads: int) -> tuple[DiagonalRegression, np.ndarray, np.ndarray]:
        """The regression of a network with `heads` heads per layer on a sparse teacher of the same kind, and a start
        u, v."""
        network = DiagonalTransformer(self.dim, self.depth, heads, self.hidden, key=jax.random.key(seed))
        rng = np.random.default_rng(seed)
        x = jnp.asarray(rng.normal(size=(self.samples, self.tokens, self.dim)))
        teacher = rng.normal(size=(*network.shape[:3], self.dim))
        for product in teacher.reshape(-1, self.dim):
            product[rng.permutation(self.dim)[self.kept :]] = 0.0
        y = jax.vmap(lambda one: network(one, jnp.asarray(teacher.ravel())))(x)
        u, v = rng.normal(size=(2, network.size))
        return DiagonalRegression(network, x, y), u, v

    def measure(self, seed: int) -> xr.DataTree:
        numbers = member_seeds(seed, self.seeds).tolist()
        nodes = {"/": xr.Dataset(attrs={"numbers": numbers})}
        for k, number in enumerate(numbers):
            stages = predictions(self.model_dump_json(), number)
            nodes[f"one_head_{k}"] = self._flow(*self.problem(number, 1), 1.15 * stages[-1].time, stages)
        two = self.problem(numbers[0], 2)
        first = first_race(two[0])
        nodes["two_heads"] = self._flow(*two, first.next_time + 1.5 * LAG / first.pace(self.scale))
        return xr.DataTree.from_dict(nodes)

    def _flow(
        self, task: DiagonalRegression, u: np.ndarray, v: np.ndarray, until: float, stages: Sequence[Stage] = ()
    ) -> xr.Dataset:
        times = record_times(until, self.points, [stages])
        trace = reduced_flow(task, u, v, [self.scale], times, tolerance=1e-6)
        return trace[["loss", "product"]].isel(scale=0, drop=True)

    def predict(self, measured: xr.DataTree) -> xr.Dataset:
        stages = predictions(self.model_dump_json(), _numbers(measured)[0])
        return staircase(stages, measured["one_head_0"].to_dataset().time.values)

    def reduce(self, measured: xr.DataTree, predicted: xr.Dataset) -> xr.Dataset:
        numbers = _numbers(measured)
        paths = [measured[f"one_head_{k}"].to_dataset()["product"] for k in range(len(numbers))]
        found = [self._stages_of(number, path) for number, path in zip(numbers, paths, strict=True)]
        whole = xr.concat(found, xr.DataArray(numbers, dims="teacher", name="teacher"))
        return whole.assign(**self._tie(measured)).assign_coords(kind=["KQ", "VO"])

    def _stages_of(self, number: int, path: xr.DataArray) -> xr.Dataset:
        """The path of one teacher's products beside Algorithm 1, what each stage gains, and the force on each kind of
        product at the start."""
        stages, until = predictions(self.model_dump_json(), number), float(path.time[-1])
        found = against_stages(path, stages, resolved_plateaus(stages, self.scale, until), self.scale, until)
        gained = [0.0, *(len(set(after.support) - set(before.support)) for before, after in pairwise(stages))]
        force = np.abs(stages[0].force).reshape(self.depth, -1, 2, self.dim).max(axis=(0, 1, 3))
        return found.assign(gained=("stage", gained), force=("kind", force))

    def _tie(self, measured: xr.DataTree) -> dict[str, Any]:
        """Two heads: the gap of the first race, the coordinate that both learn, and its share in the first head, in the
        flow and from the start."""
        task, u, v = self.problem(_numbers(measured)[0], 2)
        first, shape = first_race(task), (self.depth, 2, 2, self.dim)
        winner = np.unravel_index(int(first.waits.argmin()), shape)
        sign = float(np.sign(first.force.reshape(shape)[winner]))
        layer, _, product, coordinate = (int(part) for part in winner)
        both = measured["two_heads"].to_dataset()["product"].values[-1].reshape(shape)[layer, :, product, coordinate]
        start = (u + sign * v).reshape(shape)[layer, :, product, coordinate] ** 2
        shares = {"share": both[0] / both.sum(), "start_share": start[0] / start.sum()}
        return {"gap": first.gap, "both": ("head", both), **shares}

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield from as_predicted(reduced)
        statement = "In each stage of Algorithm 1 at most one product of one layer gains rank, by one"
        yield every("rank-one", statement, (reduced.gained <= 1).where(reduced.gained.notnull()))
        statement = "Values are learned first: at beta = 0 no force acts on keys and queries (as a share)"
        forces = reduced.force.sel(kind="KQ") / reduced.force.sel(kind="VO")
        yield below("values-first", statement, forces, 1e-12, source="eq. (4) at 0")
        statement = "With two heads in a layer the corollary fails: their value-output coordinates tie exactly in the "
        statement += "first stage (gap 0), for any data, so that Assumption 4.3 never holds, and both learn the same "
        statement += "coordinate at once; the share of the first is that of (u0 ± v0)²"
        shown = {"gap": float(reduced.gap), "products of the two heads": reduced.both.values}
        tied = bool((reduced.gap < 1e-9) & (np.abs(reduced.both) > ACTIVE).all())
        share = float(reduced.share) if tied else np.nan
        both = agrees("heads-tie", statement, share, float(reduced.start_share), absolute=0.01, shown=shown)
        yield erratum(both, kind="error", printed=COROLLARY, at="Section 4, Application")

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (one, two) = panels(2, size=(5.6, 3.8))
        for axes, name, heads in ((one, "one_head_0", 1), (two, "two_heads", 2)):
            flow = measured[name].to_dataset()
            times, paths, shape = flow.time.values, flow["product"].values, (self.depth, heads, 2, self.dim)
            for i, place in enumerate(np.ndindex(shape)):
                layer, head, product, _ = place
                if np.abs(paths[:, i]).max() > ACTIVE:
                    color, style = PALETTE[2 * product + layer % 2], "-" if head == 0 else ":"
                    axes.plot(times, paths[:, i], color=color, linewidth=1.5, linestyle=style)
                else:
                    axes.plot(times, paths[:, i], color=FAINT, linewidth=0.6)
        for i in range(predicted.sizes["coordinate"]):
            if np.abs(predicted["product"].values[:, i]).max() > ACTIVE:
                one.plot(predicted.time, predicted["product"].values[:, i], **{**THEORY, "linewidth": 0.7})
        for product, name in enumerate(("KQ", "VO")):
            for layer in range(min(self.depth, 2)):
                one.plot([], [], color=PALETTE[2 * product + layer], label=f"{name}, layer {layer + 1}")
        one.legend(fontsize=8)
        two.plot([], [], color=FAINT, linestyle=":", label="second head")
        two.legend(fontsize=8)
        one.set(xlabel="rescaled time", ylabel="entries of the products", title="One head per layer: one by one")
        two.set(xlabel="rescaled time", title="Two heads per layer: a tie")
        return {"diagonal-transformer": figure}


def _numbers(measured: xr.DataTree) -> list[int]:
    """The seeds of the teachers."""
    return np.atleast_1d(measured.attrs["numbers"]).tolist()


@lru_cache(maxsize=8)
def predictions(fields: str, number: int) -> list[Stage]:
    """Algorithm 1 with one head per layer, for an experiment's fields; cached, since judging and drawing both need
    it."""
    experiment = DiagonalTransformerRank.model_validate_json(fields)
    task, u, _ = experiment.problem(number, 1)
    return greedy_stages(task, len(u), most=experiment.stages + 1)


def first_race(task: DiagonalRegression) -> Stage:
    """The plateau at beta = 0."""
    network: Any = task.network
    return greedy_stages(task, network.size, most=1)[0]
