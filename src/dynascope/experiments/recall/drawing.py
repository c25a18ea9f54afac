"""Shared by the figures of trained transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from dynascope.figures import PALETTE


def draw_seeds(axes: Any, curves: xr.DataArray, color: Any, label: str, **style: Any) -> None:
    """A curve for each seed."""
    for number, curve in enumerate(curves.transpose("seed", "step").values):
        shown = {"linewidth": 1.2, "label": label if number == 0 else None, **style}
        axes.plot(curves.step, curve, color=color, **shown)


def show_example(axes: Any, trace: xr.Dataset, noise: int, title: str = "Second layer, last token") -> None:
    """A heat map of attention in one sequence, at all recorded steps; colors of ticks tell targets and noise."""
    tokens, target = trace.example_tokens.values, int(trace.example_target)
    steps = trace.step.values
    weights = trace.seen_example.isel(seed=0).transpose("step", "position").values
    axes.imshow(weights, aspect="auto", cmap="magma_r", vmin=0, vmax=max(0.3, float(weights.max())))
    axes.grid(visible=False)
    after = np.flatnonzero(tokens[:-1] == tokens[-1]) + 1
    kinds = {"q y": [at for at in after if tokens[at] == target], "q τ": [at for at in after if tokens[at] == noise]}
    places = sorted((at, name) for name, found in kinds.items() for at in found)
    axes.set_xticks([at for at, _ in places], [name[-1] for _, name in places])
    for tick, (_, name) in zip(axes.get_xticklabels(), places, strict=True):
        tick.set_color(PALETTE[1] if name == "q y" else PALETTE[0])
    rows = np.linspace(0, len(steps) - 1, 7).round().astype(int)
    axes.set_yticks(rows, [str(steps[row]) for row in rows])
    axes.set(xlabel="position (y: target, τ: noise after the trigger)", ylabel="step", title=title)
