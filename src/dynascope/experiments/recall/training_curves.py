"""Readings of the curves of trained transformers."""

from __future__ import annotations

import numpy as np
import xarray as xr


def crossing(curves: xr.DataArray, level: float) -> xr.DataArray:
    """The first step, from 1 on, at which each seed's curve is above a level; the last step if it never is."""
    rows = curves.transpose("seed", "step")
    above, steps = rows.values > level, np.maximum(rows.step.values, 1).astype(float)
    first = np.where(above.any(1), steps[above.argmax(1)], steps[-1])
    return xr.DataArray(first, dims="seed")


def late_mean(curves: xr.DataArray) -> xr.DataArray:
    """The mean over the last four recordings."""
    return curves.isel(step=slice(-4, None)).mean("step")
