"""The figure of learnability: curves with their floors, and how much of each error is a floor."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import INK, PALETTE, THEORY, legend_beside, panels, phase_map

MIXED = ("cannot be expressed", "not learned yet")
COLORS = (PALETTE[0], "#f4efe4")
SHADES = ("#f6c08a", "#f08c54", "#d94f3d", "#a82a45", "#6b1740")
"""The colors of the GA-MLPs, by the highest power."""


def draw_learnability(reduced: xr.Dataset) -> Figure:
    """The held-out errors of all families over the number of training nodes, and the share of the floor in them."""
    figure, (curves, shares) = panels(2, size=(5.6, 4.2))
    names = reduced.model.values.tolist()
    colors = {name: SHADES[k % len(SHADES)] for k, name in enumerate(names)}
    colors |= {names[-1]: PALETTE[1], names[-2]: PALETTE[2]}
    for name in reversed(names):
        rows = reduced.error.sel(model=name)
        curves.plot(rows["count"], rows.transpose("count", "seed"), color=colors[name], alpha=0.25, linewidth=0.7)
        curves.plot(rows["count"], rows.median("seed"), "o-", color=colors[name], markersize=4, label=name)
    floors = np.unique(reduced.floor.values[reduced.floor.values > 0])
    for floor in floors:
        curves.axhline(floor, **THEORY)
    curves.plot([], [], **THEORY, label="predicted floors")
    if "fit_predicted" in reduced:
        style = {"color": INK, "markersize": 5}
        curves.plot(reduced["count"], reduced.fit, "x", **style, label="quadratic fit")
        curves.plot(reduced["count"], reduced.fit_predicted, **{**THEORY, "linestyle": ":"}, label="the fit, predicted")
    curves.set(xscale="log", yscale="log", xlabel="training nodes N", ylabel="error at held-out nodes / variance")
    legend_beside(curves)
    rows = np.arange(len(names), dtype=float)
    error = reduced.error.median("seed").assign_coords(model=rows)
    part = (reduced.floor.assign_coords(model=rows) / error).clip(0, 1)
    mixture = xr.concat([part, 1 - part], "phase").assign_coords(phase=list(MIXED))
    phase_map(shares, mixture, COLORS, x="count", y="model", log="x")
    for cell in error.stack(cell=("count", "model")):
        place = (float(cell["count"]), float(cell.model))
        shares.text(*place, f"{100 * float(cell):.2g}", ha="center", va="center", fontsize=7.5)
    shares.set_yticks(rows, names)
    shares.set(xlabel="training nodes N", ylabel="", title="Error in % of the variance")
    return figure
