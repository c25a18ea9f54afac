"""The figure of `edge.one-dimensional-orbits`: Figure B.1, and Theorem 3.1 for the other losses."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.experiments.edge import example_losses, rate_scans
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.tasks.scalar_losses import ScalarLoss, quartic, sine
from dynascope.theory.edge import period_two

MINIMA = {"quartic": 1.0, "sine": -np.pi / 2}
SHOWN = 60


def draw_orbits(measured: xr.Dataset, predicted: xr.Dataset, rate_factor: float) -> Figure:
    """Six panels: two losses, the iterates over time; half-widths, losses without an orbit, rates through a point."""
    figure, grid = panels(3, 2, size=(4.6, 3.4))
    _landscape(grid[0, 0], quartic(), measured.quartic[:SHOWN, 1].values, predicted.quartic.values, (0.72, 1.22))
    _landscape(grid[0, 1], sine(), measured.sine[:SHOWN, 0].values, predicted.sine.values, (-2.22, -0.92))
    grid[0, 0].set(title="Quartic, (x² - 1)²/4", xlabel="x", ylabel="loss")
    grid[0, 1].set(title="2 sin x", xlabel="x", ylabel="loss")
    _in_time(grid[0, 2], measured, predicted)
    grid[0, 2].set(title=f"η = {rate_factor:g} × 2/f''", xlabel="step", ylabel="distance from the minimum")
    _half_widths(grid[1, 0], measured, predicted)
    _escaping(grid[1, 1], measured)
    _rates(grid[1, 2])
    return figure


def _landscape(axes: Axes, loss: ScalarLoss, path: np.ndarray, orbit: np.ndarray, span: tuple[float, float]) -> None:
    line = np.linspace(*span, 400)
    axes.plot(line, np.asarray(loss(line)), color=FAINT, zorder=1)
    heights = np.asarray(loss(path))
    axes.plot(path, heights, "-", color=PALETTE[1], linewidth=0.4, alpha=0.5)
    axes.scatter(path, heights, c=np.arange(len(path)), cmap="viridis", s=14, zorder=3)
    axes.plot(orbit, np.asarray(loss(orbit)), "x", color="black", markersize=8, zorder=4, label="predicted orbit")
    axes.annotate("start", (path[0], heights[0]), xytext=(7, 0), textcoords="offset points", fontsize=8)
    axes.legend(loc="upper center")


def _in_time(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    for color, (name, start, label) in zip(PALETTE, (("sine", 0, "2 sin x"), ("quartic", 1, "quartic")), strict=False):
        path = measured[name][: 2 * SHOWN, start] - MINIMA[name]
        axes.plot(path.step, path, "o", color=color, markersize=2.5, label=label)
        for point in predicted[name].values:
            axes.axhline(point - MINIMA[name], **THEORY)
    axes.set_ylim(-0.55, 0.65)
    axes.legend(loc="upper right", ncols=2)


def _half_widths(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    ratio = measured.half_width.sel(loss=predicted.loss) / predicted.half_width
    place = np.arange(predicted.sizes["loss"])
    for which, factor in enumerate(measured.factor.values):
        style = {"color": PALETTE[which], "markersize": 4, "label": f"ν = {2 * factor - 2:.3g}"}
        axes.plot(place, ratio.isel(factor=which), "os"[which], **style)
    axes.axhline(1, **THEORY)
    axes.axhspan(0.99, 1.01, color=FAINT, alpha=0.2, linewidth=0)
    axes.set_xticks(place, predicted.loss.values, rotation=60, ha="right", fontsize=7)
    axes.set(title="Half-width over √(3 f''² ν/D)", ylabel="ratio", ylim=(0.98, 1.025))
    axes.legend(loc="upper left", ncols=2)


def _escaping(axes: Axes, measured: xr.Dataset) -> None:
    away = np.abs(measured.x - measured.minimum).isel(factor=-1, step=slice(0, rate_scans.EARLY))
    kept = away.sel(loss="exp")
    axes.plot(kept.step, kept, color=FAINT, linewidth=0.8, label="(exp x - 2)², D > 0")
    styles = ("-", "-", (0, (5, 3)), (0, (2, 2)))
    for color, style, name in zip(settings_colors(4), styles, example_losses.escaping(), strict=True):
        path = away.sel(loss=name)
        axes.plot(path.step, path.where(path < 1e3), color=color, linestyle=style, label=name)
    axes.set(yscale="log", ylim=(2e-2, 1e3), xlabel="step", ylabel="distance from the minimum")
    axes.set_title("D ≤ 0: no orbit, divergence")
    axes.legend(loc="upper left", bbox_to_anchor=(0.08, 1.0))


def _rates(axes: Axes) -> None:
    """The rate whose orbit passes through x0 on the quartic: by search, and to leading order."""
    loss, x = quartic(), np.linspace(0.75, 0.9995, 60)
    reach = np.linspace(0.0005, 0.249, 60)
    window = period_two.window(loss, reach)
    style = {"color": PALETTE[2], "alpha": 0.25, "linewidth": 0, "label": "window of Theorem 3.1, ε = 1 - x₀"}
    axes.fill_between(1 - reach, np.asarray(window.low), np.asarray(window.high), **style)
    wide = period_two.Window(loss.threshold, loss.threshold * 1.4)
    axes.plot(x, np.asarray(period_two.orbit_rate(loss, x, wide).rate), color=PALETTE[1], label="found")
    axes.plot(x, np.asarray(period_two.rate_through(loss, x)), **THEORY, label="2/f'' + D (x₀ - x̄)²/(3 f''³)")
    axes.set(title="The rate with period two through x₀", xlabel="x₀ (quartic)", ylabel="η", ylim=(0.98, 1.5))
    axes.legend(loc="upper right")
