"""Experiments for the lab's own tests: a random walk in numpy, with each way to fail as a field."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from dynascope.dynamics.monitor import current_monitor
from dynascope.lab.criteria import below, every
from dynascope.lab.experiment import Experiment, Source


class Walk(Experiment):
    """Does a random walk with drift climb?

    It does, unless the drift is zero.
    """

    id = "toy.walk"
    source = Source("The book of toys", "Figure 1")

    steps: int = Field(default=50, gt=0, description="how long it walks")
    drift: float = 1.0
    noise: Literal["normal", "uniform"] = "normal"
    pause: float = Field(default=0.0, ge=0.0, description="seconds between two steps")
    members: int = 4
    crash_in: Literal["", "measure", "predict", "reduce", "judge", "draw"] = ""
    note: str = ""
    log: str = Field(default="", description="a file that gets a line each time it is measured")

    presets = {"quick": {"steps": 20}}
    control = {"drift": 0.0}
    cost = {"quick": 0.1, "full": 0.2}

    def measure(self, seed: int) -> xr.Dataset:
        self._perhaps("measure")
        if self.log:
            with Path(self.log).open("a") as file:
                file.write(f"{self.drift} {os.getpid()}\n")
        monitor = current_monitor()
        rng = np.random.default_rng(seed)
        kept = monitor.restore("walk")
        done, walked = 0, np.zeros((self.members, self.steps + 1))
        if kept is not None:
            done, walked = int(kept["done"]), kept["walked"]
        draw = rng.normal if self.noise == "normal" else rng.uniform
        noise = draw(size=(self.steps, self.members))
        for step in range(done, self.steps):
            walked[:, step + 1] = walked[:, step] + self.drift + 0.1 * noise[step]
            time.sleep(self.pause)
            monitor.progress(float(step + 1), float(self.steps), "walk")
            if self.pause:
                monitor.keep("walk", {"done": np.asarray(step + 1), "walked": walked})
        coords = {"step": np.arange(self.steps + 1), "seed": np.arange(self.members)}
        return xr.Dataset({"position": (("seed", "step"), walked)}, coords, attrs={"compile_seconds": 0.25})

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        self._perhaps("predict")
        return xr.Dataset({"position": self.drift * measured.step})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        self._perhaps("reduce")
        return xr.Dataset({"end": measured.position.isel(step=-1, drop=True)})

    def judge(self, reduced: xr.Dataset):
        self._perhaps("judge")
        yield every("climbs", "the walk climbs", reduced.end > self.steps / 2, seeds=self.members)
        yield below("end", "it ends somewhere", abs(reduced.end.mean()), 1e9)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> dict[str, Figure]:
        self._perhaps("draw")
        figure = Figure(figsize=(2, 2))
        figure.subplots().plot(measured.step, measured.position.T)
        return {"walk": figure}

    def _perhaps(self, where: str) -> None:
        if self.crash_in == where:
            raise RuntimeError(f"told to crash in {where}\nwith a second line")


class Still(Walk):
    """Does a walk without drift stay?"""

    id = "toy.still"
    source = Source(document="The book of toys", place="Figure 2")
    drift: float = 0.0
    presets = {}
