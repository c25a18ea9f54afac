"""Shared by the experiments on catapults of deep networks: the architectures of Chapter 4, data, and their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, PRNGKeyArray
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.catapult.classification_data import Sample, sample
from dynascope.experiments.idle_fields import refuse_idle
from dynascope.lab.experiment import Experiment
from dynascope.models import MLP, ConvNet, ViT, WideResNet, myrtle5
from dynascope.tasks.multi_index import MultiIndex

Architecture = Literal["fcn", "cnn", "myrtle", "residual", "vit"]
Images = Literal["digits", "cifar10", "svhn", "mnist", "fashion_mnist", "usps", "gaussians"]
Regression = Literal["rank-2", "rank-3", "rank-4", "full-rank"]
REGRESSION = ("rank-2", "rank-3", "rank-4", "full-rank")
DIGITS = {"data": "digits", "samples": 64, "pool": 4, "width": 256}
"""Data and width of quick presets: images of 7 x 7 pixels."""
TEN = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
DIVERGED = 1e6
"""A run whose loss exceeds this multiple of its initial value has diverged."""


@dataclass(frozen=True)
class Network:
    """An architecture with ReLU activations, built for data of any shape."""

    architecture: Architecture
    depth: int
    width: int
    parameterization: Literal["ntk", "standard"]
    bias: bool

    def __call__(self, key: PRNGKeyArray, shape: tuple[int, ...], out: int = 1) -> Any:
        """At initialization, for inputs of this shape and `out` outputs."""
        common: dict[str, Any] = {"key": key, "out": out, "parameterization": self.parameterization, "bias": self.bias}
        if self.architecture == "fcn":
            return MLP(shape[0], self.depth, width=self.width, activation="relu", **common)
        shape = shape[0], shape[1], shape[2]
        if self.architecture == "cnn":
            return ConvNet(shape, (self.width,) * (self.depth - 1), **common)
        if self.architecture == "myrtle":
            return myrtle5(shape, (self.width,) * 4, **common)
        if self.architecture == "residual":
            return WideResNet(shape, self.depth, self.width, **common)
        init = "ntk" if self.parameterization == "ntk" else "framework"
        sizes: dict[str, Any] = {"dim": self.width, "hidden": self.width, "depth": self.depth, "heads": 4}
        return ViT(shape, out, key=key, pool="mean", init=init, bias=self.bias, **sizes)


class Learner(ds.Member):
    """An ensemble member: descent at `ratio` times the critical rate of the whole set at initialization, or, with a
    period, at a rate that cycles between two such multiples; in batches if a size is given."""

    network: Network
    splits: tuple[int, ...]
    batch: int | None = None
    period: int | None = None

    def __call__(self, seed: Array, ratio: Any, x: Array, y: Array) -> ds.Descent:
        for_net, for_order = jax.random.split(jax.random.key(seed))
        model = self.network(for_net, x.shape[1:], y.shape[1])
        critical = ds.geometry.critical_rate(model, x)
        if self.period is None:
            rate = ratio * critical
            optimizer = rates.scheduled(lambda _: rate)
        else:
            optimizer = rates.scheduled(rates.cyclic(ratio[0] * critical, ratio[1] * critical, self.period))
        probes = {
            "loss": ds.probes.loss(),
            "kernel": ds.probes.kernel_norm(x, y, self.splits),
            "rate": ds.probes.learning_rate(),
        }
        task, key = ds.tasks.Supervised("mse"), None if self.batch is None else for_order
        return ds.Descent(model, task, optimizer, data=(x, y), batch=self.batch, key=key, probes=probes)


class DeepExperiment(Experiment):
    """Fields that the experiments on deep networks have in common; the defaults are those of Figure 4.3a."""

    data: Images | Regression = "cifar10"
    """An image set, Gaussians of 7 x 7 pixels, one for each class, or a regression target."""
    classes: Annotated[tuple[int, ...], Field(min_length=2)] = (7, 9)
    """The labels of two classes are ±1; more than two have one output each."""
    samples: PositiveInt = 128
    pool: PositiveInt = 1
    """Images are averaged over squares of this many pixels a side (Gaussians are not)."""
    architecture: Architecture = "fcn"
    depth: PositiveInt = Field(5, ge=2)
    """Layers of weights; of the residual network 10, 16, ...; blocks of the transformer; Myrtle's are always 5."""
    width: PositiveInt = 1024
    """Neurons or channels of a layer; the widening of the residual network; the dimension of the transformer."""
    parameterization: Literal["ntk", "standard"] = "ntk"
    """NTK without biases; or the framework's default, with them."""
    seeds: PositiveInt = 5

    @model_validator(mode="after")
    def _no_field_without_effect(self) -> Any:
        if self.data in REGRESSION and self.architecture != "fcn":
            raise ValueError(f"data={self.data} has no images: only architecture=fcn can learn it")
        if self.data in REGRESSION:
            refuse_idle(self, ["classes", "pool"], f"with data={self.data}")
        if self.architecture == "myrtle":
            refuse_idle(self, ["depth"], "with architecture=myrtle")
        return self

    def network(self) -> Network:
        bias = self.parameterization == "standard"
        return Network(self.architecture, self.depth, self.width, self.parameterization, bias)

    def examples(self, seed: int) -> Sample:
        """The data, the same for all seeds of the network, with a column of targets for each output."""
        number = np.dtype(self.precision)
        if self.data in REGRESSION:
            x, y = (np.asarray(part) for part in MultiIndex(self.data).sample(jax.random.key(seed), self.samples))
            found = Sample(x, y, x[:0], y[:0], f"{self.data} regression")
        else:
            flat = self.architecture == "fcn"
            found = sample(self.data, self.classes, self.samples, 1, seed, pool=self.pool, flat=flat)
        return found._replace(x=found.x.astype(number), y=found.y.reshape(self.samples, -1).astype(number))

    def train(self, member: Any, axes: dict[str, Any], seed: int, steps: int, **fixed: Any) -> xr.Dataset:
        """The trace, at every step, of an ensemble on the data of this seed."""
        data = self.examples(seed)
        given = {"x": data.x, "y": data.y, **fixed}
        runs = ds.ensemble(member, axes, steps=steps, record=1, fixed=given, width=self.side_by_side)
        return runs.trace.assign_attrs(data=data.name)

    def data_sets(self) -> tuple[str, ...]:
        return () if self.data in (*REGRESSION, "gaussians") else (self.data,)

    @property
    def convolutional(self) -> bool:
        return self.architecture in ("cnn", "myrtle", "residual")

    @property
    def matmul_precision(self) -> str:
        """Convolutions run at the device's default (TF32 on a GPU, five times as fast); the tangent kernel is always
        contracted in float32."""
        return "default" if self.convolutional else "highest"

    @property
    def side_by_side(self) -> int | None:
        """The number of networks trained at a time. Convolutions with different weights are slower side by side than
        one after the other, even on a GPU; for other networks the library decides."""
        return 1 if self.convolutional else None
