"""Shared by the experiments on catapults in SGD: the count of spikes."""

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
OSCILLATION = 0.1
"""The largest rise in a step, over its start, of a part of the loss that decreases but for small oscillations."""
MEDIAN = "The median over seeds, or their mean: in the first runs single seeds were on either side."


class StochasticExperiment(DeepExperiment):
    """Fields of the experiments on SGD."""

    batch: PositiveInt = 32


def between_spikes(measured: xr.Dataset, top: int = 1, factor: float = SPIKE) -> xr.Dataset:
    """By `seed`, until the run is trained: `rest_rise`, the largest rise in a step of the loss outside the `top`
    eigenvectors, over its start; and `norm_kept`, the share of steps, more than WINDOW away from every spike, that do
    not lower the norm of the kernel."""
    runs = measured.transpose("seed", "step", ...)
    loss, norm, rest = runs.loss.values, runs.kernel.values, runs.kernel_rest.sel(split=top).values
    untrained = np.logical_and.accumulate(loss > TRAINED, axis=1)[:, :-1]
    rises = np.where(untrained, np.diff(rest), -np.inf).max(axis=1) / rest[:, 0]
    kept = []
    for seed, counted in enumerate(untrained):
        calm = counted.copy()
        for peak in np.flatnonzero(spikes(loss[seed], factor, before=WINDOW, after=WINDOW)[:-1] & counted):
            calm[max(0, peak - WINDOW) : peak + WINDOW + 1] = False
        kept.append(np.mean(np.diff(norm[seed])[calm] >= 0) if calm.any() else np.nan)
    return xr.Dataset({"rest_rise": ("seed", rises), "norm_kept": ("seed", np.array(kept))})


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
