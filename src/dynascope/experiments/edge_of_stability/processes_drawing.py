"""The figures of `edge.mlp-processes`: four processes on one clock."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.experiments.drawing import FAINT, INK, THEORY, panels

RAW, AVERAGE, FLOW = "#b9c4d0", "#00798c", "#d1495b"
"""Gradient descent itself, its time average, and gradient flow; the central flow is theory."""


def draw_processes(measured: xr.Dataset, predicted: xr.Dataset, learning_rate: float) -> Mapping[str, Figure]:
    """The four panels for the first seed, and distances and variances for all of them."""
    figure, ((loss, sharpness), (distance, variance)) = panels(2, 2, size=(5.4, 3.5))
    one, theory = measured.isel(seed=0), predicted.isel(seed=0)
    step, edge = one.step.values, 2 / learning_rate
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
    loss.set_yscale("log")
    loss.set_title("Loss")
    loss.legend(loc="lower left")

    sharpness.plot(step, one.sharpness, color=RAW, linewidth=0.8, label="gradient descent")
    sharpness.plot(step, one.centre_sharpness, color=AVERAGE, label="at its averaged weights")
    sharpness.plot(step, one.flow_sharpness, color=FLOW, label="gradient flow")
    sharpness.plot(step, theory.sharpness, label="central flow", **THEORY)
    sharpness.axhline(edge, color=INK, linewidth=0.8)
    sharpness.annotate("2/η", (step[-1], edge), xytext=(-2, 3), textcoords="offset points", ha="right", color=INK)
    top = max(float(one.sharpness.max()), float(one.centre_sharpness.max()))
    sharpness.set_ylim(0, 1.8 * max(top, min(edge, float(one.flow_sharpness.max()))))
    sharpness.set_title("Sharpness")
    sharpness.legend(loc="upper left")

    _distances(distance, measured, predicted)
    _variances(variance, measured, predicted)
    return {"mlp-processes": figure}


def _distances(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    """Every seed, faint; the first, full."""
    for seed in reversed(range(measured.sizes["seed"])):
        centre = measured.weights.values[seed]
        faint = {"alpha": 1.0 if seed == 0 else 0.3, "linewidth": 1.6 if seed == 0 else 0.9}
        flow = np.linalg.norm(measured.flow_weights.values[seed] - centre, axis=1)
        central = np.linalg.norm(predicted.weights.values[seed] - centre, axis=1)
        axes.plot(measured.step, flow, color=FLOW, label="gradient flow" if seed == 0 else None, **faint)
        style = {**THEORY, **faint}
        axes.plot(measured.step, central, label="central flow" if seed == 0 else None, **style)
    axes.set_ylim(bottom=0)
    axes.set_title("Distance from the time average, in weight space")
    axes.legend(loc="upper left", title="other seeds faint", title_fontsize=8)


def _variances(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    """The running mean since the edge was reached, which is what is compared: bursts come and go."""
    step = measured.step.values
    axes.fill_between(step, measured.oscillation.values[0], color=AVERAGE, alpha=0.22, linewidth=0, label="measured")
    axes.plot(step, predicted.oscillation.values[0], label="central flow: tr Σ", **THEORY)
    begun = np.maximum.accumulate(predicted.oscillation.values[0] > 0)
    if begun.any():
        count = np.arange(1, begun.sum() + 1)
        for values, colour, line, name in (
            (measured.oscillation.values[0], AVERAGE, "-", "measured, mean since the edge"),
            (predicted.oscillation.values[0], FAINT, (0, (4, 2.5)), "tr Σ, mean since the edge"),
        ):
            axes.plot(step[begun], np.cumsum(values[begun]) / count, color=colour, linestyle=line, label=name)
    axes.set_ylim(bottom=0)
    axes.set_title("Variance of the oscillation")
    axes.legend(loc="upper right")
