"""The figure of `edge.central-flows`: a row for each optimizer, its first seed."""

from __future__ import annotations

from collections.abc import Sequence

import xarray as xr

from dynascope.figures import THEORY, panels
from dynascope.lab.experiment import Figures

RAW, AVERAGE, STABLE = "#b9c4d0", "#00798c", "#d1495b"
"""Colors of the optimizer, its time average, and its stable flow; the central flow is drawn as theory."""


def draw_flows(measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset, edges: Sequence[float]) -> Figures:
    """Loss, effective sharpness and distance from the averaged weights."""
    figure, rows = panels(len(edges), 3, size=(4.4, 3.0))
    for index, (edge, axes) in enumerate(zip(edges, rows, strict=True)):
        one, theory, numbers = (trace.isel(optimizer=index, seed=0) for trace in (measured, predicted, reduced))
        name, step = str(one.optimizer.values), one.step
        loss, sharpness, distance = axes
        loss.semilogy(step, one.loss, color=RAW, linewidth=0.8, label=name)
        loss.semilogy(step, one.average_loss, color=AVERAGE, label="its time average")
        loss.semilogy(step, one.stable_loss, color=STABLE, label="stable flow")
        loss.semilogy(step, theory.average_loss, label="central flow", **THEORY)
        loss.set(title=f"{name}: loss")
        loss.legend(loc="lower left")
        sharpness.plot(step, one.sharpness / edge, color=AVERAGE, label="at the averaged weights")
        sharpness.plot(step, theory.sharpness / edge, label="central flow", **THEORY)
        sharpness.set(title="Effective sharpness over 2/η", ylim=(0, 1.5))
        sharpness.legend(loc="lower right")
        distance.plot(step, numbers.stable_distance, color=STABLE, label="stable flow")
        distance.plot(step, numbers.central_distance, label="central flow", **THEORY)
        distance.set(title="Distance from the averaged weights", ylim=(0, None))
        distance.legend(loc="upper left")
        for each in axes:
            each.set_xlabel("step")
    return {"central-flows": figure}
