"""Shared by the experiments on the edge of other optimizers: a tanh network that learns ten digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.models.mlp import MLP
from dynascope.tasks.data import images

Rates = Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]
"""A field with learning rates."""
Momenta = Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(min_length=1)]
"""A field with momenta, one for each learning rate of another."""

SIDE = 4
"""The images are averaged over squares of this many pixels: 7 x 7 numbers are left."""
NEAR = 0.1
"""How close to its edge a run ends, relative to it."""
MOST = 0.9
"""The share of runs of which that is claimed."""


class TenDigits(EdgeExperiment):
    """The common fields. The squared error of ten classes falls slowly enough for networks to sharpen all the time."""

    pairs: ClassVar[Mapping[str, str]]
    """The fields with momenta, and those with the learning rate for each of them."""

    samples: PositiveInt = Field(200, ge=10)
    """Images: the first of those in the package."""
    depth: PositiveInt = Field(3, ge=2)
    """Layers of weights."""
    width: PositiveInt = 16
    steps: int = Field(1500, ge=4)
    record: PositiveInt = 20
    """Steps between recordings."""
    seeds: PositiveInt = 10

    @model_validator(mode="after")
    def _a_rate_for_each_momentum(self) -> Any:
        for momenta, rates in self.pairs.items():
            wanted, given = len(getattr(self, momenta)), len(getattr(self, rates))
            if wanted != given:
                raise ValueError(f"{rates} must have {wanted} entries, one for each of {momenta}; got {given}")
        return self

    def data_sets(self) -> tuple[str, ...]:
        return ("digits",)

    def examples(self) -> dict[str, np.ndarray]:
        """Small images from 0 to 1 as `x`, one-hot targets as `y`."""
        found, number = images.load("digits"), np.dtype(self.precision)
        pictures = found.x_train[: self.samples].astype(number) / 255
        rows, columns = (size // SIDE for size in pictures.shape[1:3])
        x = pictures.reshape(len(pictures), rows, SIDE, columns, SIDE).mean(axis=(2, 4))
        return {"x": x.reshape(len(x), -1), "y": np.eye(10, dtype=number)[found.y_train[: self.samples]]}

    def train(
        self, optimizers: Sequence[str], columns: Mapping[str, Sequence[float]], seed: int, fixed: Mapping[str, Any]
    ) -> xr.Dataset:
        """Train at every setting from the same `seeds` initializations, one ensemble for each optimizer.

        `columns` holds, by name, a number for each setting; it and `optimizers` become coordinates.
        """
        traces, seeds = [], member_seeds(seed, self.seeds)
        for name in dict.fromkeys(optimizers):
            of = [index for index, each in enumerate(optimizers) if each == name]
            setting = tuple(np.asarray(values, self.precision)[of] for values in columns.values())
            over = {"setting": setting, "seed": seeds}
            whole = {**self.examples(), **fixed}
            trace = ds.ensemble(self.member(name), over, steps=self.steps, record=self.record, fixed=whole).trace
            trace = trace.drop_vars([each for each in trace.coords if "setting" in trace[each].dims])
            named = {"optimizer": [name] * len(of), **{key: np.asarray(columns[key])[of] for key in columns}}
            traces.append(trace.assign_coords({key: ("setting", values) for key, values in named.items()}))
        return xr.concat(traces, "setting").transpose("setting", "seed", ...)

    def member(self, optimizer: str) -> Any:
        """The member of an ensemble, called with `setting` (a number for each column), `seed` and what is fixed."""
        raise NotImplementedError

    def late(self, values: xr.DataArray) -> xr.DataArray:
        """The median over the second half of the run."""
        return values.where(values.step >= self.steps / 2).median("step")


def network(seed: Array, width: int, depth: int, pixels: int) -> MLP:
    """The network at initialization."""
    return MLP(pixels, depth, key=jax.random.key(seed), width=width, out=10, activation="tanh", bias=True)
