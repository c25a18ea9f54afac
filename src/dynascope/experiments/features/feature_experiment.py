"""What the experiments on feature learning share: fields, training, what is looked at, the best iterate."""

from __future__ import annotations

from collections.abc import Iterable
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
from dynascope.experiments.features.architectures import MYRTLE_LAYERS, Architecture, Shape, squared_error
from dynascope.experiments.features.problems import REAL, Name, Problem, Reference, problem
from dynascope.experiments.seeds import member_seeds
from dynascope.geometry.agop import agop, alignment
from dynascope.geometry.kernel_spectrum import critical_rate
from dynascope.lab.claims import Claim, claim
from dynascope.lab.experiment import Experiment
from dynascope.probes.probe import Probe, probe

CORNER = 10
"""So many rows and columns of the outer product are kept for a look."""
STOP = 1e-3
"""The training loss at which the document stops."""
FLOWN = 1e-2
"""Accuracy of the critical rate in the controller, relative."""
CRITICAL_EXAMPLES = 5000
"""At most so many examples stand for the whole set in its critical rate at the start, as in the document."""
FOR_SYNTHETIC = ("dim", "noise")
FOR_REAL = ("flips", "reference", "reference_width", "reference_steps")
"""Fields that only synthetic tasks listen to, and only real sets."""


class Learner(eqx.Module):
    """An ensemble member. A `setting` is what the optimizer needs (for "catapults" how many, else a learning rate) and
    the scale of the start; a `seed` brings its own data and its unit of learning rates."""

    shape: Shape
    optimizer: str = eqx.field(static=True)
    batch: int | None = eqx.field(static=True)
    watch: int = eqx.field(static=True)
    """How often the critical rate of the coming step's batch is recorded: every so many steps; 0 is never."""

    def __call__(
        self, setting: tuple[Array, Array], seed: tuple[Array, ...], target: Array, factor: Array
    ) -> ds.Descent:
        (value, scale), (number, unit, x, y, x_validation, y_validation, x_test, y_test) = setting, seed
        model = self.shape.network(number, x.shape[1:], scale)
        if self.optimizer == "catapults":
            optimizer = rates.catapults(lambda net: critical_rate(net, x, tolerance=FLOWN), value, factor=factor)
        elif self.optimizer == "constant":
            optimizer = rates.scheduled(lambda _: value * unit)
        else:
            optimizer = rates.optimizer(self.optimizer, value * unit)
        probes: dict[str, Any] = {
            "train": ds.probes.loss(),
            "validation": lambda net: squared_error(net, (x_validation, y_validation)),
            "test": lambda net: squared_error(net, (x_test, y_test)),
            "alignment": outer_product(x, target),
        }
        if self.optimizer in ("catapults", "constant"):
            probes["rate"] = ds.probes.learning_rate()
        if self.watch:
            probes["batch_critical"] = ds.probes.batch_critical_rate(every=self.watch)
        key = jax.random.fold_in(jax.random.key(number), 1)
        return ds.Descent(model, squared_error, optimizer, data=(x, y), batch=self.batch, key=key, probes=probes)


def outer_product(x: Array, target: Array) -> Probe:
    """The alignment, and the first rows and columns of G."""

    def measure(model: Any) -> dict[str, Array]:
        found = agop(model, x)
        return {"value": alignment(found, target), "corner": found[:CORNER, :CORNER]}

    dims = {"corner": ("row", "column")}
    return probe(lambda snapshot: measure(snapshot.model), dims=dims)


class FeatureExperiment(Experiment):
    """Fields that these experiments have in common, with the values of the document's rank-2 task."""

    task: Name = "rank-2"
    dim: PositiveInt = 100
    samples: PositiveInt = Field(2000, ge=10)
    held_out: PositiveInt = 5000
    """Examples for validation, and as many for the test."""
    noise: float = Field(0.1, ge=0)
    """Standard deviation of the noise on the labels of a synthetic task."""
    architecture: Architecture = "fcn"
    """Fully connected; or, for pictures, convolutions with a linear map at the end; or Myrtle-5, which also pools."""
    depth: PositiveInt = Field(2, ge=2)
    """Layers of weights."""
    width: PositiveInt = 1024
    """Neurons or channels of a layer."""
    bias: bool = False
    parameterization: Literal["ntk", "standard"] = "ntk"
    reference: Architecture | None = None
    """The network whose outer product is taken for G* of a real set; None is the document's for that set. It has five
    layers in the standard parameterization, with biases."""
    reference_width: PositiveInt = 64
    reference_steps: PositiveInt = 2000
    seeds: PositiveInt = 5

    @model_validator(mode="after")
    def _fields_fit_the_task(self) -> Any:
        real = self.task in REAL
        refuse_idle(self, FOR_SYNTHETIC if real else FOR_REAL, f"on the task {self.task}")
        if self.architecture != "fcn" and not real:
            raise ValueError(f"{self.task} has no pictures: its architecture is fcn; got {self.architecture}")
        if self.architecture == "myrtle" and self.depth != MYRTLE_LAYERS:
            raise ValueError(f"the depth of myrtle is {MYRTLE_LAYERS}; got {self.depth}")
        return self

    @property
    def matmul_precision(self) -> str:
        """Convolutions as the device does them by itself (TF32 on a GPU, several times as fast)."""
        return "highest" if self.architecture == "fcn" else "default"

    def problem(self, seed: int, flips: float = 0.0) -> Problem:
        """The data of all seeds."""
        reference = None
        if self.task in REAL:
            kind = self.reference or REAL[self.task].reference
            reference = Reference(Shape(kind, 5, self.reference_width, True, "standard"), self.reference_steps)
        return problem(
            self.task, self.seeds, seed, dim=self.dim, samples=self.samples, held_out=self.held_out, noise=self.noise,
            flips=flips, pictures=self.shape().takes_pictures, reference=reference,
        )  # fmt: skip

    def shape(self) -> Shape:
        """The network's."""
        return Shape(self.architecture, self.depth, self.width, self.bias, self.parameterization)

    def numbers(self, seed: int) -> np.ndarray:
        """The seeds of starts and batches."""
        return member_seeds(seed, self.seeds)

    def critical_at_start(self, given: Problem, seed: int) -> Float[np.ndarray, " seed"]:
        """The critical rate of the whole training set, for each seed."""
        x = jnp.asarray(given.x[:, :CRITICAL_EXAMPLES])
        return np.asarray(_critical_at_start(self.shape(), jnp.asarray(self.numbers(seed)), x))

    def learn(
        self, given: Problem, name: str, values: Any, seed: int, *, steps: int, record: int,
        optimizer: str = "catapults", batch: int | None = None, watch: int = 0,
        unit: Float[np.ndarray, " seed"] | float = 1.0, scale: float = 1.0, factor: float = 1.4,
    ) -> xr.Dataset:  # fmt: skip
        """Train every seed at each of the values (counts of catapults, or learning rates in the seeds' units), which
        are laid along the dimension `name`."""
        values, units = np.asarray(values), np.broadcast_to(np.asarray(unit, np.float32), self.seeds)
        settings = values if optimizer == "catapults" else values.astype(np.float32)
        trace = ds.ensemble(
            Learner(self.shape(), optimizer, batch, watch),
            {"setting": (settings, np.full(len(values), scale, np.float32)),
             "seed": (self.numbers(seed), units, *given.sets())},
            steps=steps, record=record, fixed={"target": given.target, "factor": np.float32(factor)},
            width=1 if self.shape().takes_pictures else None,  # convolutions are slower side by side, also on a GPU
        )  # fmt: skip
        return trace.rename(setting=name).assign_coords({name: values})

    def on_the_reference(self, measured: xr.Dataset) -> Iterable[Claim]:
        """Of a real set: whether the network that G* was taken from is as good as the document's."""
        if self.task in REAL:
            least, right = REAL[self.task].accuracy, float(measured.reference_accuracy)
            yield claim(
                "reference", f"The network that G* is taken from is right on {least:.1%} of the test examples or more",
                source="Section 4.5", measured=right, expected=f"≥ {least}", holds=right >= least,
                diagnosis="" if right >= least else "G* is that of a weaker network than the document's: alignment "
                "with it says less about the target.",
            )  # fmt: skip


def refuse_idle(experiment: Experiment, names: Iterable[str], where: str) -> None:
    """Fields that have no effect are left at their defaults: what somebody asked for must not go unheard."""
    for name in names:
        field = type(experiment).model_fields.get(name)
        if field is not None and getattr(experiment, name) != field.default:
            raise ValueError(
                f"{name} has no effect {where}: leave it at {field.default}; got {getattr(experiment, name)}"
            )


@eqx.filter_jit
def _critical_at_start(shape: Shape, numbers: Array, x: Float[Array, "seed n ..."]) -> Float[Array, " seed"]:
    return lax.map(lambda one: critical_rate(shape.network(one[0], x.shape[2:]), one[1]), (numbers, x))


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
