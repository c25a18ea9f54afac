"""What the experiments on the toy attention head share: the task, the flow from small starts, and Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from pydantic import AfterValidator, Field, PositiveInt

import dynascope as ds
from dynascope.curves.plateaus import switches
from dynascope.lab.experiment import Experiment
from dynascope.models.diagonal import AttentionHead
from dynascope.tasks.diagonal import DiagonalRegression, ToyHead, toy_head
from dynascope.theory.rank.diagonal_flow import reduced, reduced_process
from dynascope.theory.rank.greedy_ranks import Stage, greedy_stages

LAG = 10.0
"""log(1/alpha) times the lag of a transition behind its T_k: a transition takes a time of order one, and stages are
resolved from 7 to 10 of these units on, so a lag of more would be no lag."""
ACTIVE = 1e-3
"""|beta| of an entry that counts for the rank."""

Scale = Annotated[float, Field(gt=0, lt=1)]


def descending(scales: tuple[float, ...]) -> tuple[float, ...]:
    """Each once, the largest first: claims speak of going down the ladder."""
    return tuple(sorted(set(scales), reverse=True))


Scales = Annotated[tuple[Scale, ...], Field(min_length=1), AfterValidator(descending)]


def regression(head: ToyHead) -> DiagonalRegression:
    """The loss of a student of this teacher."""
    network, x = AttentionHead(head.x.shape[2]), jnp.asarray(head.x)
    return DiagonalRegression(network, x, jax.vmap(lambda one: network(one, jnp.asarray(head.teacher)))(x))


class HeadLearner(eqx.Module):
    """An ensemble's member: a seed's task and start, and an initial scale."""

    dim: int = eqx.field(static=True)

    def __call__(self, seed: Mapping[str, Array], scale: Mapping[str, Array]) -> ds.Flow:
        task = DiagonalRegression(AttentionHead(self.dim), seed["x"], seed["y"])
        start = reduced(seed["u"], seed["v"], -scale["pace"])
        return reduced_process(task, start, scale["pace"], tolerance=1e-8)


class HeadExperiment(Experiment):
    """Fields that the experiments on the toy head have in common, with Appendix A's values where it states them."""

    precision: Literal["float32", "float64"] = "float64"
    dim: PositiveInt = 50
    tokens: PositiveInt = 10
    samples: PositiveInt = 1000
    kept: PositiveInt | None = 5
    """Coordinates of each of the teacher's products that are not zero; None keeps all of them."""
    horizon: float = Field(5.0, gt=0)
    """The end of the run, in rescaled time."""
    points: PositiveInt = Field(600, ge=10)
    """Times at which the flow is recorded."""
    seeds: PositiveInt = 1

    def numbers(self, seed: int) -> list[int]:
        """The seeds of the teachers and students; 0 in a small dense setting is the example of the tests."""
        return [1000 * seed + i for i in range(self.seeds)]

    def head(self, number: int) -> ToyHead:
        return toy_head(number, self.dim, self.tokens, self.samples, self.kept)

    def flow(self, seed: int, scales: Sequence[float], also_at: Sequence[float] = ()) -> xr.Dataset:
        """The flow from every scale, for every seed: loss, product, log_weight over rescaled time, at even times and
        those given."""
        numbers = self.numbers(seed)
        heads = [self.head(number) for number in numbers]
        data = {"x": np.stack([head.x for head in heads]), "y": np.stack([regression(head).y for head in heads]),
                "u": np.stack([head.u for head in heads]), "v": np.stack([head.v for head in heads])}  # fmt: skip
        trace = ds.ensemble(
            HeadLearner(self.dim), {"seed": data, "scale": {"pace": -np.log(scales)}},
            times=np.union1d(np.linspace(0, self.horizon, self.points), also_at), width=1,
        )  # fmt: skip
        return trace.assign_coords(seed=numbers, scale=list(scales))

    def stages(self, measured: xr.Dataset) -> list[list[Stage]]:
        """Algorithm 1 for each seed of a measurement."""
        return [self.stages_of(int(number), self.horizon) for number in measured.seed.values]

    def stages_of(self, number: int, until: float) -> list[Stage]:
        """Algorithm 1 for one seed."""
        return _stages(number, self.dim, self.tokens, self.samples, self.kept, until)


@lru_cache(maxsize=16)
def _stages(number: int, dim: int, tokens: int, samples: int, kept: int | None, until: float) -> list[Stage]:
    """Kept, since judging and drawing both need them."""
    return greedy_stages(regression(toy_head(number, dim, tokens, samples, kept)), 2 * dim, until=until)


def seen(stages: Sequence[Stage], scale: float, until: float) -> list[int]:
    """The plateaus that end before `until` (or there) and are resolved at this scale: neither the race for their end
    nor the one for their beginning was near a tie, and they are long enough."""
    return [
        k
        for k, stage in enumerate(stages)
        if stage.time < until and stage.resolved(scale) and (k == 0 or stages[k - 1].gap * -np.log(scale) >= LAG)
    ]


class Activation(NamedTuple):
    """An entry of the product comes to exceed `ACTIVE` in size."""

    time: float
    coordinate: int
    sign: int


def activations(path: Float[np.ndarray, "time p"], times: Float[np.ndarray, " time"]) -> list[Activation]:
    """All of them, first to last, those of entries that return too."""
    stretches = switches(path, times, ACTIVE)
    return sorted(Activation(one.on, i, one.sign) for i, entry in enumerate(stretches) for one in entry)


def three_quarters(stage: Stage, until: float) -> float:
    """The time at which three quarters of a plateau are over."""
    return stage.time + 0.75 * (min(stage.next_time, until) - stage.time)
