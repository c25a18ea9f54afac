"""The cube of three two-valued concepts: how much of each combination is still missing, and a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from dynascope.curves import order
from dynascope.experiments.concept.painted_paths import from_first
from dynascope.figures import FAINT, PALETTE

SIDE = np.array([[1.0, 0.0], [0.55, 0.4], [0.0, 1.0]])
"""The direction of each concept on the page, as a cube is drawn in perspective."""


def deficits(measured: xr.Dataset) -> xr.DataArray:
    """For each combination the missing part of its concepts, (..., step, combination): 1 minus the change of a
    concept's share when the prompt adds that concept to the others, as a mean over the combination's concepts. It
    starts at the first recording at which half of the pictures of all concepts together are formed, with NaN before.
    `level` counts the concepts combined."""
    names, found = [str(name) for name in measured.prompt.values if "1" in str(name)], []
    formed = from_first(measured.concepts_formed.isel(prompt=-1, drop=True) >= 0.5)
    for name in names:
        parts = []
        for place in np.flatnonzero(np.array(list(name)) == "1"):
            share = measured.concepts.isel(concept=place, drop=True)
            without = name[:place] + "0" + name[place + 1 :]
            parts.append(1 - share.sel(prompt=name, drop=True) + share.sel(prompt=without, drop=True))
        found.append(sum(parts[1:], parts[0]) / len(parts))
    joined = xr.concat(found, "combination").assign_coords(combination=names)
    return joined.where(formed).assign_coords(level=("combination", [name.count("1") for name in names]))


def out_of_order(missing: xr.DataArray) -> xr.DataArray:
    """The share of nested pairs of combinations in which the smaller one has more missing."""
    nodes = np.array([[int(digit) for digit in name] for name in missing.combination.values])
    values = missing.transpose(..., "combination")
    found = order.violation_share(values.values, order.comparable_pairs(nodes))
    return values.isel(combination=0, drop=True).drop_vars("level", errors="ignore").copy(data=found)


def draw_cube(axes: Axes, pictures: xr.DataArray, concepts: Sequence[str]) -> None:
    """The pictures (prompt, y, x, rgb) of all combinations at the corners of a cube, with a frame of one color around
    those that were trained on and of another around the others."""
    names = [str(name) for name in pictures.prompt.values]
    places = {name: np.array([int(digit) for digit in name]) @ SIDE for name in names}
    for name in names:
        for i, digit in enumerate(name):
            if digit == "0":
                ends = np.stack([places[name], places[name[:i] + "1" + name[i + 1 :]]])
                axes.plot(*ends.T, color=FAINT, linewidth=1, zorder=1)
    for name in names:
        image = OffsetImage(pictures.sel(prompt=name).values, zoom=26 / pictures.sizes["x"], interpolation="nearest")
        color = PALETTE[1] if name.count("1") <= 1 else PALETTE[0]
        frame = {"edgecolor": color, "linewidth": 2, "boxstyle": "square,pad=0.05"}
        x, y = places[name].tolist()
        axes.add_artist(AnnotationBbox(image, (x, y), bboxprops=frame, zorder=2))
    for concept, side in zip(concepts, SIDE, strict=True):
        angle = float(np.degrees(np.arctan2(side[1], side[0])))
        turned = {"rotation": angle, "ha": "center", "va": "center", "fontsize": 8}
        axes.annotate(concept, (side[0] / 2, side[1] / 2), _beside(side), textcoords="offset points", **turned)
    axes.set(xlim=(-0.3, 1.85), ylim=(-0.3, 1.7), xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)


def _beside(side: np.ndarray) -> tuple[float, float]:
    """A few points to the right of the edge, seen along it."""
    across = np.array([side[1], -side[0]]) / np.linalg.norm(side)
    return 8 * float(across[0]), 8 * float(across[1])
