"""The figures of truncated pretrained models: every layer and matrix, and the effect of the best truncation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import FAINT, INK, PALETTE, panels, settings_colors

NAMES = {"facts": "facts", "objects": "indirect objects"}


def draw_layers(reduced: xr.DataTree, places: Mapping[str, Sequence[int]]) -> Figure:
    """The factor by which each truncation changes P(target)/P(the): layers against matrices and ranks."""
    gain = reduced["table"].to_dataset().gain.transpose("task", "matrix", "rank", "layer")
    layers = gain.layer.values
    figure, axes = panels(1, 2, size=(max(6.0, 0.33 * len(layers) + 2.5), 2.6), sharex=True)
    labels = [f"{matrix}, rank {rank}" for matrix in gain.matrix.values for rank in gain["rank"].values]
    limit = max(1.0, float(np.ceil(np.abs(np.log10(gain.values)).max() * 2) / 2))
    limit = min(limit, 2.0)
    image: Any = None
    for axis, task in zip(axes, gain.task.values, strict=True):
        values = np.log10(gain.sel(task=task).values.reshape(len(labels), len(layers)))
        image = axis.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        layer, matrix, rank = places[str(task)]
        row = matrix * gain.sizes["rank"] + list(gain["rank"].values).index(rank)
        for width, color in ((3.2, "white"), (1.4, INK)):
            ring = {"markersize": 10, "markerfacecolor": "none", "color": color, "markeredgewidth": width}
            axis.plot(list(layers).index(layer), row, "o", **ring)
        axis.set_yticks(range(len(labels)), labels)
        axis.set_title(NAMES[str(task)].capitalize())
        axis.grid(False)
    axes[-1].set_xticks(range(len(layers)), [str(layer) for layer in layers])
    axes[-1].set_xlabel("layer that is cut; circle: what the search takes")
    bar = figure.colorbar(image, ax=list(axes), shrink=0.9)
    ticks = np.arange(-np.floor(limit), np.floor(limit) + 1)
    bar.set_label("P(target) / P(the), over the whole model's")
    bar.set_ticks(ticks.tolist(), labels=[f"{10.0**tick:g}" for tick in ticks])
    return figure


def draw_effects(measured: xr.DataTree, shares: Sequence[float], words: Sequence[str]) -> Figure:
    """Effects of the best truncations on unseen prompts, on the prompt of Table 4.1, and the shares of Figure C.4."""
    figure, axes = panels(2, 2, size=(5.2, 3.5))
    for axis, task in zip(axes[0], NAMES, strict=True):
        _boxes(axis, measured[f"unseen_{task}"].to_dataset(), task)
    _bars(axes[1, 0], measured["madrid"].to_dataset())
    demo = measured["demo"].to_dataset()
    the = list(words).index(" the")
    for color, layer in zip(settings_colors(demo.sizes["layer"]), demo.layer.values, strict=True):
        curve = demo.probability.sel(layer=layer)
        axes[1, 1].plot(shares, curve.isel(word=0), "-", color=color, label=f"layer {layer}")
        axes[1, 1].plot(shares, curve.isel(word=the), ":", color=color)
    axes[1, 1].set(xlabel="share of the rank that is kept", ylabel="probability", yscale="log", ylim=(1e-5, 1.5))
    axes[1, 1].set_title(f"“... gave a drink to”: {words[0].strip()} (line), the (dots)")
    axes[1, 1].legend(loc="lower center", ncols=4, fontsize=8)
    return figure


def _boxes(axis: Any, found: xr.Dataset, task: str) -> None:
    names = ("target", "the") if task == "facts" else ("indirect object", "subject", "the")
    for number in range(found.sizes["word"]):
        for offset, model, color in ((-0.18, "full", FAINT), (0.18, "cut", PALETTE[1])):
            values = found[model].isel(word=number).values
            box = axis.boxplot(
                values,
                positions=[number + offset],
                widths=0.3,
                patch_artist=True,
                whis=(5, 95),
                showfliers=False,
                medianprops={"color": INK},
            )
            box["boxes"][0].set(facecolor=color, alpha=0.6, edgecolor=INK, linewidth=0.8)
    axis.set_xticks(range(len(names)), names)
    axis.set(yscale="log", ylabel="probability", ylim=(3e-5, 1.5))
    axis.set_title(f"{found.sizes['prompt']} unseen {NAMES[task]}: whole (gray), cut")


def _bars(axis: Any, madrid: xr.Dataset) -> None:
    places = np.arange(madrid.sizes["token"])
    for offset, model, color in ((-0.2, "full", FAINT), (0.2, "cut", PALETTE[1])):
        values = madrid.probability.sel(model=model)
        axis.bar(places + offset, values, 0.38, color=color, label={"full": "whole model", "cut": "cut"}[model])
    axis.set_xticks(places, [f"“{token.strip() or '␣'}”" for token in madrid.token.values])
    axis.set(ylabel="probability", title="“Madrid is located in”")
    axis.legend()
