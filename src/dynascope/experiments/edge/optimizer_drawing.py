"""The figures of the experiments on the edge of other optimizers: a curvature, and its edge in theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import xarray as xr
from matplotlib.axes import Axes

from dynascope.figures import INK, PALETTE, THEORY

COLORS = (*PALETTE, INK, "#8c6d4f")


def draw_edges(
    axes: Sequence[Axes], values: xr.DataArray, edge: xr.DataArray, names: Mapping[str, str], what: tuple[str, str]
) -> None:
    """In the first axes the curvature of every setting, with its own edge; in the second, the same over the edge."""
    absolute, over_edge = axes
    for setting in range(values.sizes["setting"]):
        of, limit = values.isel(setting=setting), float(edge[setting])
        name = f"{names[str(of.optimizer.values)].format(momentum=float(of.momentum))}, η = {float(of.rate):g}"
        draw_seeds(absolute, of, COLORS[setting % len(COLORS)], name)
        draw_seeds(over_edge, of / limit, COLORS[setting % len(COLORS)], name)
        absolute.axhline(limit, **THEORY)
    over_edge.axhline(1, **THEORY)
    over_edge.legend(loc="lower right")
    absolute.set(xlabel="step", ylabel=what[0], title=what[1])
    over_edge.set(xlabel="step", ylabel="over the edge", title="The same, over the edge of theory", ylim=(0, 2))


def draw_seeds(axes: Axes, values: xr.DataArray, color: str, label: str = "") -> None:
    """A thin line for each seed, and a thick one for their median."""
    for seed in range(values.sizes["seed"]):
        axes.plot(values.step, values.isel(seed=seed), color=color, linewidth=0.6, alpha=0.35)
    axes.plot(values.step, values.median("seed"), color=color, linewidth=1.5, label=label)
