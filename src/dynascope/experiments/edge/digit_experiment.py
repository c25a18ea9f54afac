"""Shared by the experiments on small ReLU networks: two-class digits, the network and its training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.models.mlp import MLP
from dynascope.tasks.data import images

Data = Literal["mnist", "digits"]
NAME = "0 and 1 of MNIST, {} pixels"


class DigitDescent(ds.Member):
    """An ensemble member: gradient descent on a ReLU network with biases, with one drop of the rate or none."""

    depth: int
    width: int
    flips: bool

    def __call__(self, seed: Array, rate: tuple[Array, Array, Array], x: Array, y: Array) -> ds.Descent:
        before, after, drop_at = rate
        model = MLP(
            x.shape[1], self.depth, key=jax.random.key(seed), width=self.width, out=2, activation="relu", bias=True
        )
        probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness()}
        if self.flips:
            probes["flip"] = ds.probes.flip_discriminant(before)
        optimizer = optax.sgd(lambda step: jnp.where(step < drop_at, before, after))
        return ds.Descent(model, ds.tasks.Supervised("mse"), optimizer, data=(x, y), probes=probes)


class DigitExperiment(EdgeExperiment):
    """The common fields, with the document's values if it states them."""

    data: Data = "mnist"
    """MNIST, or the part of it in the package (digits)."""
    samples: PositiveInt = Field(2000, ge=10)
    depth: PositiveInt = Field(3, ge=2)
    """Layers of weights."""
    width: PositiveInt = 16
    seeds: PositiveInt = 5

    def data_sets(self) -> tuple[str, ...]:
        return (self.data,)

    def train(self, rates: Sequence[tuple[float, float, int]], steps: int, seed: int, flips: bool) -> xr.Dataset:
        """Train at each (rate, rate after the drop, step of the drop) from the same `seeds` initializations."""
        found = images.two_class_digits(self.samples, name=self.data, expect=None)
        before, after, drop_at = zip(*rates, strict=True)
        number, member = np.dtype(self.precision), DigitDescent(self.depth, self.width, flips)
        rate = np.asarray(before, number), np.asarray(after, number), np.asarray(drop_at, np.int32)
        over = {"rate": rate, "seed": member_seeds(seed, self.seeds)}
        fixed = {"x": found.x.astype(number), "y": found.y.astype(number)}
        trace = ds.ensemble(member, over, steps=steps, record=1, fixed=fixed).trace
        return trace.assign_attrs(data=NAME.format(found.x.shape[1]))
