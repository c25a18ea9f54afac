"""The figures of a sweep: the share of seeds in which each claim holds, and the mean of each reduced number.

Lines with intervals over one key of the grid, a map over two keys, and for more keys a map for each value of the
others. Small maps have their values printed in the cells.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from dynascope.figures import FAINT, INK, PALETTE, panels, settings_colors
from dynascope.lab import formatting
from dynascope.lab.drawing import drawing, spread
from dynascope.lab.sweeps.summary import grid_keys, numbers

MOST_PRINTED = (13, 20)
"""The most cells, across and up, of a map with printed values."""
MOST_PANELS = 12
MOST_TICKS = 12
POINTS_PER_INCH = 72


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as SVG; its size is in points."""

    name: str
    title: str
    svg: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Quantity:
    """The quantity of a figure: a value over the grid's keys and `at`, with its interval."""

    label: str
    value: xr.DataArray
    low: xr.DataArray
    high: xr.DataArray
    is_share: bool


def draw(data: xr.Dataset) -> Iterator[RenderedFigure]:
    """The figures of a sweep's dataset: the claims, the main one first, then the reduced numbers."""
    keys = grid_keys(data)
    for claim in data.claim.values.tolist():
        here = data.sel(claim=claim)
        plain = here[["share", "low", "high"]].drop_vars(["claim", "statement"]).expand_dims(at=[""])
        parts = (plain.share, plain.low, plain.high)
        runs = here.holds.values[np.isfinite(here.holds.values)]
        title = f"{claim}: holds in {int(runs.sum())} of {runs.size} runs"
        yield _render(f"claim-{claim}", title, Quantity("share of seeds", *parts, is_share=True), keys)
    for number in numbers(data):
        finite = np.isfinite(number.mean.values).any(-1)
        if not finite.any():
            continue
        label = formatting.label(number.name)
        title = f"{label}, mean over seeds"
        if not finite.all():
            title += f"; not finite at {(~finite).sum()} of {formatting.count(finite.size, 'point')}"
        shown = Quantity(label, number.mean, number.low, number.high, is_share=False)
        yield _render(f"number-{number.name}", title, shown, keys)


def _render(name: str, title: str, shown: Quantity, keys: Sequence[str]) -> RenderedFigure:
    with drawing():
        figure = _lines(shown, keys[0]) if len(keys) == 1 else _maps(shown, keys)
        figure.suptitle("\n".join(textwrap.wrap(title, 90)), fontsize=11, x=0.01, ha="left", weight="bold")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        width, height = (round(POINTS_PER_INCH * inches) for inches in figure.get_size_inches())
    return RenderedFigure(name, title, buffer.getvalue(), width, height)


def _lines(shown: Quantity, key: str) -> Figure:
    """The value over one key, a line for each of its own settings."""
    series = shown.value["at"].values.tolist()
    figure, axes = panels(1, size=(7 if len(series) == 1 else 8.4, 3.8))
    found = shown.value[key].values
    numeric = found.dtype.kind in "iuf"
    x = found if numeric else np.arange(found.size)
    colors = [PALETTE[1]] if len(series) == 1 else settings_colors(len(series))
    for color, at in zip(colors, series, strict=True):
        value, low, high = (part.sel(at=at).values for part in (shown.value, shown.low, shown.high))
        if numeric:
            axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
            axes.plot(x, value, marker="o", markersize=4.5 if found.size <= 40 else 0, color=color, label=at)
        else:  # no line between things that have no order
            bars = np.nan_to_num(np.stack([value - low, high - value])).clip(min=0)
            axes.errorbar(x, value, bars, fmt="o", capsize=4, linewidth=1.4, color=color, label=at)
        for gap in x[~np.isfinite(value)][:200]:
            axes.axvline(gap, color=FAINT, linestyle=":", linewidth=0.8, zorder=0)
    if not numeric:
        places = spread(found.size, MOST_TICKS)
        axes.set_xticks(places, [_text(found[k]) for k in places], **_rotation(found, 60))
        axes.set_xlim(-0.5, found.size - 0.5)
    elif found.size > 2 and found.min() > 0 and found.max() / found.min() >= 30:
        axes.set_xscale("log")
    elif found.dtype.kind in "iu":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if shown.is_share:
        axes.set_ylim(-0.04, 1.04)
    axes.set(xlabel=formatting.label(key), ylabel=shown.label)
    if len(series) > 1:
        figure.legend(loc="outside right center")
    return figure


def _maps(shown: Quantity, keys: Sequence[str]) -> Figure:
    """Maps over the two longest keys, a panel for each value of the others and each of its own settings."""
    across, up = sorted(sorted(keys, key=lambda key: -shown.value.sizes[key])[:2], key=keys.index)
    others = [key for key in keys if key not in (across, up)]
    series = [{"at": at} for at in shown.value["at"].values.tolist()]
    places = [
        {**dict(zip(others, combination, strict=True)), **at}
        for combination in product(*(shown.value[key].values.tolist() for key in others))
        for at in series
    ]
    chosen = [places[k] for k in spread(len(places), MOST_PANELS)]
    columns = min(len(chosen), 3 if shown.value.sizes[across] > 6 else 4)
    rows = -(-len(chosen) // columns)
    width, height = _size(shown.value.sizes[across], shown.value.sizes[up], columns)
    figure, axes = panels(columns, rows, size=(width, height), squeeze=False)
    low, high = _range(shown)
    image: AxesImage | None = None
    for place, panel in zip(chosen, axes.flat, strict=False):
        image = _map(panel, shown, place, (across, up), (low, high), width * columns)
        texts = [f"{formatting.label(key)} = {_text(place[key])}" for key in others] + (
            [place["at"]] if place["at"] else []
        )
        panel.set_title("\n".join(textwrap.wrap(", ".join(texts), 34)), fontsize=9.5)
    for panel in axes.flat[len(chosen) :]:
        panel.set_visible(False)
    assert image is not None
    figure.colorbar(image, ax=axes, label=shown.label, shrink=0.9, aspect=30)
    if len(chosen) < len(places):
        figure.supxlabel(f"{len(chosen)} of {len(places)} panels are shown; all of them are in sweep.nc", fontsize=9)
    return figure


def _map(
    axes: Axes,
    shown: Quantity,
    place: dict[str, object],
    keys: tuple[str, str],
    limits: tuple[float, float],
    width: float,
) -> AxesImage:
    """One map; `width` is that of the whole figure, in inches."""
    across, up = keys
    value, low, high = (part.sel(place).transpose(up, across).values for part in (shown.value, shown.low, shown.high))
    verdicts = LinearSegmentedColormap.from_list("verdicts", [PALETTE[0], "#f1e7d8", PALETTE[1]])
    image = axes.imshow(
        np.ma.masked_invalid(value),
        origin="lower",
        aspect="auto",
        vmin=limits[0],
        vmax=limits[1],
        cmap=verdicts if shown.is_share else "viridis",
        interpolation="nearest",
    )
    axes.grid(False)
    axes.patch.set(facecolor="#f4f5f7", edgecolor="#b3bbc6", hatch="////")  # shows through if a run is missing
    for key, set_ticks in ((across, axes.set_xticks), (up, axes.set_yticks)):
        found = shown.value[key].values
        ticks = spread(found.size, MOST_TICKS)
        turned = _rotation(found, 44) if key == across else {}
        set_ticks(ticks, [_text(found[k]) for k in ticks], fontsize=8.5, **turned)
    axes.set(xlabel=formatting.label(across), ylabel=formatting.label(up))
    if value.shape[1] <= MOST_PRINTED[0] and value.shape[0] <= MOST_PRINTED[1]:
        size = min(7.5, 62 * axes.get_position().width * width / value.shape[1] / 7)
        for (row, column), number in np.ndenumerate(value):
            text = _cell(number, float(low[row, column]), float(high[row, column]), shown.is_share)
            dark = sum(image.to_rgba(number)[k] * weight for k, weight in enumerate((0.3, 0.59, 0.11))) < 0.55
            color = "white" if dark and np.isfinite(number) else INK
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
    return image


def _cell(value: float, low: float, high: float, is_share: bool) -> str:
    """The value and, if it is a mean of several, half of its interval below it."""
    if not np.isfinite(value):
        return "gap"
    if is_share:
        return f"{100 * value:.0f} %"
    half = (high - low) / 2
    return f"{value:.3g}" + (f"\n±{half:.1g}" if np.isfinite(half) else "")


def _range(shown: Quantity) -> tuple[float, float]:
    """The numbers at the two ends of the colors."""
    found = shown.value.values[np.isfinite(shown.value.values)]
    if shown.is_share or not found.size:
        return 0.0, 1.0
    low, high = float(found.min()), float(found.max())
    return (low, high) if high > low else (low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0))


def _size(across: int, up: int, columns: int) -> tuple[float, float]:
    """Inches of a panel: larger for more cells, smaller for many panels."""
    most = {1: 8.4, 2: 5.6, 3: 4.2}.get(columns, 3.4)
    return min(max(2.6, 0.62 * across + 1.4), most), min(max(2.6, 0.42 * up + 1.2), 6.5)


def _rotation(found: np.ndarray, room: int) -> dict[str, Any]:
    """Labels that are too long to stand side by side are turned."""
    long = sum(len(_text(found[k])) + 2 for k in spread(found.size, MOST_TICKS)) > room
    return {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if long else {}


def _text(value: object) -> str:
    text = value if isinstance(value, str) else f"{value:.4g}"
    return text if len(text) <= 18 else text[:17] + "…"
