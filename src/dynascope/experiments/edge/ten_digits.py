"""Shared by the experiments on the edge of other optimizers: a tanh network that learns ten digits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.models.mlp import MLP
from dynascope.tasks.data import images

SIDE = 4
"""The images are averaged over squares of this many pixels: 7 x 7 numbers are left."""
CHOSEN = (
    "The learning rates: at each of them one trial run came to the edge before the digits were fitted. The tolerance "
    "was set after seed 0 of these runs, the share after ten seeds: of fifty runs with "
    "momentum one is at 0.89 of its edge."
)
NEAR = 0.1
"""How close to its edge a run ends, relative to it."""
MOST = 0.9
"""The share of runs of which that is claimed."""


class TenDigits(EdgeExperiment):
    """The common fields. The squared error of ten classes falls slowly enough for networks to sharpen all the time."""

    samples: PositiveInt = Field(200, ge=10)
    """Images: the first of those in the package."""
    depth: PositiveInt = Field(3, ge=2)
    """Layers of weights."""
    width: PositiveInt = 16
    steps: int = Field(1500, ge=4)
    record: PositiveInt = 20
    """Steps between recordings."""
    seeds: PositiveInt = 10

    def data_sets(self) -> tuple[str, ...]:
        return ("digits",)

    def examples(self) -> dict[str, np.ndarray]:
        """Small images from 0 to 1 as `x`, one-hot targets as `y`."""
        found, number = images.load("digits"), np.dtype(self.precision)
        pictures = found.x_train[: self.samples].astype(number) / 255
        rows, columns = (size // SIDE for size in pictures.shape[1:3])
        x = pictures.reshape(len(pictures), rows, SIDE, columns, SIDE).mean(axis=(2, 4))
        return {"x": x.reshape(len(x), -1), "y": np.eye(10, dtype=number)[found.y_train[: self.samples]]}

    def late(self, values: xr.DataArray) -> xr.DataArray:
        """The median over the second half of the run."""
        return values.where(values.step >= self.steps / 2).median("step")


def network(seed: Array, width: int, depth: int, pixels: int) -> MLP:
    """The network at initialization."""
    return MLP(pixels, depth, key=jax.random.key(seed), width=width, out=10, activation="tanh", bias=True)


def with_settings(
    trace: xr.Dataset, optimizers: Sequence[str], rates: Sequence[float], momenta: Sequence[float]
) -> xr.Dataset:
    """The trace of an ensemble, with the optimizer, rate and momentum of each setting as coordinates."""
    named = {"optimizer": list(optimizers), "rate": list(rates), "momentum": list(momenta)}
    kept = trace.drop_vars([name for name in trace.coords if "setting" in trace[name].dims])
    return kept.assign_coords({name: ("setting", values) for name, values in named.items()})
