"""Lines, markers, and the collections of them, as scatter traces."""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.lines import Line2D

from dynascope.lab.report.interactive.colors import SMALL, THIN, css, dash, marker_of, symbol
from dynascope.lab.report.interactive.plots import Entry, Plot
from dynascope.lab.report.interactive.scales import PIXELS
from dynascope.lab.report.interactive.unknown import UnknownArtist

T = TypeVar("T")
STEPS = {"steps-pre": "vh", "steps": "vh", "steps-post": "hv", "steps-mid": "hvh"}
EMPTY = ("", " ", "None", "none", None)
MOST_COLORS = 60
"""A collection with lines of more colors is refused."""


def line(plot: Plot, artist: Line2D) -> None:
    """A `Line2D`: a trace in data, a shape if it goes from edge to edge."""
    across, up = plot.in_data(artist.get_transform())
    if across and up:
        x, y = (np.asarray(part, dtype=float) for part in (artist.get_xdata(False), artist.get_ydata(False)))
        if artist.get_markevery() is not None:
            raise UnknownArtist("markers at some of the points")
        plot.trace(artist, type="scatter", **style(artist), **plot.curve(x, y))
        return
    ends = [np.asarray(artist.get_xdata()), np.asarray(artist.get_ydata())]
    if any(len(part) != 2 for part in ends):
        raise UnknownArtist("a curve in the box of its axes")
    scales = (plot.x if across else None, plot.y if up else None)
    (x0, x1), (y0, y1) = (
        [scale.numbers([value])[0] if scale else float(value) for value in part]
        for scale, part in zip(scales, ends, strict=True)
    )
    shape = {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "layer": "below", "line": line_style(artist)}
    plot.shapes.append(shape | plot.refs(across, up))


def style(artist: Line2D) -> Entry:
    """The line and its markers."""
    lines, marks = artist.get_linestyle() not in EMPTY, artist.get_marker() not in EMPTY
    mode = "+".join(name for name, there in (("lines", lines), ("markers", marks)) if there) or "none"
    shape = STEPS.get(artist.get_drawstyle())
    line = {"line": line_style(artist) | ({"shape": shape} if shape else {})} if lines else {}
    return {"mode": mode, **line, **({"marker": marker_style(artist)} if marks else {})}


def line_style(artist: Line2D) -> Entry:
    """The color, width and dashes of a line."""
    return {
        "color": css(artist.get_color()),
        "width": round(PIXELS * artist.get_linewidth(), 2),
        "dash": dash(str(artist.get_linestyle())),
    }


def marker_style(artist: Line2D) -> Entry:
    """The markers of a line."""
    kind = str(artist.get_marker())
    face, edge = artist.get_markerfacecolor(), artist.get_markeredgecolor()
    hollow = isinstance(face, str) and face == "none"
    return _marker(kind, artist.get_markersize(), css(face), css(edge), artist.get_markeredgewidth(), hollow)


def _marker(kind: object, size: float, face: object, edge: str, width: float, hollow: bool) -> Entry:
    thin = kind in THIN
    return {
        "symbol": symbol(kind) + ("-open" if thin or hollow else ""),
        "size": round(PIXELS * size * SMALL.get(str(kind), 1.0), 2),
        "color": edge if thin or hollow else face,
        "line": {"width": round(PIXELS * width, 2), "color": edge},
    }


def points(plot: Plot, artist: PathCollection) -> None:
    """A scatter (`PathCollection`)."""
    if plot.in_data(artist.get_offset_transform()) != (True, True):
        raise UnknownArtist("a scatter that is not in the data")
    artist.update_scalarmappable()
    offsets = np.ma.filled(np.ma.asarray(artist.get_offsets(), dtype=float), np.nan)
    paths = artist.get_paths()
    if len(paths) != 1:
        raise UnknownArtist("a scatter of several markers")
    kind = marker_of(paths[0])
    sizes = np.sqrt(np.atleast_1d(artist.get_sizes()))
    faces, edges = artist.get_facecolor(), artist.get_edgecolor()
    hollow = len(faces) == 0
    colors = [css(color) for color in (edges if hollow else faces)]
    outline = css(edges[0]) if len(edges) == 1 else "rgba(0,0,0,0)"
    width = float(np.atleast_1d(artist.get_linewidth())[0])
    marker = _marker(kind, 1.0, one_or_many(colors), outline, width, hollow)
    marker["size"] = one_or_many([round(float(size) * marker["size"], 2) for size in sizes])
    if hollow:
        marker["color"] = one_or_many(colors)
    if len(offsets) > 20 * plot.most:
        raise UnknownArtist("a scatter of very many points")
    x, y = plot.x.numbers(offsets[:, 0]), plot.y.numbers(offsets[:, 1])
    plot.trace(artist, type="scatter", mode="markers", x=x, y=y, marker=marker, opacity=1)


def segments(plot: Plot, artist: LineCollection) -> None:
    """A `LineCollection`: a trace for each color, with gaps between the segments."""
    if plot.in_data(artist.get_transform()) != (True, True):
        raise UnknownArtist("segments that are not in the data")
    artist.update_scalarmappable()
    parts = [np.asarray(part) for part in artist.get_segments()]
    colors = [css(color) for color in np.atleast_2d(artist.get_color())]
    if not parts or not colors:
        return
    by_color: dict[str, list[np.ndarray]] = {}
    for number, part in enumerate(parts):
        by_color.setdefault(colors[number % len(colors)], []).append(part)
    if len(by_color) > MOST_COLORS or sum(len(part) for part in parts) > 20 * plot.most:
        raise UnknownArtist("very many segments")
    width = round(PIXELS * float(np.atleast_1d(artist.get_linewidth())[0]), 2)
    styles = cast("list[tuple[float, list[float] | None]]", artist.get_linestyle())
    if any(dashes is not None for _, dashes in styles):
        raise UnknownArtist("dashed segments")
    for color, found in by_color.items():
        x, y = ([value for part in found for value in [*part[:, k], np.nan]][:-1] for k in (0, 1))
        entry = {"mode": "lines", "line": {"color": color, "width": width}, "hoverinfo": "skip"}
        plot.trace(artist, type="scatter", x=plot.x.numbers(x), y=plot.y.numbers(y), opacity=1, **entry)


def one_or_many(values: list[T]) -> T | list[T]:
    """One value if all are the same."""
    return values[0] if values and all(value == values[0] for value in values) else values
