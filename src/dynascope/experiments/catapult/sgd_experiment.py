"""Shared by the experiments on catapults in SGD: how spikes are counted."""

from __future__ import annotations

from typing import cast

import numpy as np
import xarray as xr
from pydantic import PositiveInt

from dynascope.curves import Rise, spikes, troughs
from dynascope.experiments.catapult.deep_experiment import DeepExperiment

WINDOW, SPIKE = 5, 2.0
"""A spike is the highest loss within WINDOW steps before and after, and SPIKE times the lowest in those before."""
TRAINED = 1e-3
"""The loss at which the document's runs end; later steps are not counted."""


class StochasticExperiment(DeepExperiment):
    """Fields of the experiments on SGD."""

    batch: PositiveInt = 32


def spikes_of(measured: xr.Dataset, factor: float = SPIKE) -> xr.Dataset:
    """The spikes of all runs, until they are trained, along `spike`: `height`, the loss at the peak over that at the
    trough; `share`, the part of the rise in the top `split` eigenvectors; `norm_ratio`, the norm of the kernel
    WINDOW steps after the peak over that at the trough; and `run`, the number of the run."""
    found = []
    for number in range(measured.sizes["seed"]):
        one = measured.isel(seed=number).transpose("step", ...)
        loss, norm = one.loss.values, one.kernel.values
        untrained = np.logical_and.accumulate(loss > TRAINED)
        peak = np.flatnonzero(spikes(loss, factor, before=WINDOW, after=WINDOW) & untrained)
        rise, after = Rise(troughs(loss, WINDOW)[peak], peak), np.minimum(peak + WINDOW, loss.size - 1)
        shares = [rise.share(part, loss) for part in one.kernel_top.transpose("split", "step").values]
        values = {"height": rise.height(loss), "norm_ratio": norm[after] / norm[rise.trough]}
        table = {name: ("spike", each.astype(float)) for name, each in values.items()}
        table |= {"share": (("split", "spike"), np.array(shares, float)), "run": ("spike", np.full(peak.size, number))}
        found.append(xr.Dataset(table, {"split": one.split.values}))
    return cast(xr.Dataset, xr.concat(found, "spike", coords="minimal"))
