"""Names of the members of an ensemble by the values that they were run with: "μ = (0.5, 2)" for "signal 0".

A trace that numbers its settings, 0, 1, 2, ..., has their values beside them: as coordinates, or as variables with
the names of parameters.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.lab import formatting

SYMBOLS = {"mu": "μ", "sigma": "σ", "learning_rate": "η", "alpha": "α", "beta": "β", "gamma": "γ", "rho": "ρ"}
"""The symbols of parameters whose values may lie in a trace as variables."""
MOST_PARTS = 3
"""The most values in a name."""
LONGEST = 4
"""The most components of one value."""


def names_of(data: xr.Dataset) -> dict[str, list[str]]:
    """The names of the labels of each dimension that has values beside it.

    Args:
        data: A trace.

    Returns:
        For each such dimension a name for each label. Values that do not vary are left out.
    """
    found = {}
    for dim in map(str, data.dims):
        if not _is_numbered(data, dim):
            continue
        beside = [str(name) for name in data.coords if name != dim and data[name].dims == (dim,)]
        beside += [str(name) for name in data.data_vars if name in SYMBOLS and _is_setting(data[name], dim)]
        columns = [_texts(data[name], name) for name in beside]
        varying = [column for column in columns if len(set(column)) > 1][:MOST_PARTS]
        if varying:
            found[dim] = [", ".join(parts) for parts in zip(*varying, strict=True)]
    return found


def _is_numbered(data: xr.Dataset, dim: str) -> bool:
    return dim not in data.coords or np.array_equal(data[dim].values, np.arange(data.sizes[dim]))


def _is_setting(array: xr.DataArray, dim: str) -> bool:
    """Whether it has one value, or one short vector, for each label."""
    return array.dims[:1] == (dim,) and (array.ndim == 1 or (array.ndim == 2 and array.shape[1] <= LONGEST))


def _texts(array: xr.DataArray, name: str) -> list[str]:
    symbol = SYMBOLS.get(name, formatting.label(name))
    between = " = " if name in SYMBOLS or len(symbol) == 1 else " "
    return [f"{symbol}{between}{_value(value)}" for value in array.values]


def _value(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"({', '.join(_value(item) for item in value)})"
    if isinstance(value, np.floating):
        return formatting.number(float(f"{float(value):.4g}"))
    return formatting.text(value.item() if isinstance(value, np.generic) else value)
