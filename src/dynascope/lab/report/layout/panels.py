"""The panels of a figure: each plot with the axes over it and the color bars beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.lab.report.layout.extents import figure_of


@dataclass
class Panel:
    """One plot: its axes, those that lie over them (twins), and the color bars beside them."""

    axes: Axes
    over: list[Axes] = field(default_factory=list)
    bars: list[Axes] = field(default_factory=list)

    @property
    def plots(self) -> list[Axes]:
        return [self.axes, *self.over]

    @property
    def parts(self) -> list[Axes]:
        return [*self.plots, *self.bars]

    def place(self, left: float, bottom: float, width: float, height: float) -> None:
        """Put the axes into this box of the figure, and the color bars to the right of it."""
        across, up = figure_of(self.axes).get_size_inches()
        for axes in self.plots:
            axes.set_position((left / across, bottom / up, width / across, height / up))
        for number, bar in enumerate(self.bars):
            at = left + width + 0.12 + 0.75 * number
            bar.set_box_aspect(None)
            bar.set_position((at / across, bottom / up, 0.13 / across, height / up))


def find_panels(figure: Figure) -> list[Panel]:
    """The panels of a figure in the order of its axes. Hidden and empty axes are left out."""
    panels: list[Panel] = []
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    for axes in figure.axes:
        if axes in bars or not axes.get_visible() or not _shows_something(axes):
            continue
        under = next((panel for panel in panels if _same_place(panel.axes, axes)), None)
        if under:
            under.over.append(axes)
        else:
            panels.append(Panel(axes))
    for bar in bars:
        owners = [panel for panel in panels if bar in _bars_of(panel.axes)]
        if panels:
            (owners or panels)[-1].bars.append(bar)
    return panels


def _shows_something(axes: Axes) -> bool:
    return axes.axison or axes.has_data() or bool(axes.texts or axes.artists or axes.get_legend())


def _same_place(one: Axes, other: Axes) -> bool:
    edges = [np.asarray(axes.get_position(True).extents) for axes in (one, other)]
    return bool(np.allclose(*edges, atol=1e-6))


def _bars_of(axes: Axes) -> list[Axes]:
    """The color bars of the artists on these axes."""
    return [bar.ax for artist in (*axes.images, *axes.collections) if (bar := artist.colorbar) is not None]
