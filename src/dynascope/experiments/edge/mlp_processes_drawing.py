"""The figures of `edge.mlp-processes`: four processes at the same times."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.figures import INK, THEORY, panels, settings_colors
from dynascope.lab.experiment import Figures

RAW, AVERAGE, FLOW = "#b9c4d0", "#00798c", "#d1495b"
"""Colors of gradient descent, its time average, and gradient flow; the central flow is drawn as theory."""


def draw_processes(measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset, edge: float) -> Figures:
    """The four processes of the first seed; distances and accumulated variances of all seeds."""
    one, theory, numbers = (trace.isel(seed=0) for trace in (measured, predicted, reduced))
    return {
        "mlp-processes": _first_seed(one, theory, numbers, edge),
        "all-seeds": _all_seeds(measured, predicted, reduced),
    }


def _first_seed(one: xr.Dataset, theory: xr.Dataset, reduced: xr.Dataset, edge: float) -> Figure:
    figure, ((loss, sharpness), (distance, variance)) = panels(2, 2, size=(5.4, 3.5))
    step = one.step.values
    reached = step[theory.oscillation.values > 0]
    for axes in (loss, sharpness, distance, variance):
        if reached.size:
            axes.axvspan(reached[0], step[-1], color="#f4f6f9", zorder=0)
        axes.set_xlabel("step")
        axes.margins(x=0.01)

    loss.plot(step, one.loss, color=RAW, linewidth=0.8, label="gradient descent")
    loss.plot(step, one.average_loss, color=AVERAGE, label="its time average")
    loss.plot(step, one.flow_loss, color=FLOW, label="gradient flow, time η × step")
    loss.plot(step, theory.average_loss, label="central flow: L + ½⟨H, Σ⟩", **THEORY)
    loss.set(yscale="log", title="Loss")
    loss.legend(loc="lower left")

    beyond = float(one.flow_sharpness[-1])
    sharpness.plot(step, one.sharpness, color=RAW, linewidth=0.8, label="gradient descent")
    sharpness.plot(step, one.center_sharpness, color=AVERAGE, label="at its averaged weights")
    sharpness.plot(step, one.flow_sharpness, color=FLOW, label=f"gradient flow: {beyond:.3g} at the end")
    sharpness.plot(step, theory.sharpness, label="central flow", **THEORY)
    top = max(float(one.sharpness.max()), float(one.center_sharpness.max()))
    if edge < 2 * top:
        sharpness.axhline(edge, color=INK, linewidth=0.8)
        sharpness.annotate("2/η", (0, edge), xytext=(4, 3), textcoords="offset points", color=INK)
    sharpness.set_ylim(0, 1.8 * top)
    sharpness.set_title("Sharpness" if edge < 2 * top else f"Sharpness: 2/η = {edge:.3g} is far above")
    sharpness.legend(loc="upper right" if edge < 2 * top else "upper left")

    distance.plot(step, reduced.flow_distance, color=FLOW, label="gradient flow")
    distance.plot(step, reduced.central_distance, label="central flow", **THEORY)
    distance.set_ylim(bottom=0)
    distance.set_title("Distance from the averaged weights")
    distance.legend(loc="upper left")

    label = "gradient descent, windowed"
    variance.fill_between(step, one.oscillation, color=AVERAGE, alpha=0.3, linewidth=0, label=label)
    variance.plot(step, theory.oscillation, label="central flow: tr Σ", **THEORY)
    variance.set_ylim(bottom=0)
    variance.set_title("Variance of the oscillation: it comes in bursts")
    variance.legend(loc="upper right")
    return figure


def _all_seeds(measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figure:
    figure, (distance, variance) = panels(2, size=(5.4, 3.5))
    step, colors = measured.step.values, settings_colors(measured.sizes["seed"])
    every = step[1] - step[0]
    for seed, color in enumerate(colors):
        distance.plot(step, reduced.flow_distance[seed], color=color, linewidth=1.1)
        distance.plot(step, reduced.central_distance[seed], color=color, linestyle=THEORY["linestyle"])
        sums = (every * np.cumsum(trace.oscillation.values[seed]) for trace in (measured, predicted))
        variance.plot(step, next(sums), color=color, label=f"seed {measured.seed.values[seed]}")
        variance.plot(step, next(sums), color=color, linestyle=THEORY["linestyle"])
    for style, name in (("-", "gradient flow"), (THEORY["linestyle"], "central flow")):
        distance.plot([], [], color=INK, linestyle=style, label=name)
    for style, name in (("-", "gradient descent"), (THEORY["linestyle"], "central flow: tr Σ")):
        variance.plot([], [], color=INK, linestyle=style, label=name)
    distance.set_title("Distance from the averaged weights")
    variance.set_title("Variance of the oscillation, summed over steps")
    distance.legend(loc="upper left")
    variance.legend(loc="lower right")
    for axes in (distance, variance):
        axes.set_xlabel("step")
        axes.set_ylim(bottom=0)
    return figure
