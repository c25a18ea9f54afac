"""Shared by the experiments on feature learning: fields, training, measurements, the best iterate."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.catapult.deep_experiment import Network
from dynascope.experiments.features.outcomes import best_iterate
from dynascope.experiments.features.problems import REAL, Architecture, Name, Problem, Reference, problem
from dynascope.experiments.idle_fields import refuse_idle
from dynascope.geometry.agop import agop, alignment
from dynascope.geometry.kernel_spectrum import critical_rate
from dynascope.lab.criteria import above
from dynascope.lab.experiment import Claims, Experiment
from dynascope.probes.probe import Probe, probe

DATA = {
    name: {"data": name.replace("-mnist", "_mnist"), "depth": 4, "width": 256}
    for name in ("rank-3", "rank-4", "svhn", "celeba", "usps", "fashion-mnist")
}
"""The document's networks for these data, in presets."""
DATA["all-svhn"] = DATA["svhn"] | {"architecture": "myrtle", "depth": 5, "samples": 15533, "seeds": 3}
DATA["all-celeba"] = DATA["celeba"] | {"samples": 162770, "seeds": 3}
PILOT = "The sizes and steps of quick, after pilot runs, for time and a clear effect."
CORNER = 10
"""Number of recorded rows and columns of the outer product."""
RATE_TOLERANCE = 1e-2
"""Relative accuracy of the critical rate in the controller."""
CRITICAL_EXAMPLES = 5000
"""The critical rate of the whole set at initialization is that of at most this many examples, as in the document."""
FOR_SYNTHETIC = ("dim", "noise")
FOR_REAL = ("flips", "reference", "reference_width", "reference_steps")
"""Fields that have an effect on synthetic data only, and on real sets only."""
MYRTLE_LAYERS = 5


class Learner(ds.Member):
    """An ensemble member. A `setting` is the optimizer's number (of catapults for "catapults", else a learning rate)
    and the scale of the initial weights; a `seed` brings its own data and its unit of learning rates."""

    network: Network
    optimizer: str
    batch: int | None
    critical_every: int
    """The critical rate of the next batch is recorded every this many steps; 0 is never."""

    def __call__(
        self, setting: tuple[Array, Array], seed: tuple[Array, ...], target: Array, factor: Array
    ) -> ds.Descent:
        (value, scale), (number, unit, x, y, x_validation, y_validation, x_test, y_test) = setting, seed
        key, task = jax.random.key(number), ds.tasks.Supervised("mse")
        model = jax.tree.map(lambda weights: scale * weights, self.network(key, x.shape[1:]))
        if self.optimizer == "catapults":
            optimizer = rates.catapults(
                lambda net: critical_rate(net, x, tolerance=RATE_TOLERANCE), value, factor=factor
            )
        elif self.optimizer == "constant":
            optimizer = rates.scheduled(lambda _: value * unit)
        else:
            optimizer = rates.optimizer(self.optimizer, value * unit)
        probes: dict[str, Any] = {
            "train": ds.probes.loss(),
            "validation": lambda net: task.loss(net, (x_validation, y_validation)),
            "test": lambda net: task.loss(net, (x_test, y_test)),
            "alignment": outer_product(x, target),
        }
        if self.optimizer in ("catapults", "constant"):
            probes["rate"] = ds.probes.learning_rate()
        if self.critical_every:
            probes["batch_critical"] = ds.probes.batch_critical_rate(every=self.critical_every)
        order = jax.random.fold_in(key, 1)
        return ds.Descent(model, task, optimizer, data=(x, y), batch=self.batch, key=order, probes=probes)


def outer_product(x: Array, target: Array) -> Probe:
    """The alignment, and the first rows and columns of G."""

    def measure(model: Any) -> dict[str, Array]:
        found = agop(model, x)
        return {"value": alignment(found, target), "corner": found[:CORNER, :CORNER]}

    dims = {"corner": ("row", "column")}
    return probe(lambda snapshot: measure(snapshot.model), dims=dims)


class FeatureExperiment(Experiment):
    """Fields that these experiments have in common, with the values of the document's rank-2 target."""

    data: Name = "rank-2"
    dim: PositiveInt = 100
    samples: PositiveInt = Field(2000, ge=10)
    held_out: PositiveInt = 5000
    """Validation examples, and as many test examples."""
    noise: float = Field(0.1, ge=0)
    """Standard deviation of the noise on the labels of synthetic data."""
    architecture: Architecture = "fcn"
    """Fully connected; or, for images, convolutions with a linear map at the end; or Myrtle-5, which also pools."""
    depth: PositiveInt = Field(2, ge=2)
    """Layers of weights."""
    width: PositiveInt = 1024
    """Neurons or channels of a layer."""
    bias: bool = False
    parameterization: Literal["ntk", "standard"] = "ntk"
    reference: Architecture | None = None
    """The network whose AGOP serves as G* of a real set; None is the document's for that set. It has five layers in the
    standard parameterization, with biases."""
    reference_width: PositiveInt = 64
    reference_steps: PositiveInt = 2000
    seeds: PositiveInt = 5

    @model_validator(mode="after")
    def _fields_fit_the_data(self) -> Any:
        real = self.data in REAL
        refuse_idle(self, FOR_SYNTHETIC if real else FOR_REAL, f"with data={self.data}")
        if self.architecture != "fcn" and not real:
            raise ValueError(f"data={self.data} has no images: architecture must be fcn; got {self.architecture}")
        if self.architecture == "myrtle" and self.depth != MYRTLE_LAYERS:
            raise ValueError(f"depth must be {MYRTLE_LAYERS} with architecture=myrtle; got {self.depth}")
        return self

    @property
    def matmul_precision(self) -> str:
        """Convolutions run at the device's default (TF32 on a GPU, several times as fast)."""
        return "highest" if self.architecture == "fcn" else "default"

    def problem(self, seed: int, flips: float = 0.0) -> Problem:
        """The data of all seeds."""
        reference = None
        if self.data in REAL:
            kind = self.reference or REAL[self.data].reference
            reference = Reference(Network(kind, 5, self.reference_width, "standard", True), self.reference_steps)
        sizes = {"dim": self.dim, "samples": self.samples, "held_out": self.held_out, "noise": self.noise}
        images = self.architecture != "fcn"
        return problem(self.data, self.seeds, seed, flips=flips, images=images, reference=reference, **sizes)

    def network(self) -> Network:
        return Network(self.architecture, self.depth, self.width, self.parameterization, self.bias)

    def critical_at_start(self, given: Problem, seed: int) -> Float[np.ndarray, " seed"]:
        """The critical rate of the whole training set at initialization, for each seed."""
        x = jnp.asarray(given.x[:, :CRITICAL_EXAMPLES])
        return np.asarray(_critical_at_start(self.network(), jnp.asarray(member_seeds(seed, self.seeds)), x))

    def learn(
        self,
        given: Problem,
        name: str,
        values: Any,
        seed: int,
        *,
        steps: int,
        record: int,
        optimizer: str = "catapults",
        batch: int | None = None,
        critical_every: int = 0,
        unit: Float[np.ndarray, " seed"] | float = 1.0,
        scale: float = 1.0,
        factor: float = 1.4,
    ) -> xr.Dataset:
        """Train every seed at each of the values (numbers of catapults, or learning rates in the seeds' units), along
        the dimension `name`."""
        values, units = np.asarray(values), np.broadcast_to(np.asarray(unit, np.float32), self.seeds)
        settings = values if optimizer == "catapults" else values.astype(np.float32)
        over = {
            "setting": (settings, np.full(len(values), scale, np.float32)),
            "seed": (member_seeds(seed, self.seeds), units, *given.sets()),
        }
        learner = Learner(self.network(), optimizer, batch, critical_every)
        fixed = {"target": given.target, "factor": np.float32(factor)}
        width = None if self.architecture == "fcn" else 1  # convolutions are slower side by side, also on a GPU
        trace = ds.ensemble(learner, over, steps=steps, record=record, fixed=fixed, width=width).trace
        return trace.rename(setting=name).assign_coords({name: values})

    def data_sets(self) -> tuple[str, ...]:
        return (self.data,) if self.data in REAL else ()

    def on_the_reference(self, reduced: xr.Dataset) -> Claims:
        """For a real set: whether the network that G* comes from is as good as the document's."""
        if self.data in REAL:
            statement = "The network that G* comes from has a higher test accuracy than the document's"
            printed, right = REAL[self.data].accuracy, reduced.reference_accuracy
            yield above("reference", statement, right, printed, source="Section 4.5", seeds=1)


class CatapultExperiment(FeatureExperiment):
    """Gradient descent through several numbers of catapults, by the controller `dynamics.rates.catapults`."""

    catapults: tuple[int, ...] = Field((0, 1, 2), min_length=2)
    """Numbers of catapults to go through, smallest first."""
    factor: float = Field(1.4, gt=1)
    """The multiple of the critical rate to which the rate is raised."""
    steps: PositiveInt = 1500
    record: PositiveInt = 10

    def measure(self, seed: int) -> Any:
        given = self.problem(seed)
        return given.label(self.descents(given, seed))

    def reduce(self, measured: Any, predicted: None) -> xr.Dataset:
        return best_iterate(measured)

    def descents(self, given: Problem, seed: int) -> xr.Dataset:
        """A run for each number of catapults, along `catapults`."""
        counts = np.asarray(self.catapults, np.int32)
        return self.learn(given, "catapults", counts, seed, steps=self.steps, record=self.record, factor=self.factor)


@eqx.filter_jit
def _critical_at_start(network: Network, seeds: Array, x: Float[Array, "seed n ..."]) -> Float[Array, " seed"]:
    return lax.map(lambda one: critical_rate(network(jax.random.key(one[0]), x.shape[2:]), one[1]), (seeds, x))
