"""Figures of spikes: the loss, its part in the kernel's top eigenvectors and the rest, and the norm of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures.forms import CONCEPT_COLOURS, FAINT, INK, panels

TOP, REST, BELOW, NORM = CONCEPT_COLOURS[0], CONCEPT_COLOURS[1], FAINT, CONCEPT_COLOURS[3]
FADED = {"linewidth": 0.7, "alpha": 0.35}


def draw_descents(measured: xr.Dataset, top: int) -> Figure:
    """Loss at two rates; the loss split, one seed bold; the norm of the kernel."""
    high, low, step = measured.isel(ratio=0), measured.isel(ratio=1), measured.step.values
    figure, (loss, split, norm) = panels(3, size=(4.3, 3.5))
    ratios = measured.ratio.values
    for seed in range(measured.sizes["seed"]):
        style: dict[str, Any] = {"linewidth": 1.6} if seed == 0 else FADED
        loss.semilogy(step, low.loss.isel(seed=seed), color=BELOW, **style)
        loss.semilogy(step, high.loss.isel(seed=seed), color=INK, **style)
        split.semilogy(step, high.kernel_top.sel(split=top).isel(seed=seed), color=TOP, **style)
        split.semilogy(step, high.kernel_rest.sel(split=top).isel(seed=seed), color=REST, **style)
        norm.plot(step, high.kernel.isel(seed=seed), color=NORM, **style)
        norm.plot(step, low.kernel.isel(seed=seed), color=BELOW, **style)
    loss.plot([], [], color=INK, label=f"{ratios[0]:g} × critical")
    loss.plot([], [], color=BELOW, label=f"{ratios[1]:g} × critical")
    split.plot([], [], color=TOP, label=f"top {top}")
    split.plot([], [], color=REST, label="the rest")
    loss.set(xlabel="step", ylabel="loss", title="Loss, all seeds, one bold")
    split.set(xlabel="step", ylabel="loss", title=f"Loss by eigenspace, {ratios[0]:g} × critical")
    norm.set(xlabel="step", ylabel="‖K‖", title="Norm of the kernel", ylim=(0, None))
    for axes in (loss, split):
        axes.legend(loc="upper right")
    stamp(figure, measured)
    return figure


def stamp(figure: Figure, measured: xr.Dataset) -> None:
    """What the data are, in a corner."""
    figure.text(0.995, 0.003, measured.attrs["data"], ha="right", va="bottom", fontsize=7, color=FAINT)


def draw_raises(measured: xr.Dataset, top: int) -> Figure:
    """Loss, with the last rate from the start beside it; the loss split; the rate and the critical one. The time at a
    raised rate is shaded, for the seed in bold."""
    step, bold = measured.step.values, measured.rate_phase.isel(seed=0).values
    figure, (loss, split, rate) = panels(3, size=(4.3, 3.5))
    highest = 3 * float(np.nanmax(measured.loss.values))
    for seed in range(measured.sizes["seed"]):
        one, style = measured.isel(seed=seed), {"linewidth": 1.6} if seed == 0 else FADED
        loss.semilogy(step, one.loss, color=INK, **style)
        early = np.where(one.last_rate_loss < highest, one.last_rate_loss, np.nan)
        loss.semilogy(np.arange(early.size), early, color=TOP, **style)
        split.semilogy(step, one.kernel_top.sel(split=top), color=TOP, **style)
        split.semilogy(step, one.kernel_rest.sel(split=top), color=REST, **style)
        rate.semilogy(step, one.kernel_critical_rate, color=NORM, **style)
        rate.step(step, one.rate, color=INK, where="pre", **style)
    loss.plot([], [], color=INK, label="raised")
    loss.plot([], [], color=TOP, label="last rate from the start")
    split.plot([], [], color=TOP, label=f"top {top}")
    split.plot([], [], color=REST, label="the rest")
    rate.plot([], [], color=NORM, label="critical rate, n / ‖K‖")
    rate.plot([], [], color=INK, label="rate in use")
    for axes in (loss, split, rate):
        for first, last in zip(*[iter(np.flatnonzero(np.diff(bold == 1)))] * 2, strict=False):
            axes.axvspan(first, last, color=FAINT, alpha=0.25, linewidth=0, zorder=0)
        axes.set_xlabel("step")
    loss.legend(loc="upper right")
    split.legend(loc="upper right")
    rate.legend(loc="lower right")
    loss.set(ylabel="loss", title="Loss, all seeds, one bold", ylim=(None, 2 * highest))
    split.set(ylabel="loss", title="Loss by eigenspace")
    rate.set(ylabel="learning rate", title="Rates")
    stamp(figure, measured)
    return figure


def draw_sgd(measured: xr.Dataset, top: int) -> Figure:
    """Loss with its part in the top, for one seed; the rest; the norm of the kernel for all."""
    step, one = measured.step.values, measured.isel(seed=0)
    figure, (loss, split, norm) = panels(3, size=(4.5, 3.5))
    loss.semilogy(step, one.loss, color=INK, linewidth=1.3)
    split.semilogy(step, one.kernel_top.sel(split=top), color=TOP, linewidth=1.2, label=f"top {top}")
    split.semilogy(step, one.kernel_rest.sel(split=top), color=REST, linewidth=1.2, label="the rest")
    for seed in range(measured.sizes["seed"]):
        style: dict[str, Any] = {"linewidth": 1.4} if seed == 0 else FADED
        norm.plot(step, measured.kernel.isel(seed=seed), color=NORM, **style)
    loss.set(xlabel="step", ylabel="loss on all the data", title="Loss, one seed")
    split.set(xlabel="step", ylabel="loss", title="Loss by eigenspace, the same seed")
    norm.set(xlabel="step", ylabel="‖K‖", title="Norm of the kernel, all seeds", ylim=(0, None))
    split.legend(loc="lower left")
    if "rate" in measured and float(one.rate.max() - one.rate.min()) > 0:
        beside = loss.twinx()
        beside.plot(step, one.rate, color=FAINT, linewidth=1.0)
        beside.set_ylabel("learning rate", color=FAINT)
        beside.set_ylim(0, 3 * float(one.rate.max()))
        beside.grid(False)
    stamp(figure, measured)
    return figure
