"""Figures of feature learning: outcomes against a setting, curves in time, the corner of the outer product."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, THEORY, panels, settings_colors


def draw_outcomes(best: xr.Dataset, dim: str, label: str) -> Figure:
    """Alignment and test loss of every seed against the setting, and against each other."""
    figure, (left, middle, right) = panels(3, size=(4.2, 3.7))
    names = [f"{value:g}" for value in best[dim].values]
    places = np.arange(len(names))
    colors = settings_colors(len(names))
    shown = ((left, best.alignment, "Alignment with the target"), (middle, best.test, "Test loss"))
    for axes, variable, title in shown:
        values = variable.transpose(dim, "seed").values
        axes.plot(places, values, color=FAINT, linewidth=0.8, zorder=1)
        for place, color in zip(places, colors, strict=True):
            axes.scatter(np.full(values.shape[1], place), values[place], color=color, s=22, zorder=2)
        axes.plot(places, values.mean(axis=1), color=INK, linewidth=1.8, zorder=3)
        axes.set(xlabel=label, title=title)
        axes.set_xticks(places, names)
        axes.set_xlim(-0.12 * places[-1], 1.12 * places[-1])  # a setting that diverged keeps its place
    alike = float(best.isotropic_alignment)
    if best.alignment.min() < alike + 0.1:
        left.axhline(alike, **THEORY)
        left.text(places[-1], alike, "all directions equally", fontsize=7, va="bottom", ha="right")
    for place, color in zip(places, colors, strict=True):
        one = best.isel({dim: place})
        right.scatter(one.alignment, one.test, color=color, s=26, label=names[place])
    right.set(xlabel="alignment", ylabel="test loss", title="One against the other")
    right.legend(title=label, fontsize=7, title_fontsize=7)
    left.text(0, -0.24, "gray: seeds; black: their mean", transform=left.transAxes, fontsize=7, color=FAINT)
    return figure


def draw_curves(measured: xr.Dataset, dim: str, label: str) -> Figure:
    """Training and validation loss, alignment and rate of the first seed, in time."""
    figure, axes = panels(3, size=(4.4, 3.6))
    loss, aligned, rate = axes
    colors = settings_colors(measured.sizes[dim])
    for place, color in enumerate(colors):
        one = measured.isel({dim: place, "seed": 0})
        name = f"{float(measured[dim][place]):g} {label}"
        loss.semilogy(one.step, one.train, color=color, linewidth=1.0, alpha=0.6)
        loss.semilogy(one.step, one.validation, color=color, linewidth=1.6, label=name)
        aligned.plot(one.step, one.alignment, color=color)
        if "rate" in one:
            rate.plot(one.step, one.rate, color=color)
    loss.legend(fontsize=7)
    loss.set(xlabel="step", title="Validation loss (thick), training (thin)")
    aligned.set(xlabel="step", title="Alignment")
    rate.set(xlabel="step", title="Learning rate")
    return figure


def draw_corners(best: xr.Dataset, dim: str, label: str) -> Figure:
    """The first rows and columns of the outer product, mean over seeds, each scaled to 0..1."""
    values = best[dim].values
    figure, axes = panels(len(values), size=(2.7, 2.9), squeeze=False)
    images = []
    for place, one in enumerate(axes[0]):
        corner = best.alignment_corner.isel({dim: place}).mean("seed").values
        images.append(one.imshow((corner - corner.min()) / max(np.ptp(corner), 1e-30), vmin=0, vmax=1, cmap="magma"))
        one.set(title=f"{float(values[place]):g} {label}", xticks=[], yticks=[])
    figure.colorbar(images[-1], ax=axes[0], shrink=0.7)
    return figure


def draw_progress(measured: xr.Dataset, dim: str, label: str) -> Figure:
    """Validation loss, alignment and the share of super-critical steps of every seed, against the steps taken."""
    figure, axes = panels(3, size=(4.4, 3.6))
    for place, color in enumerate(settings_colors(measured.sizes[dim])):
        for seed in range(measured.sizes["seed"]):
            one = measured.isel({dim: place, "seed": seed}).isel(step=slice(1, None))
            name = f"{label} {float(measured[dim][place]):g}" if seed == 0 else None
            curves = one.validation, one.alignment, one.supercritical / one.taken
            for where, curve in zip(axes, curves, strict=True):
                where.plot(one.taken, curve, color=color, linewidth=1.0, alpha=0.8, label=name)
    titles = ("Validation loss", "Alignment", "Share of super-critical steps so far")
    for where, title in zip(axes, titles, strict=True):
        where.set(xlabel="step", xscale="log", title=title)
    axes[0].set_yscale("log")
    axes[2].set_ylim(-0.02, 1.02)
    axes[0].legend(fontsize=7)
    return figure
