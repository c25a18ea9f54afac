"""One axis: the numbers that Plotly is given for it, and its layout.

Plotly has linear and logarithmic axes. On any other scale (symlog) the numbers are given as they lie on the page, with
matplotlib's ticks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from numpy.typing import ArrayLike

from dynascope.lab.report.interactive.texts import as_html
from dynascope.lab.report.interactive.unknown import UnknownArtist

FINE = 10_000
"""Numbers are rounded to this fraction of the range of an axis."""
PIXELS = 1.2
"""Pixels of a point, in the size that a page shows a figure."""


class Scale:
    """One axis of matplotlib."""

    def __init__(self, axis: Axis):
        self.axis = axis
        name = axis.get_scale()
        self.kind = name if name in ("linear", "log") else "mapped"
        low, high = sorted(axis.get_view_interval())
        span = float(high - low) or 1.0
        self.decimals = max(0, math.ceil(-math.log10(span / FINE))) if math.isfinite(span) else 6

    def numbers(self, values: ArrayLike) -> list[float | None]:
        """Rounded values for Plotly; None for NaN and infinities."""
        given = np.atleast_1d(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan))
        if self.kind == "mapped":
            given = self.on_page(given)
        return [self.number(value) for value in given.tolist()]

    def number(self, value: float) -> float | None:
        """One number, rounded to visible precision."""
        if not math.isfinite(value):
            return None
        short = float(f"{value:.6g}")
        if self.kind == "linear":
            short = round(short, self.decimals)
        elif self.kind == "mapped":
            short = round(short, 4)
        else:
            short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short

    def on_page(self, values: ArrayLike) -> np.ndarray:
        """Values as positions on the page: equal steps are equal lengths."""
        with np.errstate(all="ignore"):
            return np.asarray(self.axis.get_transform().transform(np.asarray(values, dtype=float)))

    def place(self, value: float) -> float:
        """The coordinate that Plotly expects for a text or the end of a range: on a logarithmic axis, the exponent."""
        if self.kind == "linear":
            return float(value)
        return float(np.log10(float(value)) if self.kind == "log" else self.on_page([float(value)])[0])

    def layout(self) -> dict[str, Any]:
        """The axis: its label, range and ticks."""
        label = self.axis.label
        size = self.axis.get_tick_params().get("labelsize")
        found: dict[str, Any] = {
            "type": "log" if self.kind == "log" else "linear",
            "range": [round(self.place(end), 8) for end in self.axis.get_view_interval()],
            "title": {
                "text": as_html(label.get_text()),
                "font": {"size": PIXELS * float(label.get_fontsize())},
                "standoff": 4,
            },
            "showgrid": bool(self.axis.get_tick_params().get("gridOn", False)),
            "tickfont": {"size": PIXELS * (float(size) if isinstance(size, int | float) else 10.0)},
            "zeroline": False,
            "showline": True,
            "ticks": "outside",
        }
        if any(not math.isfinite(end) for end in found["range"]):
            raise UnknownArtist("an axis without a finite range")
        if self.kind == "log":
            found |= {"exponentformat": "power", "dtick": 1} if self._decades() >= 2 else {"nticks": 6}
        if self.kind == "mapped" or self._fixed():
            found |= self._ticks()
        return found

    def _decades(self) -> float:
        low, high = sorted(self.axis.get_view_interval())
        return math.log10(high / low) if low > 0 else math.inf

    def _fixed(self) -> bool:
        """Whether an experiment has set the ticks."""
        from matplotlib.category import StrCategoryLocator
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        locator, formatter = self.axis.get_major_locator(), self.axis.get_major_formatter()
        base = getattr(locator, "_base", 10) if self.kind == "log" else 10
        kinds = (FixedLocator, NullLocator, StrCategoryLocator)
        return base != 10 or isinstance(locator, kinds) or isinstance(formatter, FuncFormatter)

    def _ticks(self) -> dict[str, list[float] | list[str] | str]:
        low, high = sorted(self.axis.get_view_interval())
        span = self.place(high) - self.place(low)
        edge = 1e-6 * span
        ticks = [
            tick
            for tick in self.axis.get_majorticklocs()
            if self.place(low) - edge <= self.place(tick) <= self.place(high) + edge
        ]
        words = self.axis.get_major_formatter().format_ticks(ticks)
        at = [tick if self.kind == "log" else self.place(tick) for tick in map(float, ticks)]
        return {"tickmode": "array", "tickvals": at, "ticktext": [as_html(word) for word in words]}
