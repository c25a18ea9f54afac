"""Figure C.22: where the spikes of stochastic gradient descent lie, in eigenspaces of the tangent kernel."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.features.architectures import Shape, squared_error
from dynascope.experiments.features.problems import Problem

SPIKE = 1.3
"""A step that raises the loss on all the data by this factor is a spike."""


class SpikeWatcher(eqx.Module):
    """An ensemble member: small batches at a constant rate, with the loss split by the top eigenvector of the current
    kernel at every step."""

    shape: Shape
    batch: int = eqx.field(static=True)

    def __call__(self, seed: tuple[Array, Array, Array, Array]) -> ds.Descent:
        number, rate, x, y = seed
        probes = {"loss": ds.probes.loss(), "kernel": ds.probes.kernel_norm(x, y, splits=(1,))}
        key = jax.random.fold_in(jax.random.key(number), 1)
        model = self.shape.network(number, x.shape[1:])
        optimizer = rates.scheduled(lambda _: rate)
        return ds.Descent(model, squared_error, optimizer, data=(x, y), batch=self.batch, key=key, probes=probes)


def watch_spikes(
    shape: Shape, batch: int, given: Problem, numbers: np.ndarray, rate: np.ndarray, steps: int
) -> xr.Dataset:
    """`loss` and `top`, the part of it along the top eigenvector, at every step."""
    seeds = (numbers, rate.astype(np.float32), given.x, given.y)
    trace = ds.ensemble(SpikeWatcher(shape, batch), {"seed": seeds}, steps=steps, record=1)
    return xr.Dataset({"loss": trace.loss, "top": trace.kernel_top.isel(split=0, drop=True)})


def top_shares(loss: np.ndarray, top: np.ndarray) -> np.ndarray:
    """For every spike of every seed, which share of the rise of the loss lies along the top eigenvector."""
    rise, of_top = np.diff(loss, axis=-1), np.diff(top, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        spikes = loss[..., 1:] > SPIKE * loss[..., :-1]
        return (of_top / rise)[spikes & np.isfinite(rise)]
