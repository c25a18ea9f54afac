"""Figures of the three regimes: runs beside their exact map, outcomes over the rate, and the effect of the width."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.experiments.catapult.two_layer_models import CATAPULT, DIVERGENT, MONOTONE
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels, settings_colors
from dynascope.theory.catapult.quadratic_model import CRITICAL, LARGEST

SHOWN = (1.0, 2.25, 3.0, 3.75, 4.5)
DOTS = {"marker": "o", "markersize": 2.5, "linewidth": 1}


def draw_regimes(measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figure:
    """Loss and kernel of one seed at several rates; the peak over all rates and seeds."""
    figure, (loss, kernel, outcome) = panels(3, size=(4.6, 3.7))
    for color, product in zip(settings_colors(len(SHOWN)), SHOWN, strict=True):
        run, exact = (
            data[["loss", "kernel"]].isel(seed=0, step=slice(0, 40)).sel(product=product, method="nearest")
            for data in (measured, predicted)
        )
        scale, there = run.product / run.kernel[0], run.loss < 1e6
        loss.plot(run.step, run.loss.where(there), color=color, label=f"ηλ₀ = {product:g}", **DOTS)
        kernel.plot(run.step, scale * run.kernel.where(there), color=color, **DOTS)
        loss.plot(run.step, exact.loss.where(there), **THEORY)
        kernel.plot(run.step, scale * exact.kernel.where(there), **THEORY)
    loss.plot([], [], **THEORY, label="exact map")
    loss.set(yscale="log", ylim=(1e-8, 1e6), xlabel="step", ylabel="loss", title="Loss, one seed")
    loss.legend(loc="lower left", fontsize=7.5)
    kernel.axhline(2, color=FAINT, linewidth=0.9)
    kernel.set(ylim=(0, 6), xlabel="step", ylabel="η × kernel", title="The kernel falls below 2/η")
    _outcomes(outcome, reduced)
    return figure


def _outcomes(axes: Axes, reduced: xr.Dataset) -> None:
    peak = reduced.peak.where(reduced.peak < 1e7, 1e7)
    product = reduced.product.broadcast_like(peak)
    kinds = ((MONOTONE, "monotone", 1), (CATAPULT, "catapult", 2), (DIVERGENT, "divergent", 0))
    for kind, name, color in kinds:
        here = (reduced.regime == kind).values
        style = {"markersize": 3, "color": PALETTE[color], "alpha": 0.7, "label": name}
        axes.plot(product.values[here], peak.values[here], "o", **style)
    for at in (CRITICAL, LARGEST):
        axes.axvline(at, **THEORY)
    axes.set(yscale="log", xlabel="ηλ₀", ylabel="highest loss over the first", title="All rates and seeds")
    axes.legend(loc="center left")


def draw_widths(reduced: xr.Dataset) -> Figure:
    """The largest convergent rate, and the distance traveled, against the width."""
    figure, (largest, traveled) = panels(2, size=(4.8, 3.6))
    spread = np.abs(reduced.largest - LARGEST).transpose("draw_width", "draw")
    sizes = spread.draw_width.values
    largest.plot(sizes, spread, "o", color=FAINT, markersize=3)
    largest.plot(sizes, spread.median("draw"), "o-", color=INK, label="median of the starts")
    largest.plot(sizes, np.log(sizes) / np.sqrt(sizes), **THEORY, label="log m / √m")
    largest.set(xscale="log", yscale="log", xlabel="width m", ylabel="|ηλ₀ - 4| of the largest rate")
    largest.set_title("The end of the window tends to 4/λ₀")
    largest.legend(loc="lower left")
    widths = reduced.width.values
    for color, product in zip((PALETTE[1], PALETTE[0]), reduced.chosen.values, strict=True):
        path = reduced.traveled.sel(chosen=product).transpose("width", "seed")
        traveled.plot(widths, path, "o", color=color, markersize=3)
        traveled.plot(widths, path.median("seed"), "-", color=color, label=f"ηλ₀ = {product:g}")
    top = reduced.traveled.isel(chosen=-1).median("seed")
    if np.all(np.isfinite(top)):
        traveled.plot(widths, float(top[0]) * np.sqrt(widths / widths[0]), **THEORY, label="√m")
    traveled.set(xscale="log", yscale="log", xlabel="width m", ylabel="largest distance from the start")
    traveled.set_title("How far the weights travel")
    traveled.set_xticks(widths, [f"{width:,}" for width in widths])
    traveled.minorticks_off()
    traveled.legend(loc="center left")
    return figure
