"""The traces of two runs in one figure: the first solid, the second dashed.

A panel for each variable that both have and that was recorded along `step`, `time` or another long axis. Over the seeds
the median is drawn, with a band from the lower to the upper quartile if each run has one curve. A further dimension
gives the colors, another one more panels, each with a few labels that both runs have. Variables that are the same in
both runs are left out, unless all are.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, PALETTE, panels, settings_colors
from dynascope.figures.trace import recorded_variables, without_entries
from dynascope.lab import formatting
from dynascope.lab.compare import Comparison
from dynascope.lab.drawing import drawing, spread
from dynascope.lab.files import write_atomically
from dynascope.lab.stored_run import StoredRun

MOST_PANELS = 12
MOST_COLORS, MOST_FACETS = 5, 3
LONG = 8
"""The shortest axis, other than steps and times, along which a variable is drawn as a curve."""
AXES = ("step", "time")
SAMPLES = ("seed", "member", "start", "trial")
"""Dimensions of repetitions, of which the median is drawn."""
_STYLES = ({"linestyle": "-", "linewidth": 1.5}, {"linestyle": (0, (3, 1.6)), "linewidth": 1.5})

Pair = tuple[xr.DataArray, xr.DataArray]


@dataclass(frozen=True)
class Panel:
    """A variable of both runs along one axis, in the colors of a dimension or in one color."""

    title: str
    pair: Pair
    axis: str
    color: str | None
    labels: Sequence[object]


def draw(compared: Comparison, path: Path) -> tuple[bool, list[str]]:
    """Write the figure of two runs to a file: of the measured variables, or of the reduced ones if no trace is common.

    Returns whether there is a figure, and the variables that differ and are not in it.
    """
    a, b = compared.a, compared.b
    first, second = ({name: pair[k] for name, pair in compared.fields.items()} for k in (0, 1))
    names = (_name(a, first), _name(b, second))
    with drawing():
        figure, missing = overlay(_measured(a), _measured(b), names)
        if figure is None and not (a.observed or b.observed):
            figure, missing = overlay(a.reduced(), b.reduced(), names)
        if figure is None:
            return False, missing
        buffer = io.BytesIO()
        figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=150, bbox_inches="tight")
    write_atomically(path, buffer.getvalue())
    return True, missing


def _name(run: StoredRun, settings: Mapping[str, object]) -> str:
    """The legend of a run: its id and digest, and the settings in which it differs from the other."""
    said = [f"{name} {formatting.text(value)}" for name, value in settings.items() if name != "experiment"]
    said = [text if len(text) <= 40 else f"{text[:39]}…" for text in said]
    kind = [] if run.observed else [run.preset or "full"]
    text = ", ".join([*kind, *said[:4], *(["…"] if said[4:] else [])])
    return f"{run.id} {run.digest[:8]}" + (f": {text}" if text else "")


def _measured(run: StoredRun) -> xr.Dataset | xr.DataTree:
    """The measured variables; for an observation, without the further entries of probes."""
    found = run.measured()
    return (
        found[without_entries(recorded_variables(found))] if run.observed and isinstance(found, xr.Dataset) else found
    )


def traces(data: xr.Dataset | xr.DataTree) -> dict[str, xr.DataArray]:
    """The variables by name; those of a tree with the path of their node."""
    if isinstance(data, xr.Dataset):
        return {str(name): array for name, array in data.data_vars.items()}
    return {
        f"{node.path}/{name}".lstrip("/"): array
        for node in data.subtree
        for name, array in node.to_dataset().data_vars.items()
    }


def overlay(
    a: xr.Dataset | xr.DataTree, b: xr.Dataset | xr.DataTree, names: tuple[str, str]
) -> tuple[Figure | None, list[str]]:
    """The figure, or None if no variable can be overlaid; and the variables that differ and are not in it."""
    first, second = traces(a), traces(b)
    same = {name for name in first if name in second and _same(first[name], second[name])}
    differ = [name for name in dict.fromkeys([*first, *second]) if name not in same]
    drawn: list[Panel] = []
    missing = []
    for name in differ or first:
        found = list(_panels(name, (first[name], second[name]))) if name in first and name in second else []
        if found and len(drawn) + len(found) <= MOST_PANELS:
            drawn += found
        else:
            missing.append(name)
    return (_figure(drawn, names) if drawn else None), missing


def _panels(name: str, pair: Pair) -> Iterator[Panel]:
    """The panels of a variable; none if it is not a curve, or if the runs share no label of a dimension."""
    axis = _axis(pair)
    if axis is None or pair[0].dtype.kind not in "fiu" or pair[1].dtype.kind not in "fiu":
        return
    rest = [str(dim) for dim in pair[0].dims if dim != axis and dim not in SAMPLES]
    if set(rest) != {str(dim) for dim in pair[1].dims} - {axis, *SAMPLES}:
        return
    shared = {dim: _common_labels(pair, dim) for dim in rest}
    if len(rest) > 2 or not all(shared.values()):
        return
    color = max(rest, key=lambda dim: len(shared[dim]), default=None)
    facets = [dim for dim in rest if dim != color]
    for labels in product(*(_few(shared[dim], MOST_FACETS) for dim in facets)):
        place = dict(zip(facets, labels, strict=True))
        chosen = (_at(pair[0], place), _at(pair[1], place))
        said = [f"{formatting.label(dim)} {formatting.text(label)}" for dim, label in place.items()]
        colors = _few(shared[color], MOST_COLORS) if color else []
        yield Panel(", ".join([formatting.label(name), *said]), chosen, axis, color, colors)


def _axis(pair: Pair) -> str | None:
    """The dimension to draw along."""
    a, b = pair
    both = [str(dim) for dim in a.dims if dim in b.dims and dim not in SAMPLES]
    for dim in (*AXES, *sorted(both, key=lambda dim: -min(a.sizes[dim], b.sizes[dim]))):
        numbers = dim in both and all(dim in each.coords and each[dim].dtype.kind in "fiu" for each in pair)
        if numbers and min(a.sizes[dim], b.sizes[dim]) >= (2 if dim in AXES else LONG):
            return dim
    return None


def _common_labels(pair: Pair, dim: str) -> list[object]:
    """The labels of a dimension that both runs have; positions if it has no labels and is short."""
    a, b = ([*each[dim].values.tolist()] if dim in each.coords else None for each in pair)
    if a is None or b is None:
        length = min(each.sizes[dim] for each in pair)
        return list(range(length)) if a is b and length < LONG else []
    return [label for label in a if label in b]


def _few(labels: Sequence[object], most: int) -> list[object]:
    return [labels[place] for place in spread(len(labels), most)]


def _at(array: xr.DataArray, labels: dict[str, object]) -> xr.DataArray:
    for dim, label in labels.items():
        place = array[dim].values.tolist().index(label) if dim in array.coords else label
        array = array.isel({dim: place})
    return array


def _same(a: xr.DataArray, b: xr.DataArray) -> bool:
    return a.shape == b.shape and bool(np.array_equal(a.values, b.values, equal_nan=a.dtype.kind == "f"))


def _figure(drawn: Sequence[Panel], names: tuple[str, str]) -> Figure:
    columns = min(3, len(drawn)) if len(drawn) != 4 else 2
    rows = -(-len(drawn) // columns)
    figure, grid = panels(columns, rows, size=(4.2, 2.9), squeeze=False)
    for panel, axes in zip(drawn, grid.flat, strict=False):
        _draw(panel, axes)
    for axes in grid.flat[len(drawn) :]:
        axes.set_visible(False)
    _legends(drawn, names, figure, list(grid.flat[: len(drawn)]))
    return figure


def _legends(drawn: Sequence[Panel], names: tuple[str, str], figure: Figure, grid: Sequence[Axes]) -> None:
    """Add a legend of the two runs above all panels, and one of the colors beside it or, if they differ, in each."""
    plain = all(panel.color is None for panel in drawn)
    colors = PALETTE[1::-1] if plain else (INK, INK)
    lines = [grid[0].plot([], [], color=color, **style)[0] for color, style in zip(colors, _STYLES, strict=True)]
    samples = dict.fromkeys(str(dim) for panel in drawn for dim in panel.pair[0].dims if dim in SAMPLES)
    over = f"median over {' and '.join(samples)}" + (", and the middle half of them" if plain else "")
    title = f"{over[:1].upper()}{over[1:]}" if samples else None
    figure.legend(
        lines, names, loc="outside upper left", handlelength=3.2, fontsize=9.5, title=title, alignment="left"
    ).get_title().set_color("#6b7480")
    colored = [axes for panel, axes in zip(drawn, grid, strict=True) if panel.color]
    if len({(panel.color, tuple(panel.labels)) for panel in drawn if panel.color}) == 1:
        figure.legend(*colored[0].get_legend_handles_labels(), loc="outside right upper", handlelength=1.6)
    else:
        for axes in colored:
            axes.legend(fontsize=7.5, handlelength=1.2, frameon=True, framealpha=0.8, edgecolor="none")


def _draw(panel: Panel, axes: Axes) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(formatting.label(panel.axis))
    colors = settings_colors(len(panel.labels)) if panel.color else [None]
    values: list[np.ndarray] = []
    for run, (array, style) in enumerate(zip(panel.pair, _STYLES, strict=True)):
        for label, color in zip(panel.labels or [None], colors, strict=True):
            curves = _at(array, {panel.color: label}) if panel.color else array
            middle, low, high = _over_samples(curves, panel.axis)
            color = PALETTE[1 - run] if color is None else color
            said = f"{formatting.label(panel.color)} {formatting.text(label)}" if panel.color and run == 0 else None
            x = array[panel.axis].values
            axes.plot(x, middle, color=color, label=said, zorder=3 + run, **style)
            if panel.color is None and not np.array_equal(low, high, equal_nan=True):
                axes.fill_between(x, low, high, color=color, alpha=0.13, linewidth=0, zorder=1)
            values.append(middle)
    drawn = np.concatenate([each[np.isfinite(each)] for each in values])
    if drawn.size and drawn.min() > 0 and drawn.max() > 1e3 * drawn.min():
        axes.set_yscale("log")
    if not drawn.size:
        axes.text(0.5, 0.5, "not a number", color=FAINT, ha="center", transform=axes.transAxes)


def _over_samples(array: xr.DataArray, axis: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The median and the quartiles over the repetitions, along the axis."""
    samples = [dim for dim in array.dims if dim != axis]
    values = array.transpose(*samples, axis).values.astype(float).reshape(-1, array.sizes[axis])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a member that diverged is NaN from there on
        low, middle, high = np.nanquantile(values, (0.25, 0.5, 0.75), axis=0)
    return middle, low, high
