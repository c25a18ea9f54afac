"""Artists with an area: bands, bars, boxes, circles, and maps of colors."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.container import BarContainer
from matplotlib.image import AxesImage
from matplotlib.patches import Circle, Patch, Rectangle
from PIL import Image

from dynascope.lab.report.interactive.colors import color_range, color_scale, css
from dynascope.lab.report.interactive.lines import one_or_many
from dynascope.lab.report.interactive.plots import Entry, Plot
from dynascope.lab.report.interactive.scales import PIXELS
from dynascope.lab.report.interactive.unknown import UnknownArtist

MOST_CELLS = 20_000


def band(plot: Plot, artist: PolyCollection) -> None:
    """A filled band (`PolyCollection`, as `fill_between` makes it)."""
    if plot.in_data(artist.get_transform()) != (True, True):
        raise UnknownArtist("a band that is not in the data")
    artist.update_scalarmappable()
    faces, edges = np.asarray(artist.get_facecolor()), np.asarray(artist.get_edgecolor())
    paths = [path for path in artist.get_paths() if np.size(path.vertices)]
    if len(paths) > 200:
        raise UnknownArtist("very many polygons")
    widths = np.atleast_1d(artist.get_linewidth())
    for number, path in enumerate(paths):
        face = css(faces[number % len(faces)]) if len(faces) else "rgba(0,0,0,0)"
        edge = css(edges[number % len(edges)]) if len(edges) else face
        line = {"color": edge, "width": round(PIXELS * float(widths[0]), 2)}
        curve = plot.curve(*np.asarray(path.vertices).T)
        look = {"mode": "lines", "fill": "toself", "fillcolor": face, "line": line, "opacity": 1}
        plot.trace(artist, type="scatter", hoverinfo="skip", **look, **curve)


def bars(plot: Plot, container: BarContainer) -> None:
    """The bars of one call (`BarContainer`)."""
    flat = container.orientation == "horizontal"
    boxes = [(box.get_x(), box.get_y(), box.get_width(), box.get_height()) for box in container.patches]
    x, y, width, height = (np.array(part, dtype=float) for part in zip(*boxes, strict=True))
    if "mapped" in (plot.x.kind, plot.y.kind):
        raise UnknownArtist("bars on such a scale")
    at, across, base, length = (y, height, x, width) if flat else (x, width, y, height)
    along, value = (plot.y, plot.x) if flat else (plot.x, plot.y)
    colors = [css(box.get_facecolor()) for box in container.patches]
    edges = [css(box.get_edgecolor()) for box in container.patches]
    entry: Entry = {
        "type": "bar",
        "orientation": "h" if flat else "v",
        "y" if flat else "x": along.numbers(at + across / 2),
        "x" if flat else "y": value.numbers(length),
        "width": one_or_many([round(float(part), 6) for part in across]),
        "marker": {
            "color": one_or_many(colors),
            "line": {"color": one_or_many(edges), "width": container.patches[0].get_linewidth()},
        },
        "opacity": 1,
    }
    if np.any(base != 0):
        entry["base"] = value.numbers(base)
    plot.trace(container, **entry)


def patch(plot: Plot, artist: Patch) -> None:
    """A rectangle (also `axvspan`) or a circle."""
    across, up = plot.in_data(artist.get_data_transform())
    style = {
        "fillcolor": css(artist.get_facecolor()),
        "line": {"color": css(artist.get_edgecolor()), "width": round(PIXELS * artist.get_linewidth(), 2)},
    }
    if isinstance(artist, Circle) and across and up:
        center: Any = artist.get_center()
        (x, y), radius = center, artist.get_radius()
        kind, edges = "circle", (x - radius, x + radius, y - radius, y + radius)
    elif isinstance(artist, Rectangle) and not artist.get_angle():
        x, y = artist.get_xy()
        kind, edges = "rect", (x, x + artist.get_width(), y, y + artist.get_height())
    else:
        raise UnknownArtist(f"a {type(artist).__name__}")
    numbers = [
        scale.numbers([edge])[0] if scale else float(edge)
        for edge, scale in zip(edges, [plot.x if across else None] * 2 + [plot.y if up else None] * 2, strict=True)
    ]
    shape = dict(zip(("x0", "x1", "y0", "y1"), numbers, strict=True))
    plot.shapes.append({"type": kind, "layer": "below", **shape, **style, **plot.refs(across, up)})


def image(plot: Plot, artist: AxesImage) -> None:
    """An image: a map of numbers, or a picture in colors."""
    values = np.ma.asarray(artist.get_array())
    left, right, bottom, top = artist.get_extent()
    if plot.in_data(artist.get_transform()) != (True, True) or (plot.x.kind, plot.y.kind) != ("linear", "linear"):
        raise UnknownArtist("an image on such a scale")
    if values.ndim == 3:
        return _picture(plot, artist, (left, right, bottom, top))
    rows, columns = values.shape
    if artist.origin == "upper":
        bottom, top = top, bottom
    x = left + (np.arange(columns) + 0.5) * (right - left) / columns
    y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
    return _map(plot, artist, values, x, y)


def mesh(plot: Plot, artist: QuadMesh) -> None:
    """A `pcolormesh` on a grid of rectangles."""
    corners = np.asarray(artist.get_coordinates(), dtype=float)
    x, y = corners[0, :, 0], corners[:, 0, 1]
    if not (np.allclose(corners[:, :, 0], x[None, :]) and np.allclose(corners[:, :, 1], y[:, None])):
        raise UnknownArtist("a mesh that is not of rectangles")
    shape = (len(y) - 1, len(x) - 1)
    values = np.ma.asarray(artist.get_array())
    if values.size != shape[0] * shape[1]:
        raise UnknownArtist("a shaded mesh")
    _map(plot, artist, values.reshape(shape), x, y)


def _map(plot: Plot, artist: AxesImage | QuadMesh, values: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    if values.size > MOST_CELLS:
        raise UnknownArtist("a map of very many cells")
    numbers = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
    low, high = color_range(artist)
    entry: Entry = {
        "type": "heatmap",
        "x": plot.x.numbers(x),
        "y": plot.y.numbers(y),
        "z": [short(row) for row in numbers],
        "zmin": low,
        "zmax": high,
        "colorscale": color_scale(artist),
        "showscale": False,
    }
    plot.trace(artist, **entry)


def _picture(plot: Plot, artist: AxesImage, box: tuple[float, float, float, float]) -> None:
    left, right, bottom, top = box
    low, high = min(bottom, top), max(bottom, top)
    at_top = low if plot.axes.yaxis_inverted() else high
    first = top if artist.origin == "upper" else bottom
    colors = artist.to_rgba(np.ma.asarray(artist.get_array()), bytes=True)
    buffer = io.BytesIO()
    Image.fromarray(colors if first == at_top else colors[::-1]).save(buffer, format="PNG", optimize=True)
    plot.pictures.append(
        {
            "source": "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode(),
            "x": min(left, right),
            "y": at_top,
            "sizex": abs(right - left),
            "sizey": high - low,
            "sizing": "stretch",
            "layer": "below",
            **plot.refs(True, True),
        }
    )


def short(row: np.ndarray) -> list[float | None]:
    """Numbers with four digits; None for infinities and NaN."""
    values = [float(f"{value:.4g}") if np.isfinite(value) else None for value in np.asarray(row).tolist()]
    return [int(value) if value is not None and value.is_integer() and abs(value) < 1e6 else value for value in values]
