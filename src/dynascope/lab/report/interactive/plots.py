"""One pair of axes in conversion to Plotly: its scales, the names of its axes there, and its converted artists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.transforms import Transform
from numpy.typing import ArrayLike

from dynascope.lab.report.interactive.scales import Scale
from dynascope.lab.report.interactive.thinning import thinned
from dynascope.lab.report.interactive.unknown import UnknownArtist

Entry = dict[str, Any]


@dataclass
class Plot:
    """Axes of matplotlib, and the traces, shapes, texts and pictures that they become."""

    axes: Axes
    x: Scale
    y: Scale
    xref: str
    yref: str
    most: int = 500
    """The most points of one curve."""
    traces: list[Entry] = field(default_factory=list)
    shapes: list[Entry] = field(default_factory=list)
    texts: list[Entry] = field(default_factory=list)
    pictures: list[Entry] = field(default_factory=list)

    def trace(self, artist: Artist | BarContainer, **entry: object) -> Entry:
        """Add a trace on these axes. Legends are made later."""
        label = str(artist.get_label())
        name = "" if label.startswith("_") else label
        made = {**entry, "name": name, "showlegend": False, "xaxis": self.xref, "yaxis": self.yref}
        alpha = getattr(artist, "get_alpha", lambda: None)()
        if isinstance(alpha, float | int) and alpha < 1 and "opacity" not in made:
            made["opacity"] = round(float(alpha), 3)
        self.traces.append(made)
        return made

    def curve(self, x: ArrayLike, y: ArrayLike) -> Entry:
        """The x and the y of a trace: thinned and rounded."""
        x, y = (np.ma.filled(np.ma.asarray(part, dtype=float), np.nan) for part in (x, y))
        kept = thinned(self.x.on_page(x), self.y.on_page(y), self.most)
        return {"x": self.x.numbers(x[kept]), "y": self.y.numbers(y[kept])}

    def in_data(self, transform: Transform) -> tuple[bool, bool]:
        """Whether a transform starts from data along x and along y; otherwise it must start from the axes' own box."""
        across, up = transform.contains_branch_seperately(self.axes.transData)
        if not (across and up) and not any(
            transform.contains_branch_seperately(self.axes.transAxes)[k] for k in (0, 1) if not (across, up)[k]
        ):
            raise UnknownArtist("something that lies neither in the data nor in the box of its axes")
        return across, up

    def refs(self, across: bool, up: bool) -> Entry:
        """The names of the axes, or of their box, for shapes and texts."""
        return {
            "xref": self.xref if across else f"{self.xref} domain",
            "yref": self.yref if up else f"{self.yref} domain",
        }
