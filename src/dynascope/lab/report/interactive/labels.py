"""Texts, titles and legends of a figure for Plotly."""

from __future__ import annotations

from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Annotation, Text

from dynascope.lab.report.interactive.colors import css
from dynascope.lab.report.interactive.lines import style
from dynascope.lab.report.interactive.plots import Entry, Plot
from dynascope.lab.report.interactive.scales import PIXELS
from dynascope.lab.report.interactive.texts import as_html
from dynascope.lab.report.interactive.unknown import UnknownArtist

ABOVE = {"bottom": "bottom", "baseline": "bottom", "center_baseline": "middle", "center": "middle", "top": "top"}


def text(plot: Plot, artist: Text) -> None:
    """A text or an annotation in the data, or in the box of the axes."""
    if not artist.get_text().strip():
        return
    if isinstance(artist, Annotation):
        plot.texts.append(_annotation(plot, artist))
        return
    across, up = plot.in_data(artist.get_transform())
    plot.texts.append(_words(artist) | _at(plot, artist.get_position(), across, up))


def _at(plot: Plot, place: tuple[float, float], across: bool, up: bool) -> Entry:
    x, y = place
    at = {"x": plot.x.place(x) if across else float(x), "y": plot.y.place(y) if up else float(y)}
    return at | plot.refs(across, up)


def _words(artist: Text) -> Entry:
    words = as_html(artist.get_text())
    if artist.get_fontweight() in ("bold", 700):
        words = f"<b>{words}</b>"
    return {
        "text": words,
        "showarrow": False,
        "xanchor": artist.get_horizontalalignment(),
        "yanchor": ABOVE[artist.get_verticalalignment()],
        "align": artist.get_horizontalalignment(),
        "textangle": -artist.get_rotation(),
        "font": {"size": round(PIXELS * float(artist.get_fontsize()), 1), "color": css(artist.get_color())},
    }


def _annotation(plot: Plot, artist: Annotation) -> Entry:
    """A text at an offset from a point of the data."""
    if artist.xycoords != "data" or artist.anncoords != "offset points" or artist.arrow_patch is not None:
        raise UnknownArtist(f"an annotation at {artist.anncoords!r} from {artist.xycoords!r}, or with an arrow")
    right, higher = (PIXELS * float(part) for part in artist.xyann)
    return _words(artist) | _at(plot, artist.xy, True, True) | {"xshift": right, "yshift": higher}


def titles(plot: Plot) -> None:
    """The titles of axes, above their box."""
    for side, x in (("left", 0.0), ("center", 0.5), ("right", 1.0)):
        words = plot.axes.get_title(loc=side)  # pyright: ignore[reportArgumentType]
        if words:
            font = {"size": round(PIXELS * float(plot.axes.title.get_fontsize()), 1)}
            place = {"x": x, "y": 1.0, "xanchor": side, "yanchor": "bottom", "yshift": 3, **plot.refs(False, False)}
            plot.texts.append({"text": f"<b>{as_html(words)}</b>", "showarrow": False, "font": font, **place})


def figure_texts(figure: Figure) -> list[Entry]:
    """The title of the whole figure, the labels that all of its axes share, and its other texts."""
    return [
        _words(artist) | dict(zip("xy", artist.get_position(), strict=True)) | {"xref": "paper", "yref": "paper"}
        for artist in figure.texts
        if artist.get_text().strip()
    ]


def legend(found: Legend, figure: Figure, plots: list[Plot], name: str) -> Entry:
    """A legend at its place in the figure. Its entries are the traces with these labels; an entry without one gets a
    trace without points."""
    width, height = figure.bbox.width, figure.bbox.height
    box = found.get_window_extent()
    known = {trace["name"]: trace for plot in plots for trace in reversed(plot.traces) if trace["name"]}
    for rank, (handle, words) in enumerate(zip(found.legend_handles, found.get_texts(), strict=True)):
        label = words.get_text()
        trace = known.get(label)
        if trace is None or trace.get("legend", name) != name:
            on = {"xaxis": plots[0].xref, "yaxis": plots[0].yref}
            trace = {"type": "scatter", "x": [None], "y": [None], **on, **_sample(handle)}
            plots[0].traces.append(trace)
        trace |= {"name": as_html(label), "showlegend": True, "legend": name, "legendrank": 1000 + rank}
    size = float(found.get_texts()[0].get_fontsize()) if found.get_texts() else 8.5
    return {
        "x": round(box.x0 / width, 4),
        "y": round(box.y1 / height, 4),
        "xanchor": "left",
        "yanchor": "top",
        "xref": "paper",
        "yref": "paper",
        "font": {"size": round(PIXELS * size, 1)},
        "bgcolor": "rgba(255,255,255,0.6)",
        "title": {"text": as_html(found.get_title().get_text())},
        "tracegroupgap": 0,
    }


def _sample(handle: Artist | None) -> Entry:
    """The look of the sample of a legend's entry."""
    if isinstance(handle, Line2D):
        return style(handle)
    if isinstance(handle, Patch):
        return {"mode": "markers", "marker": {"symbol": "square", "size": 10, "color": css(handle.get_facecolor())}}
    if isinstance(handle, Collection) and len(handle.get_facecolor()):
        return {"mode": "markers", "marker": {"size": 8, "color": css(handle.get_facecolor()[0])}}
    if isinstance(handle, Collection) and len(handle.get_edgecolor()):
        return {"mode": "lines", "line": {"color": css(handle.get_edgecolor()[0])}}
    raise UnknownArtist(f"a legend's entry of the type {type(handle).__name__}")
