"""Valid calls of the figures."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from valid_calls.shared import Calls


def calls() -> Calls:
    axes = Figure().subplots()
    axes.plot([0, 1], label="a line")
    step = np.arange(3)
    trace = xr.Dataset({"loss": ("step", 2.0**-step), "sharpness": ("step", 1.0 + step)}, {"step": step})
    phases = xr.DataArray(np.zeros((3, 2, 2), int), {"x": [1.0, 2.0], "y": [1.0, 3.0]}, ("seed", "x", "y"))
    shares = xr.concat([(phases == k).mean("seed") for k in range(2)], "phase").assign_coords(phase=["stays", "leaves"])
    diagram = {"axes": axes, "shares": shares, "colors": ("red", "#00798c"), "x": "x", "y": "y"}
    return {
        "concept_plane": ({"axes": axes, "mu": (1.0, 2.0)}, {"label": "foo"}),
        "legend_beside": ({"axes": axes}, {}),
        "panels": ({"columns": 2}, {}),
        "phase_map": (diagram, {}),
        "phase_shares": ({"phases": phases, "names": ["stays", "leaves"]}, {"names": "foo"}),
        "plot_trace": ({"trace": trace}, {}),
        "settings_colors": ({"count": 3}, {"count": "0"}),
        "sparkline": ({"values": 2.0**-step}, {"values": "nested empty []"}),
    }
