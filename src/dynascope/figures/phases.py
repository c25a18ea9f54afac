"""Phase diagrams: a plane of two settings, each cell in the colors of the phases that its runs end in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from dynascope.figures.forms import check_axes

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes


def phase_map(
    axes: Axes, shares: xr.DataArray, colors: Sequence[str], *, x: str, y: str, log: str = "", legend: bool = True
) -> None:
    """Draw a phase diagram: the color of a cell is the mixture of the colors of its phases, by their shares.

    Theory is drawn over it with `axes.plot(..., **THEORY)`.

    Args:
        axes: The axes.
        shares: Shares of the runs of each cell, with the dimensions `phase`, `x` and `y`; the last two have numbers as
            coordinates. NaN leaves a cell white. The coordinate `phase` has the names for the legend.
        colors: One color for each phase.
        x: The dimension along the horizontal axis.
        y: The dimension along the vertical axis.
        log: The axes with logarithmic scales: `""`, `"x"`, `"y"` or `"xy"`. Default: `""`.
        legend: Whether the names of the phases stand below the axes. Default: True.
    """
    from matplotlib.colors import is_color_like, to_rgb
    from matplotlib.patches import Patch

    from dynascope import checks  # it imports jax

    check_axes(axes)
    checks.one_of("log", log, ("", "x", "y", "xy"))
    checks.flags(legend=legend)
    _check_shares(shares, x, y, log)
    if isinstance(colors, str) or not isinstance(colors, Sequence) or not all(map(is_color_like, colors)):
        raise TypeError(f"colors must be a list of colors, as matplotlib takes them; got {checks.shown(colors)}")
    if shares.sizes["phase"] != len(colors):
        raise ValueError(f"colors must be {shares.sizes['phase']}, one for each phase; got {len(colors)}")
    cells = shares.transpose(y, x, "phase").sortby([x, y])
    mixed = np.clip(cells.values @ np.array([to_rgb(color) for color in colors]), 0, 1)
    mixed = np.where(np.isnan(mixed), 1.0, mixed)
    edges = [_edges(cells[name].values.astype(float), letter in log) for name, letter in ((x, "x"), (y, "y"))]
    axes.pcolormesh(*edges, mixed, rasterized=True)
    axes.set(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear", xlabel=x, ylabel=y)
    axes.set(xlim=(edges[0][0], edges[0][-1]), ylim=(edges[1][0], edges[1][-1]))
    axes.grid(visible=False)
    if not legend:
        return
    patches = [Patch(color=color, label=str(name)) for color, name in zip(colors, shares.phase.values, strict=True)]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(colors))


def phase_shares(phases: xr.DataArray, names: Sequence[str], over: str = "seed") -> xr.DataArray:
    """The share of runs in each phase.

    Args:
        phases: The number of the phase in which each run ends, from 0; any dimensions.
        names: The names of the phases.
        over: The dimension of the runs that are counted together. Default: `"seed"`.

    Returns:
        The shares, with the dimension `phase` instead of `over`.
    """
    from dynascope import checks

    if not isinstance(phases, xr.DataArray) or phases.dtype.kind not in "biuf":
        raise TypeError(f"phases must be an xarray.DataArray of numbers; got {checks.shown(phases)}")
    names = checks.texts("names", names, "the names of the phases, a list of strings")
    checks.one_of("over", over, phases.dims)
    flags = [(phases == number).mean(over) for number in range(len(names))]
    return xr.concat(flags, dim="phase").assign_coords(phase=list(names))


def _check_shares(shares: xr.DataArray, x: str, y: str, log: str) -> None:
    """Check that the shares are over phases and over two dimensions of increasing numbers, positive ones on a
    logarithmic scale."""
    from dynascope import checks

    for letter, name in (("x", x), ("y", y)):
        if not isinstance(name, str):
            raise TypeError(f"{letter} must be the name of a dimension of shares; got {checks.shown(name)}")
    if not isinstance(shares, xr.DataArray) or set(shares.dims) != {"phase", x, y} or shares.ndim != 3:
        got = f"one over {shares.dims}" if isinstance(shares, xr.DataArray) else checks.shown(shares)
        raise ValueError(f"shares must be an xarray.DataArray over phase and the two dimensions x and y; got {got}")
    for letter, name in (("x", x), ("y", y)):
        middles = shares[name].values
        if middles.dtype.kind not in "iuf" or not middles.size or not np.all(np.isfinite(middles)):
            raise TypeError(f"{letter} must be a dimension of shares with finite numbers as coordinates; got {name!r}")
        if letter in log and np.any(middles <= 0):
            raise ValueError(f"log must be for axes with positive numbers; got {log!r}, and {name} is not positive")


def _edges(middles: np.ndarray, log: bool) -> np.ndarray:
    """The borders of cells with these middles."""
    points = np.log(middles) if log else middles
    inner = (points[1:] + points[:-1]) / 2
    first, last = (points[0], points[-1]) if len(points) < 2 else (2 * points[0] - inner[0], 2 * points[-1] - inner[-1])
    edges = np.array([first, *inner, last]) if len(points) > 1 else np.array([first - 0.5, last + 0.5])
    return np.exp(edges) if log else edges
