"""Shared by figures of spikes: colors, the note on the data, and the figure of runs of SGD."""

from __future__ import annotations

from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, PALETTE, panels

TOP, REST, NORM = PALETTE[0], PALETTE[1], PALETTE[3]
FADED = {"linewidth": 0.7, "alpha": 0.35}


def stamp(figure: Figure, measured: xr.Dataset) -> None:
    """Write the data set into the corner of the figure."""
    figure.text(0.995, 0.003, measured.attrs["data"], ha="right", va="bottom", fontsize=7, color=FAINT)


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
