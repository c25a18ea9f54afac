"""A trace at a glance: one panel for each recorded variable."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from dynascope.figures.forms import legend_beside, settings_colors
from dynascope.figures.style import HOUSE_STYLE, INK, PALETTE

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
PANEL = 4.4, 3.6
"""Width and height of a panel, in inches."""
MOST_LINES = 12
"""The most curves in one panel; if there are more, the median and the middle 80 % are drawn."""
MOST_NAMED = 6
FEW = 20
"""Recordings below which each one is marked."""
DECADES = 2
"""The number of decades of positive values from which the axis is logarithmic."""


def plot_trace(trace: xr.Dataset, names: Sequence[str] | None = None) -> Figure:
    """Draw the values of probes, one panel for each.

    An estimate has a band of its error if the trace has one (`sharpness_error` of `sharpness`). Curves of several
    members, layers or indices share a panel. Positive values over two decades or more have a logarithmic axis. If the
    trace has the attribute `learning_rate`, the sharpness has a line at 2/η.

    Args:
        trace: A trace, as `descend`, `ensemble` and `observe` return it.
        names: The variables to draw. Default: all recorded ones, without the further entries of a probe.

    Returns:
        The figure.
    """
    from matplotlib import rc_context

    from dynascope import checks  # it imports jax
    from dynascope.figures.notebook import NotebookFigure

    if not isinstance(trace, xr.Dataset):
        raise TypeError(f"trace must be an xarray.Dataset, such as a trajectory's trace; got {type(trace).__name__}")
    recorded = recorded_variables(trace)
    if names is None:
        names = without_entries(recorded)
    else:
        names = checks.texts("names", names, "names of variables of the trace")
    if wrong := [name for name in names if name not in recorded]:
        raise ValueError(
            f"names must be variables of the trace, {', '.join(recorded) or 'which has none'}; got {wrong[0]!r}"
        )
    if not names:
        raise ValueError("trace must hold a variable that was recorded along step or time")
    columns = min(COLUMNS, len(names))
    with rc_context(HOUSE_STYLE):  # pyright: ignore[reportArgumentType]
        rows = math.ceil(len(names) / columns)
        figure = NotebookFigure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, name in zip(grid.flat, names, strict=False):
            _draw(axes, trace, name, recorded[name])
        for axes in grid.flat[len(names) :]:
            axes.remove()
    return figure


def recorded_variables(trace: xr.Dataset) -> dict[str, str]:
    """The variables that were recorded along a clock, each with the clock's name: `step`, `time` or one of its own.

    Args:
        trace: A trace.
    """
    return {str(name): axis for name in trace.data_vars if (axis := _recording_axis(trace[name])) is not None}


def without_entries(names: Iterable[str]) -> list[str]:
    """The names of variables without those of further entries: without `sharpness_error` if there is `sharpness`.

    Args:
        names: Names of variables.
    """
    names = list(names)
    return [name for name in names if not any(name.startswith(f"{base}_") for base in names)]


def curves_table(trace: xr.Dataset) -> str:
    """The probes of a trace as a table of HTML: name, small curves, and the last value or the range of the last values.

    Args:
        trace: A trace.

    Returns:
        The text of a `table` element.
    """
    recorded = recorded_variables(trace)
    rows = []
    for name in without_entries(recorded):
        curves = _curves(trace[name], recorded[name])
        shown = curves if len(curves) <= MOST_LINES else _quantiles(curves, (0.1, 0.5, 0.9))
        cells = escape(name), sparkline(shown), _last_values(curves)
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _last_values(curves: np.ndarray) -> str:
    """The last finite value of every curve: one number, or the smallest and the largest."""
    last = [curve[np.isfinite(curve)][-1] for curve in curves if np.any(np.isfinite(curve))]
    if not last:
        return ""
    low, high = f"{min(last):.4g}", f"{max(last):.4g}"
    return low if low == high else f"{low} to {high}"


def sparkline(values: np.ndarray, width: int = 120, height: int = 24) -> str:
    """Small curves as SVG, without axes; logarithmic under the same rule as panels.

    Args:
        values: The curve, `(n,)`, or several, `(k, n)`; values that are not finite are left out.
        width: Width in pixels.
        height: Height in pixels.

    Returns:
        The text of an `svg` element; empty if fewer than two values of every curve are finite.
    """
    from dynascope import checks

    curves = np.atleast_2d(np.asarray(checks.array("values", values, min_ndim=1, empty=True), float))
    if curves.ndim > 2:
        raise ValueError(f"values must be an array with 1 or 2 axes; got {checks.shown(values)}")
    for name, pixels in (("width", width), ("height", height)):
        checks.whole(name, pixels, at_least=3, at_most=100_000)
    seen = [np.flatnonzero(np.isfinite(curve)) for curve in curves]
    drawn = [(x, curve[x]) for x, curve in zip(seen, curves, strict=True) if len(x) > 1]
    if not drawn:
        return ""
    scale = np.log if _spans_decades(np.concatenate([y for _, y in drawn])) else np.asarray
    drawn = [(x, scale(y)) for x, y in drawn]
    left, right = min(x[0] for x, _ in drawn), max(x[-1] for x, _ in drawn)
    low, high = min(y.min() for _, y in drawn), max(y.max() for _, y in drawn)
    lines = []
    for x, y in drawn:
        across = (x - left) / (right - left) * (width - 2) + 1
        up = (height - 2) * (1 - (y - low) / (high - low or 1)) + 1
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{PALETTE[1]}" stroke-width="1.5"/>')
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}">{"".join(lines)}</svg>'


def _spans_decades(values: np.ndarray) -> bool:
    return bool(values.size and values.min() > 0 and values.max() > 10**DECADES * values.min())


def _recording_axis(variable: xr.DataArray) -> str | None:
    dims = [str(dim) for dim in variable.dims]
    found = [dim for dim in dims if dim in ("step", "time") or dim.endswith(("_step", "_time"))]
    return found[0] if found and np.issubdtype(variable.dtype, np.number) else None


def _draw(axes: Axes, trace: xr.Dataset, name: str, along: str) -> None:
    variable = trace[name]
    x, curves = variable[along].values, _curves(variable, along)
    if len(curves) > MOST_LINES:
        seen = ~np.all(np.isnan(curves), axis=0)
        low, middle, high = _quantiles(curves[:, seen], (0.1, 0.5, 0.9))
        axes.fill_between(x[seen], low, high, color=PALETTE[1], alpha=0.2, linewidth=0, label="middle 80 %")
        axes.plot(x[seen], middle, color=PALETTE[1], label=f"median of {len(curves)}")
        axes.legend()
    else:
        colors = [PALETTE[1]] if len(curves) == 1 else settings_colors(len(curves))
        error = trace.get(f"{name}_error")
        widths = _curves(error, along) if error is not None and error.dims == variable.dims else 0 * curves
        style = {"marker": "o", "markersize": 3} if len(x) < FEW else {}
        for curve, width, color, label in zip(curves, widths, colors, _labels(variable, along), strict=True):
            axes.plot(x, curve, color=color, label=label, **style)
            if np.any(width > 0):
                axes.fill_between(x, curve - width, curve + width, color=color, alpha=0.2, linewidth=0)
        if 1 < len(curves) <= MOST_NAMED:
            legend_beside(axes)
    rate = trace.attrs.get("learning_rate")
    if variable.attrs.get("long_name", name) == "sharpness" and isinstance(rate, int | float) and rate > 0:
        axes.axhline(2 / rate, color=INK, linewidth=1, linestyle=(0, (3, 1.6)), label="2/η", zorder=1)
        axes.legend()
    if _spans_decades(curves[np.isfinite(curves)]):
        axes.set_yscale("log")
    title = name.replace("_", " ")
    axes.set(title=title, xlabel=along.removeprefix(f"{name}_"), ylabel=_axis_label(variable, title))


def _axis_label(variable: xr.DataArray, title: str) -> str:
    """The long name, unless it is the title, and the unit, unless it is a plain number."""
    long, units = variable.attrs.get("long_name", ""), variable.attrs.get("units", "1")
    return " ".join(part for part in ("" if long == title else long, "" if units == "1" else f"[{units}]") if part)


def _curves(variable: xr.DataArray, along: str) -> np.ndarray:
    """All curves of a variable, `(curve, step)`."""
    return np.asarray(variable.transpose(..., along).values, float).reshape(-1, variable.sizes[along])


def _quantiles(curves: np.ndarray, shares: tuple[float, ...]) -> np.ndarray:
    """Quantiles over the curves, `(share, step)`; NaN at steps at which no curve has a value."""
    found = np.full((len(shares), curves.shape[1]), np.nan)
    seen = ~np.all(np.isnan(curves), axis=0)
    found[:, seen] = np.nanquantile(curves[:, seen], shares, axis=0)
    return found


def _labels(variable: xr.DataArray, along: str) -> list[str]:
    """A label for each curve: its place along the dimensions that have several."""
    own = [dim for dim in variable.dims if dim != along]
    places = itertools.product(*(variable[dim].values.tolist() for dim in own))
    named = [dim for dim in own if variable.sizes[dim] > 1]
    return [
        ", ".join(f"{dim} {_short(at)}" for dim, at in zip(own, place, strict=True) if dim in named) for place in places
    ]


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
