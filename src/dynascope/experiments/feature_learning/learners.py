"""What the experiments on feature learning share: the network, its training, what is looked at, the best iterate."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.feature_learning.problems import Name, Problem, problem
from dynascope.lab.experiment import Experiment
from dynascope.models import MLP
from dynascope.probes.agop import agop, alignment
from dynascope.probes.kernel_spectrum import critical_rate
from dynascope.probes.probe import Probe, probe

CORNER = 10
"""So many rows and columns of the outer product are kept for a look."""
STOP = 1e-3
"""The training loss at which the document stops."""
FLOWN = 1e-2
"""Accuracy of the critical rate in the controller, relative."""


def squared_error(model: MLP, batch: tuple[Array, Array]) -> Array:
    """The mean over examples, of a network with one output."""
    x, y = batch
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


class Shape(eqx.Module):
    """A fully connected ReLU network."""

    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)

    def network(self, seed: Array, dim: int, scale: Array | float = 1.0) -> MLP:
        """At its random start; `scale` is the spread of the weights in the NTK parameterisation."""
        return MLP(
            dim, self.depth, key=jax.random.key(seed), width=self.width, out=1, activation="relu", bias=self.bias,
            parameterisation=self.parameterisation, scale=scale if self.parameterisation == "ntk" else None,
        )  # fmt: skip


class Learner(eqx.Module):
    """An ensemble member. A `setting` is what the optimiser needs (for "catapults" how many, else a learning rate) and
    the scale of the start; a `seed` brings its own data and its unit of learning rates."""

    shape: Shape
    optimiser: str = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)
    watch: int = eqx.field(static=True)
    """How often the critical rate of the coming step's batch is recorded: every so many steps; 0 is never."""

    def __call__(
        self, setting: tuple[Array, Array], seed: tuple[Array, ...], target: Array, factor: Array
    ) -> ds.Descent:
        (value, scale), (number, unit, x, y, x_validation, y_validation, x_test, y_test) = setting, seed
        model = self.shape.network(number, x.shape[1], scale)
        if self.optimiser == "catapults":
            optimiser = rates.catapults(lambda net: critical_rate(net, x, tolerance=FLOWN), value, factor=factor)
        elif self.optimiser == "constant":
            optimiser = rates.scheduled(lambda _: value * unit)
        else:
            optimiser = rates.optimiser(self.optimiser, value * unit)
        probes: dict[str, Any] = {
            "train": ds.probes.loss(),
            "validation": lambda net: squared_error(net, (x_validation, y_validation)),
            "test": lambda net: squared_error(net, (x_test, y_test)),
            "alignment": outer_product(x, target),
        }
        if self.optimiser in ("catapults", "constant"):
            probes["rate"] = ds.probes.learning_rate()
        if self.watch:
            probes["batch_critical"] = ds.probes.batch_critical_rate(every=self.watch)
        key = jax.random.fold_in(jax.random.key(number), 1)
        return ds.Descent(model, squared_error, optimiser, data=(x, y), batch=self.batch, key=key, probes=probes)


def outer_product(x: Array, target: Array) -> Probe:
    """The alignment, and the first rows and columns of G."""

    def measure(model: MLP) -> dict[str, Array]:
        found = agop(model, x)
        return {"value": alignment(found, target), "corner": found[:CORNER, :CORNER]}

    dims = {"corner": ("row", "column")}
    return probe(lambda moment: measure(moment.model), dims=dims)


class FeatureExperiment(Experiment):
    """Fields that these experiments have in common, with the values of the document's rank-2 task."""

    task: Name = "rank-2"
    dim: PositiveInt = 100
    samples: PositiveInt = Field(2000, ge=10)
    held_out: PositiveInt = 5000
    """Examples for validation, and as many for the test."""
    noise: float = Field(0.1, ge=0)
    """Standard deviation of the noise on the labels of a synthetic task."""
    depth: PositiveInt = Field(2, ge=2)
    width: PositiveInt = 1024
    bias: bool = False
    parameterisation: Literal["ntk", "standard"] = "ntk"
    seeds: PositiveInt = 5

    def problem(self, seed: int, flips: float = 0.0) -> Problem:
        """The data of all seeds."""
        return problem(
            self.task, self.seeds, seed, dim=self.dim, samples=self.samples, held_out=self.held_out, noise=self.noise,
            flips=flips,
        )  # fmt: skip

    def shape(self) -> Shape:
        """The network's."""
        return Shape(self.depth, self.width, self.bias, self.parameterisation)

    def numbers(self, seed: int) -> np.ndarray:
        """The seeds of starts and batches."""
        return np.arange(self.seeds, dtype=np.int32) + np.int32(100_000 * seed)

    def critical_at_start(self, given: Problem, seed: int) -> Float[np.ndarray, " seed"]:
        """The critical rate of the whole training set, for each seed."""
        return np.asarray(_critical_at_start(self.shape(), jnp.asarray(self.numbers(seed)), jnp.asarray(given.x)))

    def learn(
        self, given: Problem, name: str, values: Any, seed: int, *, steps: int, record: int,
        optimiser: str = "catapults", batch: int | None = None, watch: int = 0,
        unit: Float[np.ndarray, " seed"] | float = 1.0, scale: float = 1.0, factor: float = 1.4,
    ) -> xr.Dataset:  # fmt: skip
        """Train every seed at each of the values (counts of catapults, or learning rates in the seeds' units), which
        are laid along the dimension `name`."""
        values, units = np.asarray(values), np.broadcast_to(np.asarray(unit, np.float32), self.seeds)
        settings = values if optimiser == "catapults" else values.astype(np.float32)
        trace = ds.ensemble(
            Learner(self.shape(), optimiser, batch, watch),
            {"setting": (settings, np.full(len(values), scale, np.float32)),
             "seed": (self.numbers(seed), units, *given.sets())},
            steps=steps, record=record, fixed={"target": given.target, "factor": np.float32(factor)},
        )  # fmt: skip
        return trace.rename(setting=name).assign_coords({name: values}).assign_attrs(data=given.about)


@eqx.filter_jit
def _critical_at_start(shape: Shape, numbers: Array, x: Float[Array, "seed n d"]) -> Float[Array, " seed"]:
    return lax.map(lambda one: critical_rate(shape.network(one[0], x.shape[2]), one[1]), (numbers, x))


def best_iterate(trace: xr.Dataset) -> xr.Dataset:
    """At the recorded step with the smallest validation loss, up to the first at which the training loss is below 1e-3,
    and outside of catapults: what was recorded there, and `at`, after how many steps. All of it is NaN where the run
    diverged before the training loss was so low, or where no step is allowed."""
    below = (trace.train < STOP).astype(int)
    until_stop = below.cumsum("step") - below == 0
    finite = np.isfinite(trace.train) & np.isfinite(trace.validation)
    diverged = (until_stop & ~finite).any("step")
    allowed = until_stop & finite
    if "rate_phase" in trace:
        allowed = allowed & (trace.rate_phase != rates.RAISED)
    at = trace.validation.where(allowed, np.inf).argmin("step")
    names = ("test", "alignment", "alignment_corner", "train", "validation", "supercritical", "taken")
    best = trace[[name for name in names if name in trace]].isel(step=at)
    taken = best.taken if "taken" in best else trace.step[at]
    best = best.assign(at=taken.drop_vars("step", errors="ignore")).drop_vars("step", errors="ignore")
    return best.where(allowed.any("step") & ~diverged)


def without_result(best: xr.Dataset) -> int:
    """How many runs have no best iterate."""
    return int(best.test.isnull().sum())


def lost(best: xr.Dataset) -> str:
    """The same as a sentence for a diagnosis; empty if all runs have one."""
    count = without_result(best)
    return f"{count} of {best.test.size} runs diverged or never settled, and have no result." if count else ""
