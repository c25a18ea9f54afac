"""What the experiments on small ReLU networks share: two-class digits, the network, and gradient descent on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.seeds import member_seeds
from dynascope.lab.experiment import Experiment
from dynascope.models.mlp import MLP
from dynascope.tasks.data import images

Data = Literal["auto", "digits", "gaussians"]
DIGITS = "0 and 1 of MNIST, {} pixels"
SUBSTITUTE = "a substitute for MNIST, two Gaussians in {} dimensions"


class Sample(NamedTuple):
    """Inputs, one-hot targets, and what they are."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n 2"]
    name: str


def sample(data: Data, count: int) -> Sample:
    """`count` reduced digits, or, if they are asked for or ("auto") no digits are to be had, two Gaussians instead."""
    if data != "gaussians":
        try:
            digits = images.two_class_digits(count, expect=None)
        except images.DataNotFoundError:
            if data == "digits":
                raise
        else:
            return Sample(digits.x, digits.y, DIGITS.format(digits.x.shape[1]))
    x, y = two_gaussians(count)
    return Sample(x, y, SUBSTITUTE.format(x.shape[1]))


def two_gaussians(count: int, dim: int = 79) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n 2"]]:
    """Like the digits in size: centered at 0.45, classes a half apart in each coordinate, and more of the spread in a
    few directions than in the others."""
    draw = np.random.default_rng(0)
    second = np.arange(count) % 2
    pattern = draw.choice([-0.25, 0.25], dim)
    factors = 0.12 * draw.standard_normal((6, dim))
    spread = draw.standard_normal((count, 6)) @ factors + 0.2 * draw.standard_normal((count, dim))
    return 0.45 + (2 * second - 1)[:, None] * pattern + spread, np.eye(2)[second]


def squared_error(model: MLP, batch: tuple[Array, Array]) -> Array:
    """The mean over samples and outputs."""
    x, y = batch
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


class DigitLearner(eqx.Module):
    """An ensemble member: a ReLU network with biases, gradient descent with one drop of its rate (or none)."""

    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    flips: bool = eqx.field(static=True)

    def __call__(self, seed: Array, rate: tuple[Array, Array, Array], x: Array, y: Array) -> ds.Descent:
        before, after, drop_at = rate
        model = MLP(
            x.shape[1], self.depth, key=jax.random.key(seed), width=self.width, out=2, activation="relu", bias=True
        )
        probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness()}
        if self.flips:
            probes["flip"] = ds.probes.flip_discriminant(before)
        optimizer = optax.sgd(lambda step: jnp.where(step < drop_at, before, after))
        return ds.Descent(model, squared_error, optimizer, data=(x, y), probes=probes)


class DigitExperiment(Experiment):
    """Fields that the experiments on digits have in common, with the document's values where it states them."""

    precision: Literal["float32", "float64"] = "float64"
    data: Data = "auto"
    """Digits where the file is to be had and else two Gaussians (auto), or one of them in any case."""
    samples: PositiveInt = Field(2000, ge=10)
    depth: PositiveInt = Field(3, ge=2)
    """Layers of weights."""
    width: PositiveInt = 16
    seeds: PositiveInt = 5

    def train(self, rates: Sequence[tuple[float, float, int]], steps: int, seed: int, flips: bool) -> xr.Dataset:
        """Train at each (rate, rate after a drop, step of the drop) with `seeds` seeds, the same starts for each."""
        found = sample(self.data, self.samples)
        before, after, drop_at = zip(*rates, strict=True)
        number = np.dtype(self.precision)
        trace = ds.ensemble(
            DigitLearner(self.depth, self.width, flips),
            {"rate": (np.asarray(before, number), np.asarray(after, number), np.asarray(drop_at, np.int32)),
             "seed": member_seeds(seed, self.seeds)},
            steps=steps, record=1, fixed={"x": found.x.astype(number), "y": found.y.astype(number)},
        ).trace  # fmt: skip
        return trace.assign_attrs(data=found.name)
