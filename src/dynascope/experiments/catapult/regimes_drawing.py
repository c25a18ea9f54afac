"""Figures of the three regimes: runs beside their exact map, outcomes over the rate, and what the width changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.experiments.catapult.two_layer_models import CATAPULT, DIVERGENT, MONOTONE, regime
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels, settings_colors
from dynascope.theory.catapult.quadratic_model import CRITICAL, LARGEST

SHOWN = (1.0, 2.25, 3.0, 3.75, 4.5)
REGIME_COLORS = {MONOTONE: PALETTE[1], CATAPULT: PALETTE[2], DIVERGENT: PALETTE[0]}


def draw_regimes(measured: xr.Dataset, predicted: xr.Dataset | None) -> Figure:
    """Loss and kernel of one seed at several rates; the peak and the kernel at the end over all rates and seeds."""
    figure, (loss, kernel, outcome) = panels(3, size=(4.6, 3.7))
    early = slice(0, 40)
    for color, product in zip(settings_colors(len(SHOWN)), SHOWN, strict=True):
        run = measured.isel(seed=0).sel(product=product, method="nearest").isel(step=early)
        shown = run.where(run.loss < 1e6)
        loss.plot(run.step, shown.loss, "o-", color=color, markersize=2.5, linewidth=1, label=f"ηλ₀ = {product:g}")
        kernel.plot(
            run.step, (shown.kernel * run.product / run.kernel[0]), "o-", color=color, markersize=2.5, linewidth=1
        )
        if predicted is not None:
            exact = predicted.isel(seed=0).sel(product=product, method="nearest").isel(step=early)
            exact = exact.where(run.loss < 1e6)
            loss.plot(exact.step, exact.loss, **THEORY)
            kernel.plot(exact.step, exact.kernel * run.product / run.kernel[0], **THEORY)
    loss.plot([], [], **THEORY, label="exact map")
    loss.set(yscale="log", ylim=(1e-8, 1e6), xlabel="step", ylabel="loss", title="Loss, one seed")
    loss.legend(loc="lower left", fontsize=7.5)
    kernel.axhline(2, color=FAINT, linewidth=0.9)
    kernel.set(ylim=(0, 6), xlabel="step", ylabel="η × kernel", title="The kernel falls below 2/η")
    _outcomes(outcome, measured)
    return figure


def _outcomes(axes: Axes, measured: xr.Dataset) -> None:
    runs = measured[["loss"]].transpose("product", "seed", "step")
    found = regime(runs.loss)
    with np.errstate(invalid="ignore", over="ignore"):
        peak = np.nanmax(runs.loss.values, axis=-1) / runs.loss.values[..., 0]
    product = np.broadcast_to(runs.product.values[:, None], peak.shape)
    for kind, name in ((MONOTONE, "monotone"), (CATAPULT, "catapult"), (DIVERGENT, "divergent")):
        here = found == kind
        height = np.where(np.isfinite(peak[here]), np.minimum(peak[here], 1e7), 1e7)
        axes.plot(product[here], height, "o", markersize=3, color=REGIME_COLORS[kind], alpha=0.7, label=name)
    for at in (CRITICAL, LARGEST):
        axes.axvline(at, **THEORY)
    axes.set(yscale="log", xlabel="ηλ₀", ylabel="highest loss over the first", title="All rates and seeds")
    axes.legend(loc="center left")


def draw_widths(measured: xr.Dataset, products: tuple[float, float], widths: Sequence[int]) -> Figure:
    """The largest convergent rate, and the distance traveled, against the width."""
    figure, (largest, traveled) = panels(2, size=(4.8, 3.6))
    sizes = measured.draw_width.values
    spread = np.abs(measured.largest.values - LARGEST)
    largest.plot(np.repeat(sizes, spread.shape[1]), spread.ravel(), "o", color=FAINT, markersize=3, label="starts")
    largest.plot(sizes, np.median(spread, axis=1), "o-", color=INK, label="median")
    largest.plot(sizes, np.log(sizes) / np.sqrt(sizes), **THEORY, label="log m / √m")
    largest.set(xscale="log", yscale="log", xlabel="width m", ylabel="|ηλ₀ - 4| of the largest rate",
                title="The end of the window tends to 4/λ₀")  # fmt: skip
    largest.legend(loc="lower left")
    colors = (PALETTE[1], PALETTE[0])
    for color, product in zip(colors, products, strict=True):
        path = measured.traveled.sel(chosen=product).transpose("width", "seed").values
        traveled.plot(widths, path, "o", color=color, markersize=3)
        traveled.plot(widths, np.median(path, axis=1), "-", color=color, label=f"ηλ₀ = {product:g}")
    top = np.median(measured.traveled.sel(chosen=products[1]).transpose("width", "seed").values, axis=1)
    if np.all(np.isfinite(top)):
        traveled.plot(widths, top[0] * np.sqrt(np.array(widths) / widths[0]), **THEORY, label="√m")
    traveled.set(xscale="log", yscale="log", xlabel="width m", ylabel="largest distance from the start",
                  title="How far the weights travel")  # fmt: skip
    traveled.set_xticks(widths, [f"{width:,}" for width in widths])
    traveled.minorticks_off()
    traveled.legend(loc="center left")
    return figure
