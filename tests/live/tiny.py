"""Tiny experiments: points that spiral into the origin, recorded while they run; and sums, of which nothing moves."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field

import dynascope as ds
from dynascope.lab.criteria import every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.probes.probe import Snapshot, probe

TURNS = 100


class Spiral(eqx.Module):
    """A point that is turned and shrunk at each step; in many small turns, so that a long run lasts minutes."""

    def __call__(self, start: Array, rate: Array) -> ds.Map:
        angle = 0.2 / TURNS
        turn = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])

        def step(x: Array) -> Array:
            return rate * jax.lax.fori_loop(0, TURNS, lambda _, y: turn @ y, x)

        def place(snapshot: Snapshot) -> Array:
            return snapshot.model

        def size(snapshot: Snapshot) -> Array:
            return jnp.sum(snapshot.model**2)

        probes = {"place": probe(place, dims=("concept",), coords={"concept": [1, 2]}), "size": probe(size)}
        return ds.Map(step, jnp.array([start, 0.0]), probes=probes)


class Shrinks(Experiment):
    """Does the spiral shrink?"""

    id = "tiny.spiral"
    source = Source("A book of spirals", "Figure 1")
    presets = {"quick": {"steps": 200}}
    control = {"rate": 1.01}
    cost = {"quick": 1, "full": 10}

    steps: int = Field(20000, ge=1)
    """How long it turns."""
    rate: float = Field(0.99, gt=0, lt=2)
    starts: tuple[float, ...] = (1.0, 2.0)
    style: Literal["plain", "fancy"] = "plain"

    def measure(self, seed: int) -> xr.Dataset:
        over = {"start": np.asarray(self.starts, np.float32)}
        fixed = {"rate": np.float32(self.rate)}
        record = max(1, min(self.steps // 100, 20_000))
        return ds.ensemble(Spiral(), over, steps=self.steps, record=record, fixed=fixed).trace

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        size = measured.start.astype(float) ** 2 * self.rate ** (2 * measured.step.astype(float))
        return xr.Dataset({"size": size})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        return xr.Dataset({"end": measured["size"].isel(step=-1, drop=True), "begin": measured["size"].isel(step=0)})

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield every("shrinks", "The spiral ends nearer to the origin", reduced.end < reduced.begin)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(measured.step, measured["size"].T)
        return {"spiral": figure}


class Sums(Experiment):
    """Is the sum of `n` odd numbers a square?"""

    id = "tiny.sums"
    source = Source("A book of numbers", "Theorem 1")
    presets = {"quick": {}}
    control = {"first": 2}

    first: int = 1

    def measure(self, seed: int) -> xr.Dataset:
        return xr.Dataset({"total": ("count", np.cumsum(self.first + 2 * np.arange(5)))})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        return xr.Dataset({"root": np.sqrt(measured.total)})

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield every("square", "The sum of `n` odd numbers is n^2", reduced.root == np.arange(1, 6))

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(measured.total)
        return {"sums": figure}
