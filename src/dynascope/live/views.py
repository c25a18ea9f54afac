"""Layouts of traces for drawing, the same for a trace in progress and a stored one.

A variable is drawn against its clock, the dimension `step` or `time` (or a probe's own, `<probe>_step`). The dimensions
before the clock are members, those after it are its own. It is a curve, a path in the plane, a profile or a picture at
the clock. Long traces are thinned to the resolution of a screen.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from dynascope.lab import formatting
from dynascope.lab.drawing import spread
from dynascope.lab.overlay import AXES, SAMPLES, traces
from dynascope.live.names import names_of

if TYPE_CHECKING:  # the server, which reads stored traces, is up seconds earlier without JAX
    from dynascope.dynamics.schema import Schema, Variable

Kind = Literal["curve", "path", "profile", "picture"]
MOST_ROWS, MOST_MEMBERS, MOST_VALUES = 600, 36, 200_000
"""The most points along the clock, members, and numbers altogether that are drawn of a variable."""
MOST_CURVES = 8
"""The most numbers at one time that are drawn as curves; more are a profile at the clock."""
LARGEST_PICTURE = 128 * 128
COLORS = ("rgb", "channel", "color")
"""The name of a last dimension of three numbers that are red, green and blue."""


@dataclass(frozen=True)
class Layout:
    """A variable along its clock: members, own dimensions, and the part that is drawn."""

    name: str
    axis: str
    times: np.ndarray
    labels: Mapping[str, Sequence[Any]]
    """For each dimension of the members its labels."""
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: Mapping[str, Sequence[Any]]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For a dimension of the members whose labels are mere numbers, names that hold the values behind them."""

    @property
    def kind(self) -> Kind:
        if self.shape == (2,):
            return "path"
        if prod(self.shape) <= MOST_CURVES:
            return "curve"
        return "profile" if len(self.shape) == 1 else "picture"

    @property
    def drawn_shape(self) -> tuple[int, ...]:
        """The own dimensions as they are drawn: a picture is over the last two; an RGB image over the two before its
        colors, with further dimensions tiled."""
        if self.kind != "picture":
            return self.shape
        if not self.colored:
            return self.shape[-2:]
        down, across = self._tiles
        return (down * self.shape[-3], across * self.shape[-2], 3)

    @property
    def colored(self) -> bool:
        """Whether it is an RGB image."""
        return self.kind == "picture" and len(self.shape) > 2 and self.shape[-1] == 3 and self.dims[-1] in COLORS

    @property
    def _tiles(self) -> tuple[int, int]:
        """The number of RGB images below and beside one another."""
        *down, across = self.shape[:-3] or (1,)
        return prod(down), across

    @property
    def members(self) -> np.ndarray:
        """The members that are drawn."""
        each = max(1, MOST_VALUES // (prod(self.drawn_shape) * min(len(self.times), MOST_ROWS)))
        most = 1 if self.kind == "picture" else min(MOST_MEMBERS, max(6, each))
        return spread(prod(len(labels) for labels in self.labels.values()), most)

    @property
    def rows(self) -> np.ndarray:
        """The rows that are drawn."""
        most = max(20, MOST_VALUES // (len(self.members) * prod(self.drawn_shape)))
        return spread(len(self.times), min(MOST_ROWS, most))

    def header(self) -> dict[str, Any]:
        """Everything but the values, in the form that is sent to the page."""
        places = np.unravel_index(self.members, tuple(map(len, self.labels.values()))) if self.labels else ()
        named = dict(zip(self.labels, places, strict=True))
        color = next((dim for dim in self.labels if dim not in SAMPLES), next(iter(self.labels), None))
        texts = [
            ", ".join(self._named(dim, int(place[k])) for dim, place in named.items()) for k in range(len(self.members))
        ]
        return {
            "name": self.name,
            "kind": self.kind,
            "axis": self.axis,
            "times": np.asarray(self.times, float)[self.rows].tolist(),
            "members": texts,
            "color": color,
            "groups": named[color].tolist() if color else [0] * len(self.members),
            "group_labels": [self._named(color, k) for k in range(len(self.labels[color]))] if color else [],
            "has_values": color in self.names,
            "dims": list(self.dims[-len(self.drawn_shape) :]) if self.drawn_shape else [],
            "shape": list(self.drawn_shape),
            "labels": [list(self.coords.get(dim, range(size))) for dim, size in self._drawn_dims()],
        }

    def _named(self, dim: str, place: int) -> str:
        """A member's label along a dimension, with its name or its values: "signal 0", "μ = (0.5, 2)"."""
        if dim in self.names:
            return self.names[dim][place]
        return f"{formatting.label(dim)} {formatting.text(self.labels[dim][place])}"

    def _drawn_dims(self) -> Iterable[tuple[str, int]]:
        count = len(self.drawn_shape)
        return zip(self.dims[-count:] if count else (), self.drawn_shape, strict=True)

    def narrow(self, values: np.ndarray) -> np.ndarray:
        """The values (member, row, own dimensions) as they are drawn."""
        if self.colored:
            tiled = values.reshape(*values.shape[:2], *self._tiles, *self.shape[-3:]).swapaxes(3, 4)
            return tiled.reshape(*values.shape[:2], *self.drawn_shape)
        extra = len(self.shape) - len(self.drawn_shape)
        return values[(slice(None), slice(None), *(0,) * extra)]


def encode(values: np.ndarray) -> str:
    """Numbers as text: 32-bit floats, little-endian, in base64; infinities become NaN."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(values, "<f4")
    return base64.b64encode(
        np.where(np.isfinite(numbers), numbers, np.float32(np.nan)).astype("<f4").tobytes()
    ).decode()


def recorded_layouts(what: Schema) -> dict[str, Layout]:
    """The layouts of the variables that a run will record."""
    found = {name: _of_recorded(name, variable, what) for name, variable in what.variables.items()}
    return {name: layout for name, layout in found.items() if drawable(layout)}


def _of_recorded(name: str, variable: Variable, what: Schema) -> Layout:
    labels = {dim: values.tolist() for dim, values in what.dims.items()}
    coords = {dim: values.tolist() for dim, values in variable.coords.items()}
    return Layout(name, variable.axis, variable.times, labels, variable.dims, variable.shape, coords)


def drawable(layout: Layout) -> bool:
    """Whether it changes in time, and is not too large for a picture."""
    return len(layout.times) > 1 and prod(layout.drawn_shape) <= LARGEST_PICTURE


def stored_layout(name: str, array: xr.DataArray, names: Mapping[str, Sequence[str]] | None = None) -> Layout | None:
    """The layout of a stored variable, or None if it has no clock. `names` are those of the labels of dimensions."""
    axis = clock_of(array)
    if axis is None or array.dtype.kind not in "fiub" or array.size == 0:
        return None
    at = array.dims.index(axis)
    before, after = ([str(dim) for dim in dims] for dims in (array.dims[:at], array.dims[at + 1 :]))
    labels = {dim: labels_of(array, dim) for dim in before}
    shape = tuple(array.sizes[dim] for dim in after)
    times = np.asarray(labels_of(array, axis), float)
    coords = {dim: labels_of(array, dim) for dim in after}
    own = {dim: texts for dim, texts in (names or {}).items() if dim in before}
    layout = Layout(name, axis, times, labels, tuple(after), shape, coords, own)
    return layout if drawable(layout) else None


def clock_of(array: xr.DataArray) -> str | None:
    """The dimension along which it was recorded."""
    names = [str(dim) for dim in array.dims]
    clocks = [dim for dim in names if dim in AXES or dim.rpartition("_")[2] in AXES]
    return next((dim for dim in clocks if dim not in array.coords or array[dim].dtype.kind in "fiu"), None)


def labels_of(array: xr.DataArray, dim: str) -> list[Any]:
    """The labels of a dimension, or numbers if it has none."""
    return array[dim].values.tolist() if dim in array.coords else list(range(array.sizes[dim]))


def drawn_variables(data: xr.Dataset | xr.DataTree) -> list[dict[str, Any]]:
    """The variables of a trace that have a clock, with the values that are drawn."""
    found = []
    names = names_of(data) if isinstance(data, xr.Dataset) else {}
    for name, array in traces(data).items():
        layout = stored_layout(name, array, names)
        if layout is None:
            continue
        members = prod(len(labels) for labels in layout.labels.values())
        values = array.values.reshape(members, len(layout.times), *layout.shape)
        picked = layout.narrow(values[np.ix_(layout.members, layout.rows)])
        found.append({**layout.header(), "data": encode(picked)})
    return found
