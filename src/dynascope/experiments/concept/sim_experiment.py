"""Shared by most concept experiments: an MLP of some depth trained on the structured identity task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import lax
from jaxtyping import Array, Float
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

import dynascope as ds
from dynascope.curves.order import hierarchy as hierarchy_nodes
from dynascope.dynamics.ensemble import member_seeds
from dynascope.lab.experiment import Experiment, Fields
from dynascope.models.mlp import Activation
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.structured_identity import Norm, StructuredIdentity, random_rotation
from dynascope.theory.concept.one_layer import predicted_outputs, strengths

Optimizer = Literal["sgd", "adam"]
Signals = Sequence[tuple[Sequence[float], Sequence[float]]]
"""Pairs (mu, sigma)."""
PUBLISHED = {"origin": True, "bias": True, "reshuffle": False, "test_samples": 5000}
"""Settings of the authors' published program in every run that differ from the text: preset `code`."""


class Training(Fields):
    """The task, the network and the training, with the paper's values: the fields that shape the compiled program."""

    dim: PositiveInt = 64
    depth: PositiveInt = 1
    width: PositiveInt | None = None
    """Hidden width; the dimension if not given."""
    activation: Activation = "linear"
    bias: bool = False
    norm: Norm = "mean"
    """Squared error averaged over batch and coordinates, or half of it summed over coordinates."""
    origin: bool = False
    rotate: bool = True
    samples: PositiveInt | None = 5000
    """Training points per cluster; None descends the population loss (linear networks only)."""
    batch: PositiveInt = 128
    reshuffle: bool = True
    test_samples: NonNegativeInt = 0
    """Points of a test cluster over which the test loss is averaged; 0 takes its center alone."""
    optimizer: Optimizer = "sgd"


class ConceptLearner(ds.Member):
    """An ensemble member: the task, the network, and stochastic (or population) gradient descent on it. Signals,
    spreads, rates and seeds are the numbers that it runs with."""

    training: Training
    hierarchy: bool = False

    def __call__(
        self,
        seed: Array,
        signal: tuple[Array, Array],
        learning_rate: Array,
        init_scale: Array | None = None,
        truncate_radius: Array | None = None,
        weights: Sequence[Array] | None = None,
    ) -> ds.Descent:
        own = self.training
        turn, init, data, order, test = jax.random.split(jax.random.key(seed), 5)
        rotation = random_rotation(turn, own.dim) if own.rotate else None
        mu, sigma = signal
        kind = {"origin": own.origin, "norm": own.norm, "truncate_radius": truncate_radius}
        task = StructuredIdentity(mu, sigma, own.dim, rotation=rotation, **kind)
        if weights is None:
            shape = {"width": own.width or own.dim, "activation": own.activation, "bias": own.bias}
            model = ds.models.MLP(own.dim, own.depth, key=init, scale=init_scale, **shape)
        else:
            model = ds.models.MLP.from_weights(weights, own.activation)
        probes = self._probes(task, test)
        optimizer = {"sgd": optax.sgd, "adam": optax.adam}[own.optimizer](learning_rate)
        if own.samples is None:
            return ds.Descent(model, task, optimizer, probes=probes)
        points = task.dataset(data, own.samples).x
        batches = {"batch": own.batch, "key": order, "reshuffle": own.reshuffle}
        return ds.Descent(model, task, optimizer, data=points, probes=probes, **batches)

    def _probes(self, task: StructuredIdentity, test: Array) -> dict[str, Any]:
        s = task.concept_count

        def losses(model: Any, points: Array) -> Array:
            """Half the squared error at each point, or its mean over a cluster of test samples around the point."""
            if not self.training.test_samples:
                return jnp.sum((jax.vmap(model)(points) - points) ** 2, axis=-1) / 2
            spread = jnp.pad(task.sigma, (0, task.dim - s))
            noise = spread[None, :] * jax.random.normal(test, (self.training.test_samples, task.dim), task.mu.dtype)
            noise = noise if task.rotation is None else noise @ task.rotation.T

            def cluster_loss(point: Array) -> Array:
                cluster = point[None, :] + noise
                return jnp.mean(jnp.sum((jax.vmap(model)(cluster) - cluster) ** 2, axis=1)) / 2

            return lax.map(cluster_loss, points)

        def hierarchy_loss(snapshot: Snapshot) -> Array:
            return losses(snapshot.model, task.test_points(hierarchy_nodes(s)))

        def start(snapshot: Snapshot) -> Array:
            return task.unrotate(jax.jacfwd(snapshot.model)(task.test_point))

        def output(snapshot: Snapshot) -> Array:
            return task.concepts(snapshot.model(task.test_point))[:s]

        whole = {"hierarchy_loss": probe(hierarchy_loss, dims=("node",))} if self.hierarchy else {}
        return whole | {
            "output": probe(output, dims=("concept",), coords={"concept": np.arange(1, s + 1)}),
            "test_loss": probe(lambda snapshot: losses(snapshot.model, task.test_point[None, :])[0]),
            "start": probe(start, dims=("row", "column"), every=(0,)),
        }


class SimExperiment(Training, Experiment):
    """Fields that every experiment on a trained MLP has, with the paper's values; `train` trains the networks that they
    describe."""

    init_scale: float | None = Field(None, gt=0)
    """Standard deviation of Gaussian initial weights; the framework-default uniform if not given."""
    learning_rate: float = Field(0.1, gt=0)
    epochs: PositiveInt = 40
    seeds: PositiveInt = 10

    descends_population: ClassVar[bool] = False
    """Whether it always descends the population loss too, independently of its fields."""

    @model_validator(mode="after")
    def _has_a_population_loss(self) -> Any:
        if (self.samples is None or self.descends_population) and (self.activation != "linear" or self.bias):
            raise ValueError("the network must be linear without biases: only that has a population loss")
        return self

    def steps(self, concepts: int) -> int:
        """Gradient steps of the run: `epochs` passes over the points, 5000 per cluster for a population run."""
        clusters = concepts + int(self.origin)
        return self.epochs * (clusters * (self.samples or 5000) // self.batch)

    @property
    def step_size(self) -> float:
        """The step on the loss of eq. (2.1), in which one layer relaxes by `step_size * a`."""
        return self.learning_rate * (2 / self.dim if self.norm == "mean" else 1)

    def strengths(self, signals: Signals) -> Float[np.ndarray, "signal concept"]:
        """a of every setting."""
        mu, sigma = zip(*signals, strict=True)
        return strengths(mu, sigma, self.origin)

    def has_defaults(self, *names: str) -> bool:
        """Whether these fields have their default values."""
        return all(getattr(self, name) == type(self).model_fields[name].default for name in names)

    def theorem(self, measured: xr.Dataset) -> xr.Dataset | None:
        """Theorem 4.1 from the runs' own starts. It covers one layer without biases."""
        return None if self.depth > 1 or self.bias else predicted_outputs(measured, self.step_size, self.origin)

    def learner(self, hierarchy: bool = False) -> ConceptLearner:
        """The ensemble member that these fields describe."""
        return ConceptLearner(Training.of(self), hierarchy)

    def train(
        self,
        signals: Signals,
        seed: int,
        *,
        record: Any = 5,
        over: Mapping[str, Any] | None = None,
        steps: int | None = None,
        hierarchy: bool = False,
        **changes: Any,
    ) -> xr.Dataset:
        """Train on every (mu, sigma) of `signals` with `seeds` seeds: `output`, `test_loss` and the `start` matrix.

        `changes` replace fields for this run (`dim=2`); `over` adds dimensions to the ensemble; with `hierarchy`
        the loss at every combination of concepts is recorded too, as `hierarchy_loss(node)`.
        """
        set_up = self.model_copy(update=changes)
        mu, sigma = (np.asarray([signal[i] for signal in signals], self.precision) for i in (0, 1))
        number = np.dtype(self.precision).type
        fixed = {"learning_rate": number(set_up.learning_rate)}
        if set_up.init_scale is not None:
            fixed["init_scale"] = number(set_up.init_scale)
        trace = ds.ensemble(
            set_up.learner(hierarchy),
            {"signal": (mu, sigma), "seed": member_seeds(seed, set_up.seeds), **(over or {})},
            steps=steps or set_up.steps(mu.shape[1]),
            record=record,
            fixed=fixed,
        ).trace
        return trace.assign(mu=(("signal", "concept"), mu), sigma=(("signal", "concept"), sigma))
