"""What the experiments on catapults of deep networks share: data, the architectures of Chapter 4, and their fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field, PositiveInt, model_validator

from dynascope.experiments.catapult.examples import sample
from dynascope.experiments.seeds import member_seeds, run_key
from dynascope.lab.experiment import Experiment
from dynascope.models import MLP, ConvNet, ViT, WideResNet, myrtle5
from dynascope.tasks.multi_index import MultiIndex

Architecture = Literal["fcn", "cnn", "myrtle", "residual", "vit"]
Pictures = Literal["cifar10", "svhn", "mnist", "fashion_mnist", "usps", "gaussians"]
Regression = Literal["rank-2", "rank-3", "rank-4", "full-rank"]
REGRESSION = ("rank-2", "rank-3", "rank-4", "full-rank")
DIVERGED = 1e6
"""A loss of so many times the initial one is a divergence."""


class Network(eqx.Module):
    """An architecture, to be built for data of any shape."""

    architecture: Architecture = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    parameterization: Literal["ntk", "standard"] = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, x: Float[Array, "n ..."], y: Float[Array, "n k"]) -> Any:
        out, bias = y.shape[1], self.parameterization == "standard"
        common: dict[str, Any] = {"key": key, "out": out, "parameterization": self.parameterization, "bias": bias}
        if self.architecture == "fcn":
            return MLP(x.shape[1], self.depth, width=self.width, activation="relu", **common)
        _, height, width, channels = x.shape
        shape = height, width, channels
        if self.architecture == "cnn":
            return ConvNet(shape, (self.width,) * (self.depth - 1), **common)
        if self.architecture == "myrtle":
            return myrtle5(shape, (self.width,) * 4, **common)
        if self.architecture == "residual":
            return WideResNet(shape, self.depth, self.width, **common)
        init = "ntk" if self.parameterization == "ntk" else "framework"
        return ViT(
            shape, out, key=key, dim=self.width, hidden=self.width, depth=self.depth, heads=4, pool="mean", init=init,
            bias=bias,
        )  # fmt: skip


def mean_squares(model: Any, data: tuple[Array, Array]) -> Float[Array, ""]:
    """The mean over examples and outputs, `mse`."""
    x, y = data
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


class Examples(NamedTuple):
    """Inputs, a column of targets for each output, and what they are."""

    x: np.ndarray
    y: np.ndarray
    name: str


class DeepExperiment(Experiment):
    """Fields that the experiments on deep networks have in common; the defaults are those of Figure 4.3a."""

    data: Pictures | Regression = "cifar10"
    """Where a set of pictures is not to be had, a Gaussian of 7 x 7 pixels for each class stands in."""
    classes: Annotated[tuple[int, ...], Field(min_length=2)] = (7, 9)
    """Two are told apart by ±1, more by one output each."""
    samples: PositiveInt = 128
    pool: PositiveInt = 1
    """Pictures are averaged over squares of so many pixels a side (not those of a stand-in)."""
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
            raise ValueError(f"data={self.data} has no pictures: only architecture=fcn can learn it")
        idle = {"classes": self.data, "pool": self.data} if self.data in REGRESSION else {}
        idle |= {"depth": "myrtle"} if self.architecture == "myrtle" else {}
        for name, choice in idle.items():
            given, default = getattr(self, name), type(self).model_fields[name].default
            if given != default:
                raise ValueError(f"{name}={given} has no effect with {choice}: leave it at {default}")
        return self

    def network(self) -> Network:
        return Network(self.architecture, self.depth, self.width, self.parameterization)

    def examples(self, seed: int) -> Examples:
        """The data, the same for all seeds of the network."""
        number = np.dtype(self.precision)
        if self.data in REGRESSION:
            x, y = MultiIndex(self.data).sample(run_key(seed), self.samples)
            return Examples(np.asarray(x, number), np.asarray(y, number)[:, None], f"{self.data} regression")
        flat = self.architecture == "fcn"
        found = sample(self.data, self.classes, self.samples, 1, seed, pool=self.pool, flat=flat)
        return Examples(found.x.astype(number), found.y.reshape(self.samples, -1).astype(number), found.name)

    @property
    def convolutional(self) -> bool:
        return self.architecture in ("cnn", "myrtle", "residual")

    @property
    def matmul_precision(self) -> str:
        """Convolutions as the device does them by itself (TF32 on a GPU, five times as fast); the tangent kernel is
        contracted in float32 in any case."""
        return "default" if self.convolutional else "highest"

    @property
    def side_by_side(self) -> int | None:
        """How many networks are trained at a time: convolutions with weights of their own side by side are slower than
        one after the other, also on a GPU; else as many as the library thinks right."""
        return 1 if self.convolutional else None

    def seed_values(self, seed: int) -> np.ndarray:
        return member_seeds(seed, self.seeds)
