"""From the loop's raw records to a labeled trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PyTree

from dynascope.dynamics.loop import Outcome
from dynascope.dynamics.plan import Outline


def label(
    outcomes: list[Outcome],
    shape: Outline,
    recorded: Mapping[str, np.ndarray],
    grid: Mapping[str, PyTree],
    dims: Mapping[str, int],
) -> xr.Dataset:
    """One dataset: the ensemble's dimensions, then the recording dimension, then each probe's own.

    Probes that follow the run share the dimension `step` (or `time`); one with a cadence of its own has `<probe>_step`.
    """
    common = next((at for name, at in recorded.items() if shape.probes[name].every is None), None)
    coords: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    for name, values in grid.items():
        leaves = jax.tree.leaves(values)
        coords[name] = leaves[0] if len(leaves) == 1 and leaves[0].ndim == 1 else np.arange(dims[name])
    for name, probe in shape.probes.items():
        axis = shape.axis if common is not None and np.array_equal(recorded[name], common) else f"{name}_{shape.axis}"
        coords[axis] = recorded[name]
        coords.update({key: np.asarray(value) for key, value in probe.coords.items()})
        parts = [outcome.records[name] for outcome in outcomes]
        entries = (
            {key: [part[key] for part in parts] for key in parts[0]} if isinstance(parts[0], dict) else {"value": parts}
        )
        for key, pieces in entries.items():
            variable = name if key == "value" else f"{name}_{key}"
            own = probe.dims.get(key, ()) if isinstance(probe.dims, Mapping) else probe.dims
            array = _stack(pieces, dims)
            rank = array.ndim - len(dims) - 1
            own = tuple(own) if own else tuple(f"{variable}_{i}" for i in range(rank))
            if len(own) != rank:
                raise ValueError(f"probe '{name}': {rank} dimensions in its value '{key}', but {len(own)} names: {own}")
            variables[variable] = ((*dims, axis, *own), array)
    diverged = _stack([outcome.diverged_at for outcome in outcomes], dims)
    variables["diverged_at"] = (tuple(dims), diverged)
    attrs = {
        "compile_seconds": sum(outcome.compile_seconds for outcome in outcomes),
        "run_seconds": sum(outcome.run_seconds for outcome in outcomes),
    }
    return xr.Dataset(variables, coords, attrs)


def _stack(pieces: list[np.ndarray], dims: Mapping[str, int]) -> np.ndarray:
    if not dims:
        return np.asarray(pieces[0])
    whole = np.concatenate(pieces)
    return whole.reshape(*dims.values(), *whole.shape[1:])


def masked(trace: xr.Dataset, shape: Outline) -> xr.Dataset:
    """Of members that stopped, NaN after their `stopped_at`: nothing was recorded there."""
    stopped = trace.stopped_at
    for name, variable in trace.data_vars.items():
        axis = next((dim for dim in variable.dims if dim == shape.axis or str(dim).endswith(f"_{shape.axis}")), None)
        if axis is not None:
            trace[name] = variable.where((stopped < 0) | (trace[axis] <= stopped)).transpose(*variable.dims)
    return trace
