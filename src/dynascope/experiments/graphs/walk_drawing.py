"""Figures of walk counting."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import FAINT, PALETTE, THEORY, legend_beside, panels

TABLE = {
    "GIN": {"cora": 9.72e-7, "regular": 2.61e-4},
    "A": {"cora": 1.56e-1, "regular": 2.13e-2},
    "A+": {"cora": 6.44e-2, "regular": 2.13e-2},
    "Ã(1)": {"cora": 5.79e-1, "regular": 1.58e-1},
    "Ã(1)+": {"cora": 5.79e-1, "regular": 1.52e-1},
}
"""Test errors of Table 2.2."""
LENGTHS = {"regular": 3, "cora": 2}
"""The edges of the walks in the table."""
NAMES = {"regular": "Random 6-regular graph", "cora": "Cora"}


def draw_errors(lengths: Mapping[str, int], reduced: xr.Dataset) -> Figure:
    """The errors of all models on each graph, beside those of the table."""
    figure, axes = panels(2, size=(5.2, 3.8))
    rows = reduced.model.values.tolist()
    for panel, name_of_graph in zip(axes, lengths, strict=False):
        for place, name in enumerate(rows):
            color = PALETTE[1] if name == "GIN" else PALETTE[0]
            errors = reduced.error.sel(graph=name_of_graph, model=name)
            height = np.full(errors.sizes["seed"], place)
            panel.plot(errors.sel(split="test"), height, "o", color=color, alpha=0.7, markersize=6)
            panel.plot(errors.sel(split="train"), height + 0.22, "|", color=FAINT, markersize=8)
            if name in TABLE and lengths[name_of_graph] == LENGTHS[name_of_graph]:
                panel.plot(TABLE[name][name_of_graph], place, "x", color="black", markersize=7)
        if name_of_graph == "regular":
            panel.axvline(float(reduced.smooth.sel(graph=name_of_graph, split="test")), **THEORY)
        panel.set(xscale="log", xlabel="error / variance of the labels")
        panel.set(yticks=range(len(rows)), ylim=(len(rows) - 0.5, -0.5))
        panel.set_yticklabels(rows if panel is axes[0] else [])
        panel.set_title(f"{NAMES[name_of_graph]}, {lengths[name_of_graph]} edges")
    handles = [
        ("o", PALETTE[1], "test, message passing"),
        ("o", PALETTE[0], "test, GA-MLP"),
        ("|", FAINT, "training"),
        ("x", "black", "Table 2.2, test"),
    ]
    for marker, color, label in handles:
        axes[-1].plot([], [], marker, color=color, label=label)
    axes[-1].plot([], [], **THEORY, label="quadratic fit, test")
    legend_beside(axes[-1])
    return figure


def draw_learning(epochs: Mapping[str, int], errors: xr.DataArray, reduced: xr.Dataset) -> Figure:
    """The test errors while they learn, of the settings that are shown."""
    figure, axes = panels(len(epochs), squeeze=False)
    for panel, which in zip(axes[0], epochs, strict=True):
        for color, name in zip(PALETTE, ("A", "GIN", "A+", "Ã(1)"), strict=True):
            chosen = errors.sel(graph=which, model=name, split="test")
            curves = chosen.isel(setting=int(reduced.setting.sel(graph=which, model=name)))
            at = epochs[which] * curves.recording / (curves.sizes["recording"] - 1)
            panel.plot(at, curves.transpose("recording", "seed"), color=color, alpha=0.8)
            panel.plot([], [], color=color, label=name)
        panel.set(yscale="log", xlabel="epoch", ylim=(None, 3), xticks=np.linspace(0, epochs[which], 5))
        panel.set_title(f"{NAMES[which]}, test error")
    legend_beside(axes[0][-1])
    return figure
