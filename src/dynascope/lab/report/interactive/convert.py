"""Conversion of a whole figure: each pair of axes in its place, with its artists, color bars and legends."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from dynascope.lab.report.interactive import areas, labels, lines
from dynascope.lab.report.interactive.colors import color_range, color_scale
from dynascope.lab.report.interactive.plots import Entry, Plot
from dynascope.lab.report.interactive.scales import PIXELS, Scale
from dynascope.lab.report.interactive.texts import as_html
from dynascope.lab.report.interactive.unknown import UnknownArtist
from dynascope.lab.report.layout import Panel, find_panels

PIXELS_PER_INCH = 72 * PIXELS
MOST_POINTS = 2800
"""The approximate limit on the points of all curves of a figure."""
FEWEST = 60
"""The number of points that each curve may have in any case."""


def plotly_figure(figure: Figure) -> dict[str, Any]:
    """A matplotlib figure as Plotly's `data` and `layout`, ready for JSON.

    Lines, scatters, error bars, bands, bars, boxes, images and meshes keep their numbers (rounded to visible precision,
    long curves with fewer points), colors, dashes and labels; axes keep their place, scale and range. An
    `UnknownArtist` for a figure with anything else.
    """
    panels = find_panels(figure)
    curves = sum(len(axes.lines) + len(axes.collections) for panel in panels for axes in panel.plots)
    most = max(FEWEST, min(MOST_POINTS // max(curves, 1), MOST_POINTS // 8))
    layout: Entry = {
        "width": round(PIXELS_PER_INCH * figure.get_figwidth()),
        "height": round(PIXELS_PER_INCH * figure.get_figheight()),
        "margin": dict.fromkeys(("l", "r", "t", "b"), 0),
        "barmode": "overlay",
        "hovermode": "closest",
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
    }
    plots: list[Plot] = []
    for panel in panels:
        plots += _plots(panel, len(plots), most, layout)
    legends = [(legend, [plot]) for plot in plots for legend in _legends(plot.axes)]
    legends += [(legend, plots) for legend in figure.legends]
    for number, (legend, owners) in enumerate(legends):
        name = "legend" if number == 0 else f"legend{number + 1}"
        layout[name] = labels.legend(legend, figure, owners, name)
    layout["shapes"] = [shape for plot in plots for shape in plot.shapes]
    layout["images"] = [picture for plot in plots for picture in plot.pictures]
    layout["annotations"] = [text for plot in plots for text in plot.texts] + labels.figure_texts(figure)
    return {"data": [trace for plot in plots for trace in plot.traces], "layout": layout}


def _plots(panel: Panel, before: int, most: int, layout: Entry) -> list[Plot]:
    """The axes of a panel and those over them, with their part of the layout."""
    found: list[Plot] = []
    for axes in panel.plots:
        if axes.name != "rectilinear" or axes.child_axes:
            raise UnknownArtist("axes in or beside other axes, or with other coordinates")
        number = before + len(found) + 1
        ending = "" if number == 1 else str(number)
        plot = Plot(axes, Scale(axes.xaxis), Scale(axes.yaxis), f"x{ending}", f"y{ending}", most)
        x, y = plot.x.layout(), plot.y.layout()
        box = axes.get_position()
        x |= {"domain": _inside(box.x0, box.x1), "anchor": plot.yref, "side": axes.xaxis.get_label_position()}
        y |= {"domain": _inside(box.y0, box.y1), "anchor": plot.xref, "side": axes.yaxis.get_label_position()}
        if found:
            x |= {"overlaying": found[0].xref, "matches": found[0].xref, "visible": False}
            y |= {"overlaying": found[0].yref}
        if not axes.axison:
            x, y = x | {"visible": False}, y | {"visible": False}
        layout[f"xaxis{ending}"], layout[f"yaxis{ending}"] = x, y
        _artists(plot)
        labels.titles(plot)
        found.append(plot)
    for bar in panel.bars:
        _color_bar(found[0], bar)
    return found


def _artists(plot: Plot) -> None:
    """Convert all that axes show, from the back to the front."""
    from matplotlib import collections, container, image, lines as of_lines, patches, text

    axes: Any = plot.axes
    in_bars = {id(box) for group in axes.containers if isinstance(group, container.BarContainer) for box in group}
    frame = {id(part) for part in (axes.patch, axes.xaxis, axes.yaxis, *axes.spines.values())}
    frame |= {id(part) for part in (axes.title, axes._left_title, axes._right_title)}
    known = {
        of_lines.Line2D: lines.line,
        collections.LineCollection: lines.segments,
        collections.PathCollection: lines.points,
        collections.PolyCollection: areas.band,
        collections.QuadMesh: areas.mesh,
        image.AxesImage: areas.image,
        patches.Patch: areas.patch,
        text.Text: labels.text,
    }
    for group in axes.containers:
        if isinstance(group, container.BarContainer) and group.patches:
            areas.bars(plot, group)
    for artist in sorted(axes.get_children(), key=lambda part: part.get_zorder()):
        if id(artist) in frame | in_bars or not artist.get_visible() or isinstance(artist, Legend):
            continue
        convert = next((function for kind, function in known.items() if isinstance(artist, kind)), None)
        if convert is None:
            raise UnknownArtist(f"a {type(artist).__name__}")
        convert(plot, artist)


def _color_bar(plot: Plot, axes: Axes) -> None:
    """A color bar: of the map that it belongs to, or of a trace without points."""
    mappable: Any = axes._colorbar.mappable  # pyright: ignore[reportAttributeAccessIssue]
    box, (low, high) = axes.get_position(), color_range(mappable)
    if box.width > box.height:
        raise UnknownArtist("a color bar below or above its axes")
    ticks = [float(tick) for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]]
    words = axes.yaxis.get_major_formatter().format_ticks(ticks)
    bar = {
        "x": round(float(box.x0), 4),
        "xanchor": "left",
        "y": round(float(box.y0), 4),
        "yanchor": "bottom",
        "len": round(float(box.height), 4),
        "lenmode": "fraction",
        "thickness": round(float(box.width) * axes.figure.bbox.width / axes.figure.dpi * PIXELS_PER_INCH, 1),
        "outlinewidth": 0,
        "ypad": 0,
        "xpad": 0,
        "tickvals": ticks,
        "ticktext": [as_html(word) for word in words],
        "title": {"text": as_html(axes.get_ylabel()), "side": "right"},
    }
    sample: Entry = {"color": [low], "cmin": low, "cmax": high, "colorscale": color_scale(mappable)}
    marker = sample | {"showscale": True, "colorbar": bar}
    empty = {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "showlegend": False, "name": ""}
    plot.traces.append({**empty, "xaxis": plot.xref, "yaxis": plot.yref, "marker": marker})


def _legends(axes: Axes) -> list[Any]:
    return [part for part in axes.get_children() if isinstance(part, Legend) and part.get_visible()]


def _inside(low: Any, high: Any) -> list[float]:
    return [round(min(max(float(edge), 0.0), 1.0), 5) for edge in (low, high)]
