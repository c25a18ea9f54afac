"""Experiments with limits that are known exactly, in numpy: a disk, a line of integers, a step, one that crashes."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.lab.criteria import below, every
from dynascope.lab.experiment import BoundedExperiment, Source

RADIUS = 0.7


class Disk(BoundedExperiment):
    """Is a point within the circle of radius 0.7?"""

    id = "toy.disk"
    source = Source("The book of toys", "Figure 3")
    presets = {"quick": {}}
    control = {"x": 5.0}

    x: float = 0.2
    y: float = 0.1
    rate: float = Field(0.01, gt=0)
    layers: int = Field(3, ge=1)
    noise: float = 0.0
    crash_beyond: float = 1e9
    pause: float = 0.0
    log: str = ""
    pair: tuple[float, float] = (0.2, 0.1)
    sizes: Annotated[tuple[int, ...], Field(min_length=1)] = (4, 8)
    kind: Literal["disk", "depth"] = "disk"

    def measure(self, seed: int) -> xr.Dataset:
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{self.x!r} {seed} {os.getpid()}\n")
        time.sleep(self.pause)
        if self.x > self.crash_beyond:
            raise RuntimeError("too far")
        radius = math.hypot(self.x, self.y) if self.kind == "disk" else RADIUS * self.rate * self.layers
        radius += self.noise * np.random.default_rng([seed, round(1e6 * self.x)]).normal()
        return xr.Dataset({"radius": radius, "pair": ("at", list(self.pair))})

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        return measured

    def judge(self, reduced: xr.Dataset):
        yield below("inside", "it is inside", reduced.radius, RADIUS)
        yield every("flag", "it is inside, yes or no", reduced.radius < RADIUS)
        yield below("first", "the first of a pair is small", reduced.pair[0], 0.5)
        yield below("always", "it is somewhere", reduced.radius, 1e9)
        for name in ("named",):
            yield below(f"{name}-late", "its name is composed", reduced.radius, RADIUS)

    def predict_limits(self, claim: str, field: str) -> Iterable[float]:
        if claim not in ("inside", "flag") or field not in ("x", "y"):
            return ()
        other = self.y if field == "x" else self.x
        square = RADIUS**2 - other**2
        return (math.sqrt(square), -math.sqrt(square)) if square >= 0 else (math.nan, math.nan)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> dict:
        return {}
