"""The panels of concept.one-layer-theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from dynascope.figures import FAINT, PALETTE, THEORY, legend_beside

WIDE: dict[str, Any] = {"linewidth": 2.6, "alpha": 0.85}
"""Measured curves, wide enough to be seen under the dashes that cover them."""
PRINTED: dict[str, Any] = {"color": FAINT, "linestyle": "-.", "linewidth": 1.4}


def draw_terms(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    """Outputs at a generic input along the flow, and the part that is due to growth alone."""
    seen, closed = (trace.isel(signal=1, seed=0, point=1) for trace in (measured, predicted))
    for k, color in enumerate(PALETTE[:3]):
        label = f"coordinate {k + 1}" + (" (no data)" if k == 2 else "")
        axes.plot(seen.time, seen.flow_output.isel(coordinate=k), color=color, label=label, **WIDE)
        axes.plot(seen.time, closed.flow_output.isel(coordinate=k), **THEORY)
        axes.plot(seen.time, closed.growth.isel(coordinate=k), color=color, linestyle=":", linewidth=1.2)
    axes.plot([], [], **THEORY, label="growth + noise")
    axes.plot([], [], color=FAINT, linestyle=":", label="growth alone")
    axes.set(xlabel="time of the flow", ylabel="output at a generic input", title="Growth and noise")
    legend_beside(axes)


def draw_rates(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    """Outputs at the test point with large diversity, beside the theorem with the right and the printed rate."""
    seen, closed = (trace.isel(signal=1, seed=0, point=0) for trace in (measured, predicted))
    for k, color in enumerate(PALETTE[:2]):
        axes.plot(seen.time, seen.flow_output.isel(coordinate=k), color=color, label=f"concept {k + 1}", **WIDE)
        axes.plot(seen.time, closed.flow_output.isel(coordinate=k), **THEORY)
        axes.plot(seen.time, closed.printed_rate.isel(coordinate=k), **PRINTED)
    axes.plot([], [], **THEORY, label="a = σ² + μ²/s")
    axes.plot([], [], **PRINTED, label="(σ² + μ²)/s,\nas printed")
    axes.set(xlabel="time of the flow", ylabel="output at the test point", title="Which rate: a misprint")
    legend_beside(axes)


def draw_errors(axes: Axes, exact: xr.Dataset, reference: Mapping[float, float]) -> None:
    """The error of both forms at the end against the step size: every start a dot, the median a line."""
    rates = exact.learning_rate.values
    for name, color in (("flow", "#00798c"), ("discrete", "#edae49")):
        error = np.maximum(exact[f"{name}_end"].transpose("learning_rate", "seed").values, 1e-17)
        axes.loglog(rates, error, "o", color=color, alpha=0.4, markersize=4, markeredgewidth=0)
        axes.loglog(rates, np.median(error, axis=1), color=color, label=f"{name} form")
    axes.loglog(list(reference), list(reference.values()), "x", color="black", label="reference")
    slope = next(iter(reference.values())) / next(iter(reference))
    axes.loglog(rates, slope * rates, **THEORY, label="first order")
    axes.set(xlabel="step size η", ylabel="error at the test point, t = 3", title="The error is the step's")
    legend_beside(axes)


def draw_sgd(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
    """Paths of SGD on samples in the plane of the two concepts."""
    for k, color in enumerate(("#00798c", "#d1495b")):
        paths = (trace.output.isel(signal=k, seed=0) for trace in (measured, predicted))
        seen, closed = (path.transpose("concept", "step").values for path in paths)
        name = ", ".join(f"{value:g}" for value in measured.sigma.values[k])
        axes.plot(*seen, color=color, label=f"σ = ({name})", **WIDE)
        axes.plot(*closed, **THEORY)
    axes.plot([], [], **THEORY, label="Theorem 4.1")
    axes.set(xlabel="output, concept 1", ylabel="output, concept 2", title="SGD on samples")
    legend_beside(axes)
