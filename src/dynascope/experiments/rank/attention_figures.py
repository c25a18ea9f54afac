"""Figures of the ranks and spectra of attention heads, shared by the vision and language experiments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope import curves
from dynascope.figures import FAINT, INK, panels, settings_colors

COLORS = {"key-query": "#00798c", "value-output": "#edae49"}
NAMES = {"key-query": r"$W_K W_Q^T$", "value-output": r"$W_V W_O^T$"}
START = "#d1495b"


def per_layer(trace: xr.Dataset, title: str = "", clock: str = "epoch") -> Figure:
    """Stable rank of the gain of both products over time, one panel per layer: mean and spread over heads."""
    gained = curves.spectra.read(curves.stable_rank, trace.spectrum)
    initial, noise = (
        float(curves.spectra.read(curves.stable_rank, trace[name], dim).mean())
        for name, dim in (("initial", "initial_singular"), ("null", "singular"))
    )
    top = 1.3 * float(gained.mean(["seed", "head"]).max())
    columns = min(3, trace.sizes["layer"])
    rows = -(-trace.sizes["layer"] // columns)
    figure, axes = panels(columns, rows, size=(3.3, 2.5), sharex=True, sharey=True, squeeze=False)
    for axis, layer in zip(axes.flat, trace.layer.values, strict=False):
        for product, color in COLORS.items():
            one = gained.sel(layer=layer, product=product).stack(member=("seed", "head")).isel(step=slice(1, None))
            mean, spread = one.mean("member"), one.std("member")
            axis.plot(one.epoch, mean, color=color, label=NAMES[product])
            axis.fill_between(one.epoch, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
        if initial < top:
            axis.axhline(initial, color=START, linestyle=":", linewidth=1.2)
        axis.set_ylim(0, top)
        axis.set_title(f"layer {layer}", fontsize=9)
    for axis in axes.flat[trace.sizes["layer"] :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("stable rank of the gain")
    for axis in axes[-1]:
        axis.set_xlabel(clock)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    beside = f"the products at initialization: {initial:.1f}; noise of the gain's size: {noise:.1f}"
    figure.suptitle(f"{title}\n{beside}", fontsize=9)
    return figure


def stages_of_spectra(trace: xr.Dataset, layers: Sequence[int]) -> Figure:
    """Normalized spectra of one head in some layers: of the product at initialization, and of its gain over time."""
    trace = trace.isel(seed=0, head=0)
    figure, axes = panels(len(layers), 2, size=(3.3, 2.6), sharex=True, sharey=True, squeeze=False)
    epochs = [1, *np.geomspace(2, float(trace.epoch[-1]), 4)[1:]]
    chosen = [int(np.argmin(np.abs(trace.epoch.values - epoch))) for epoch in epochs]
    colors = settings_colors(len(chosen))
    for row, product in zip(axes, COLORS, strict=True):
        for axis, layer in zip(row, layers, strict=True):
            one = trace.sel(layer=layer, product=product)
            start = curves.spectra.relative_spectrum(one.initial.values)
            axis.plot(np.arange(1, start.size + 1), start, color=START, label="product at initialization")
            for place, color in zip(chosen, colors, strict=True):
                values = curves.spectra.relative_spectrum(one.spectrum.isel(step=place).values)[: start.size]
                label = f"gain, epoch {float(trace.epoch[place]):.3g}"
                axis.plot(np.arange(1, values.size + 1), values, color=color, label=label)
            axis.set_title(f"{NAMES[product]}, layer {layer}, head 1", fontsize=9)
        row[0].set_ylabel(r"$\sigma_i / \sigma_1$")
    for axis in axes[-1]:
        axis.set(xlabel="i", ylim=(0, 1.02), xscale="log")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))
    return figure


def ends_of_spectra(trace: xr.Dataset) -> Figure:
    """Spectra of W_K W_Qᵀ at initialization and of its gain after training, in heads of different layers."""
    trace = trace.isel(seed=0, step=-1).sel(product="key-query")
    layers = np.unique(np.linspace(1, trace.sizes["layer"], 4).round().astype(int))
    figure, axes = panels(len(layers), size=(2.9, 2.7), sharey=True, squeeze=False)
    for place, (axis, layer) in enumerate(zip(axes[0], layers, strict=True)):
        head = place * 3 % trace.sizes["head"]
        one = trace.sel(layer=layer).isel(head=head)
        gain = one.spectrum.values[: one.initial.size]
        spectra = {"start": (one.initial.values, START), "gain": (gain, COLORS["key-query"])}
        for name, (values, color) in (spectra | {"noise": (one.null.values, FAINT)}).items():
            sizes = curves.spectra.relative_spectrum(values)[: one.initial.size]
            rank = float(curves.stable_rank(values))
            axis.plot(np.arange(1, sizes.size + 1), sizes, color=color, label=f"{name}, rank {rank:.1f}")
        axis.set(xlabel="i", title=f"layer {layer}, head {head + 1}", xscale="log")
        axis.legend(fontsize=7, loc="lower left")
    axes[0, 0].set_ylabel(r"$\sigma_i / \sigma_1$ of $W_K W_Q^T$")
    return figure


def learning(trace: xr.Dataset) -> Figure:
    """The training loss and the test accuracy of every seed."""
    figure, (loss, accuracy) = panels(2, size=(3.6, 2.8))
    loss.plot(trace.loss_step, trace.loss.T, color=INK, alpha=0.7)
    accuracy.plot(trace.accuracy_step, trace.accuracy.T, color=INK, alpha=0.7)
    loss.set(xlabel="step", ylabel="training loss")
    accuracy.set(xlabel="step", ylabel="test accuracy", ylim=(0, 1))
    return figure
