"""A small experiment whose runs are kept from earlier versions; `0.1.0/` is what these commands left then.

dynascope run slope.py --preset quick --runs 0.1.0
dynascope run slope.py --preset quick --control --runs 0.1.0
dynascope sweep slope.py --preset quick --grid slope=1,2 --yes --runs 0.1.0
dynascope limits slope.py --preset quick --over slope=0.25:1 --points 3 --at-once 1 --yes --runs 0.1.0
python slope.py     # 0.1.0/descent.npz
"""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import dynascope as ds
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import above, below
from dynascope.lab.experiment import Experiment, Source


class Slope(Experiment):
    """Does a line rise?"""

    id = "old.slope"
    source = Source("The book of lines", "Figure 1")
    presets = {"quick": {"steps": 3}}
    control = {"slope": 0.0}
    known_failures = {"short": "It is long."}

    slope: float = 1.0
    steps: int = 5

    def measure(self, seed: int) -> xr.Dataset:
        steps = np.arange(self.steps)
        return xr.Dataset({"height": ("step", self.slope * steps)}, {"step": steps})

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        return xr.Dataset({"height": self.slope * measured.step})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        return xr.Dataset({"end": measured.height[-1]})

    def judge(self, reduced: xr.Dataset) -> Iterator[Claim]:
        yield above("rises", "The line rises", reduced.end, smallest=0.5)
        yield below("short", "The line is short", reduced.end, largest=-1.0)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> dict[str, Figure]:
        figure = Figure(figsize=(2, 1.5))
        figure.subplots().plot(measured.step, measured.height)
        return {"line": figure}


def descend(steps: int) -> ds.Trajectory:
    """A training of a few steps, whose trajectory is kept."""
    x = np.arange(8, dtype=np.float32).reshape(4, 2) / 8  # the same bits everywhere
    model = eqx.nn.Linear(2, 1, use_bias=False, key=jax.random.key(0))
    task, probes = ds.tasks.Supervised("mse"), {"loss": ds.probes.loss()}
    return ds.descend(model, task, optax.adam(0.1), data=(x, x[:, :1]), steps=steps, probes=probes)


if __name__ == "__main__":
    descend(3).save("0.1.0/descent")
