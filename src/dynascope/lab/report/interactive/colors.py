"""Colors, dashes and markers by Plotly's names."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex, to_rgba
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from dynascope.lab.report.interactive.unknown import UnknownArtist

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
MARKERS = {
    "o": "circle", ".": "circle", ",": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down",
    "<": "triangle-left", ">": "triangle-right", "D": "diamond", "d": "diamond-tall", "*": "star", "x": "x-thin",
    "+": "cross-thin", "p": "pentagon", "h": "hexagon", "P": "cross", "X": "x", "|": "line-ns", "_": "line-ew",
}  # fmt: skip
THIN = ("x", "+", "|", "_")
"""Markers without an inside: they are all edge."""
SMALL = {".": 0.5, ",": 0.3}


def css(color: Any) -> str:
    """A color of matplotlib as CSS."""
    if isinstance(color, str) and color == "none":
        return "rgba(0,0,0,0)"
    *_, opacity = rgba = to_rgba(color)
    if opacity == 1:
        return to_hex(rgba)
    red, green, blue = (round(255 * part) for part in rgba[:3])
    return f"rgba({red},{green},{blue},{round(opacity, 3)})"


def dash(style: str) -> str:
    """A line style of matplotlib by Plotly's name."""
    if style not in DASHES:
        raise UnknownArtist(f"the line style {style!r}")
    return DASHES[style]


def symbol(marker: object) -> str:
    """A marker of matplotlib by Plotly's name."""
    if not isinstance(marker, str) or marker not in MARKERS:
        raise UnknownArtist(f"the marker {marker!r}")
    return MARKERS[marker]


def marker_of(path: Path) -> str:
    """The marker with this path, which is all that a scatter stores."""
    vertices = np.asarray(path.vertices)
    for name in MARKERS:
        style = MarkerStyle(name)
        known = np.asarray(style.get_path().transformed(style.get_transform()).vertices)
        if known.shape == vertices.shape and np.allclose(known, vertices, atol=1e-6):
            return name
    raise UnknownArtist("a scatter with markers of its own")


def color_scale(mappable: ScalarMappable) -> list[list[float | str]]:
    """The colors of a map, in steps too small to see."""
    at = np.linspace(0, 1, 24)
    return [[round(float(place), 4), css(mappable.cmap(place))] for place in at]


def color_range(mappable: ScalarMappable) -> tuple[float, float]:
    """The values of the first and the last color, between which colors go evenly."""
    if type(mappable.norm) is not Normalize:
        raise UnknownArtist("colors that do not go evenly with the values")
    low, high = mappable.norm.vmin, mappable.norm.vmax
    if low is None or high is None or not np.isfinite([low, high]).all():
        raise UnknownArtist("colors without a finite range")
    return float(low), float(high)
