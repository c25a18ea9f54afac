"""Any stored trace: its variables, and one of them as lines over chosen dimensions, or as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Any

import xarray as xr

from dynascope.lab import formatting
from dynascope.lab.drawing import spread
from dynascope.lab.errors import UsageError, nearest
from dynascope.lab.overlay import traces
from dynascope.live.views import clock_of, encode, labels_of

MOST_POINTS, MOST_LINES, MOST_FACETS = 2000, 60, 12
"""The most points on a line, lines in a panel, and panels."""
MOST_CELLS = 2_000_000
"""The most values of a variable that are written as CSV."""


def variables(data: xr.Dataset | xr.DataTree) -> list[dict[str, Any]]:
    """The variables of a trace: their dimensions with sizes, and the usual axis of each."""
    return [
        {
            "name": name,
            "dims": [{"name": str(dim), "size": size} for dim, size in array.sizes.items()],
            "x": usual_axis(array),
            "numbers": array.dtype.kind in "fiub",
        }
        for name, array in traces(data).items()
    ]


def usual_axis(array: xr.DataArray) -> str | None:
    """The clock, or the longest dimension."""
    return clock_of(array) or max(map(str, array.dims), key=lambda dim: array.sizes[dim], default=None)


def variable(data: xr.Dataset | xr.DataTree, name: str) -> xr.DataArray:
    """A variable by its name; a `UsageError` if there is none."""
    found = traces(data)
    if name not in found:
        raise UsageError(f"no variable '{name[:100]}'{nearest(name, found) or '; there are ' + ', '.join(found)}")
    return found[name]


def lines(
    array: xr.DataArray, *, x: str | None, color: str | None = None, facet: str | None = None, rest: str = "lines"
) -> dict[str, Any]:
    """The variable along `x`: a panel for each label of `facet`, a color for each label of `color`. Further dimensions
    are lines of their own, or their median (`rest="median"`)."""
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{array.name} does not hold real numbers")
    for what, dim in (("x", x), ("color", color), ("facet", facet)):
        if dim is not None and dim not in array.dims:
            raise UsageError(f"{what} must be a dimension of {array.name}: {', '.join(map(str, array.dims))}")
    chosen = [dim for dim in (x, color, facet) if dim is not None]
    if len(set(chosen)) < len(chosen):
        raise UsageError("x, color and facet must be different dimensions")
    if rest not in ("lines", "median"):
        raise UsageError(f"rest must be lines or median; got {rest[:100]}")
    others = [str(dim) for dim in array.dims if dim not in chosen]
    if rest == "median" and others:
        array, others = array.astype(float).median(others, skipna=True), []
    array = array.transpose(*(dim for dim in (facet, color) if dim), *others, *([x] if x else []))
    points = spread(array.sizes[x], MOST_POINTS) if x else [0]
    facets = labels_of(array, facet) if facet else [None]
    colors = labels_of(array, color) if color else [None]
    rows = array.values.reshape(len(facets), len(colors), -1, array.sizes[x] if x else 1)[..., points]
    names = [labels_of(array, dim) for dim in others]
    each = rows.shape[2]
    kept = max(1, MOST_LINES // min(len(colors), MOST_LINES))
    panels = []
    for place, label in islice(enumerate(facets), MOST_FACETS):
        drawn = [
            {"color": at, "label": _label(others, combination), "y": encode(rows[place, at, number])}
            for at in range(min(len(colors), MOST_LINES))
            for number, combination in islice(enumerate(product(*names)), kept)
        ]
        name = "" if label is None else _label([facet or ""], [label])
        panels.append({"label": name, "lines": drawn})
    axis = [labels_of(array, x)[point] for point in points] if x else [0]
    left_out = len(facets) * len(colors) * each - sum(len(panel["lines"]) for panel in panels)
    return {
        "x": axis,
        "colors": [formatting.text(label) for label in colors] if color else [],
        "panels": panels,
        "left_out": left_out,
    }


def csv(array: xr.DataArray) -> str:
    """All values of a variable, a row for each, with the labels of its dimensions."""
    if array.size > MOST_CELLS:
        raise UsageError(f"{array.name} has {array.size:,} values, too many for CSV: download the netCDF file")
    if not array.dims:
        return f"{array.name}\n{array.item()}\n"
    plain = array.rename(array.name or "value").reset_coords(drop=True)
    return plain.to_dataframe().to_csv()


def _label(dims: Sequence[str], labels: Sequence[Any]) -> str:
    return ", ".join(
        f"{formatting.label(dim)} {formatting.text(label)}" for dim, label in zip(dims, labels, strict=True)
    )
