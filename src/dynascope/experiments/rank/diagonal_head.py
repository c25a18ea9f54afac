"""The base of the experiments on the diagonal head of Appendix A: its task, its flow and its stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from pydantic import AfterValidator, Field, PositiveInt

import dynascope as ds
from dynascope.curves.plateaus import switches
from dynascope.curves.stages import first_crossing
from dynascope.dynamics.ensemble import member_seeds
from dynascope.lab.criteria import below, share
from dynascope.lab.experiment import Claims, Experiment
from dynascope.models.diagonal import AttentionHead
from dynascope.tasks.diagonal import DiagonalRegression, ToyHead, toy_head
from dynascope.theory.rank.diagonal_flow import reduce_weights, reduced_process
from dynascope.theory.rank.greedy_ranks import LAG, Stage, greedy_stages

ACTIVE = 1e-3
"""The least |beta| of an entry that counts for the rank."""

Scale = Annotated[float, Field(gt=0, lt=1)]


def descending(scales: tuple[float, ...]) -> tuple[float, ...]:
    """The scales without repetition, the largest first."""
    return tuple(sorted(set(scales), reverse=True))


Scales = Annotated[tuple[Scale, ...], Field(min_length=1), AfterValidator(descending)]


def regression(head: ToyHead) -> DiagonalRegression:
    """The loss of a student of this teacher."""
    network, x = AttentionHead(head.x.shape[2]), jnp.asarray(head.x)
    return DiagonalRegression(network, x, jax.vmap(lambda one: network(one, jnp.asarray(head.teacher)))(x))


class HeadMember(ds.Member):
    """A member of the ensemble: the flow from one start of one teacher's student, at one initial scale."""

    dim: int

    def __call__(self, seed: Mapping[str, Array], scale: Mapping[str, Array]) -> ds.Flow:
        task = DiagonalRegression(AttentionHead(self.dim), seed["x"], seed["y"])
        start = reduce_weights(seed["u"], seed["v"], -scale["pace"])
        return reduced_process(task, start, scale["pace"], tolerance=1e-8)


class HeadExperiment(Experiment):
    """Fields common to the experiments on the diagonal head, with Appendix A's values if it states them."""

    defaults = {"precision": "float64"}

    dim: PositiveInt = 50
    tokens: PositiveInt = 10
    samples: PositiveInt = 1000
    kept: PositiveInt | None = 5
    """Nonzero coordinates of each of the teacher's products; None keeps all of them."""
    horizon: float = Field(5.0, gt=0)
    """The end of the run, in rescaled time."""
    points: PositiveInt = Field(600, ge=10)
    """The number of times at which the flow is recorded."""
    seeds: PositiveInt = 1

    def numbers(self, seed: int) -> list[int]:
        """The seeds of the teachers and students."""
        return [int(number) % 2**32 for number in member_seeds(seed, self.seeds, block=1000)]

    def head(self, number: int) -> ToyHead:
        """The data, teacher and start of one seed."""
        return toy_head(number, self.dim, self.tokens, self.samples, self.kept)

    def flow(self, seed: int, scales: Sequence[float]) -> xr.Dataset:
        """The flow of every seed from every scale: loss (seed, scale, time), product and log_weight (seed, scale, time,
        coordinate), at the `record_times`."""
        numbers = self.numbers(seed)
        heads = [self.head(number) for number in numbers]
        data = {name: np.stack([getattr(head, name) for head in heads]) for name in ("x", "u", "v")}
        data["y"] = np.stack([regression(head).y for head in heads])
        over = {"seed": data, "scale": {"pace": -np.log(scales)}}
        times = record_times(self.horizon, self.points, [self.stages_of(number, self.horizon) for number in numbers])
        trace = ds.ensemble(HeadMember(self.dim), over, times=times, width=1).trace
        return trace.assign_coords(seed=numbers, scale=list(scales))

    def stages(self, measured: xr.Dataset) -> list[list[Stage]]:
        """Algorithm 1 for each seed of a measurement."""
        return [self.stages_of(int(number), self.horizon) for number in measured.seed.values]

    def stages_of(self, number: int, until: float) -> list[Stage]:
        """Algorithm 1 for one seed."""
        return _stages(number, self.dim, self.tokens, self.samples, self.kept, until)


@lru_cache(maxsize=16)
def _stages(number: int, dim: int, tokens: int, samples: int, kept: int | None, until: float) -> list[Stage]:
    """Cached, since measuring, predicting and reducing need them."""
    return greedy_stages(regression(toy_head(number, dim, tokens, samples, kept)), 2 * dim, until=until)


class Activation(NamedTuple):
    """The event that an entry of the product exceeds `ACTIVE` in size."""

    time: float
    coordinate: int
    sign: int


def activations(path: Float[np.ndarray, "time p"], times: Float[np.ndarray, " time"]) -> list[Activation]:
    """All activations in the order of time, including those of entries that return."""
    stretches = switches(path, times, ACTIVE)
    return sorted(Activation(one.on, i, one.sign) for i, entry in enumerate(stretches) for one in entry)


def record_times(until: float, points: int, systems: Iterable[Sequence[Stage]]) -> Float[np.ndarray, " points"]:
    """Half of the times are spread evenly. The others are dense around the beginnings of the plateaus, when the limit
    has kinks and the flow moves at a pace that depends on its scale; some are the beginnings and the middles
    themselves. Their number does not depend on the stages, so that all seeds run the same program."""
    stages = [stage for stages in systems for stage in stages if stage.time < until]
    begins = np.array([stage.time for stage in stages])
    marks = np.unique(np.append(begins, [stage.middle(until) for stage in stages]))
    marks = marks[marks > 0][: points // 2]
    beside = np.geomspace(until / 20_000, until / 20, max(points // 4 // max(len(stages), 1), 1))
    near = np.unique(np.append(begins[:, None] - beside, begins[:, None] + beside))
    near = np.setdiff1d(near[(near > 0) & (near < until)], marks)
    near = near[:: max(1, -(-len(near) // (points // 4)))]
    even = points - len(marks) - len(near)
    return np.sort(np.concatenate([np.linspace(0, until, even), marks, near]))


def against_stages(
    product: xr.DataArray, stages: Sequence[Stage], chosen: Sequence[int], scale: float, until: float
) -> xr.Dataset:
    """A path of the products (time, coordinate) beside Algorithm 1, on the `chosen` stages and NaN elsewhere (stage):
    in the middle of the plateau the largest `error` of an entry, and the number of entries with a `wrong` sign (0 up to
    1e-3); and the `lag` behind T_k at which the winner reaches half of its plateau, if the plateau before is chosen
    too, in the units of the stage before."""
    found = {name: np.full(len(stages), np.nan) for name in ("error", "wrong", "lag")}
    for k in chosen:
        stage = stages[k]
        now = product.interp(time=stage.middle(until)).values
        found["error"][k] = np.abs(now - stage.beta).max()
        found["wrong"][k] = np.sum(_signs(now) != _signs(stage.beta))
        if k - 1 in chosen and stage.entered:
            since = product.isel(coordinate=stage.winner).sel(time=slice(stages[k - 1].time, None))
            half = first_crossing(stage.sign * since.values, abs(stage.beta[stage.winner]) / 2, since.time.values)
            found["lag"][k] = (half.time - stage.time) * stages[k - 1].pace(scale)
    return xr.Dataset({name: ("stage", values) for name, values in found.items()}, {"stage": np.arange(len(stages))})


def _signs(beta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    return np.sign(np.where(np.abs(beta) > ACTIVE, beta, 0.0))


def as_predicted(reduced: xr.Dataset, at_least: float = 1.0) -> Claims:
    """Claims on the result of `against_stages`, at one scale; the first one must hold for this share of the
    plateaus."""
    right = (reduced.wrong == 0).where(reduced.wrong.notnull())
    statement = "On every resolved plateau exactly the entries of Algorithm 1 are active, with its signs"
    yield share("one-at-a-time", statement, right, at_least, cases=2)
    error, lag = (reduced[name].values[reduced[name].notnull().values] for name in ("error", "lag"))
    statement = "There the entries have the sizes of Algorithm 1 (largest difference)"
    yield below("sizes", statement, error, 0.05, source="Theorem 4.1 (16)")
    statement = "Entries reach half their size at T_k, up to a few units of 1/(rate log(1/alpha))"
    yield below("on-time", statement, np.abs(lag), LAG, source="Theorem 4.1", shown={"lags": lag})
