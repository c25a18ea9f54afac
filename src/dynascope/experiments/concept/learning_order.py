"""Reading and drawing the output curves of trained MLPs: which concept is learned first, and how learning slows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from dynascope.curves import paths
from dynascope.curves.paths import TerminalRate
from dynascope.figures import INK, THEORY, concept_plane, legend_beside, settings_colors
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import below
from dynascope.theory.concept.terminal_rates import settled_step

SINGLE_SPEEDS = 1e-4
"""Share of the largest speed down to which speeds are read: below it, rounding of the outputs dominates in float32."""
DOUBLE_SPEEDS = 1e-6
"""The same in float64."""


def normalized(trace: xr.Dataset) -> xr.DataArray:
    """Outputs divided by their targets: every concept is learned at 1."""
    return trace.output / trace.mu


def bulge(trace: xr.Dataset) -> xr.DataArray:
    """The signed area between path and chord: positive if concept 2 is learned first."""
    return _of_paths(paths.signed_area, trace)


def lead(trace: xr.Dataset) -> xr.DataArray:
    """The value of z_2 - z_1 at its largest size: another measure of which is first."""
    return _of_paths(paths.largest_difference, trace)


def _of_paths(read: Callable[[np.ndarray, np.ndarray], np.ndarray], trace: xr.Dataset) -> xr.DataArray:
    z = normalized(trace)
    one, two = (z.isel(concept=k, drop=True).transpose(..., "step") for k in (0, 1))
    return xr.apply_ufunc(read, one, two, input_core_dims=[["step"], ["step"]])


def speeds(trace: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The middle of every recorded interval, and the speed `||o_{k+1} - o_k|| / (t_{k+1} - t_k)` there."""
    steps = trace.step.values.astype(float)
    path = trace.output.transpose(..., "step", "concept").values.astype(float)
    return (steps[1:] + steps[:-1]) / 2, np.linalg.norm(np.diff(path, axis=-2), axis=-1) / np.diff(steps)


def rate_between(
    trace: xr.Dataset, upper: float = 0.05, lower: float = 0.0, speed_share: float = DOUBLE_SPEEDS
) -> TerminalRate:
    """The slope per step of the log speed while the test loss is between two shares of its first value.

    The path is held still once the loss is below the band: it has no speed there, so the fit leaves it out.
    """
    path = trace.output.transpose(..., "step", "concept").values.astype(float)
    loss = trace.test_loss.transpose(..., "step").values.astype(float)
    below = np.logical_or.accumulate(loss < lower * loss[..., :1], axis=-1)
    last = loss.shape[-1] - 1 - below.sum(axis=-1)
    index = np.minimum(np.arange(loss.shape[-1]), last[..., None])
    held = np.take_along_axis(path, index[..., None], axis=-2)
    return paths.terminal_rate(held, trace.step.values, loss, loss_share=upper, speed_share=speed_share)


def settled_slopes(
    trace: xr.Dataset,
    a: np.ndarray,
    step_size: float,
    bands: Sequence[tuple[float, float]] = ((1.0, 1e-2), (1e-2, 1e-4)),
    speed_share: float = DOUBLE_SPEEDS,
) -> xr.DataArray:
    """The slope of the log speed from the step at which, by Theorem 4.1, one exponential is left, as (signal, band,
    seed). A band is two shares of the loss at that step. NaN if the run ends too soon."""
    rows = []
    for k, strength in enumerate(a):
        run = trace.isel(signal=k)
        late = run.sel(step=slice(settled_step(strength, run.mu.values, step_size), None))
        enough = late.sizes["step"] > 2
        nothing = np.full(run.sizes["seed"], np.nan)
        rows.append([rate_between(late, *band, speed_share).slope if enough else nothing for band in bands])
    return xr.DataArray(rows, dims=("signal", "band", "seed"))


def deviation(measured: xr.Dataset, predicted: xr.Dataset) -> xr.DataArray:
    """The largest difference of an output from that of Theorem 4.1, in each run."""
    return np.abs(measured.output - predicted.output).max(("step", "concept"))


def overlays(deviation: xr.DataArray) -> Claim:
    """Whether Theorem 4.1 gives the path of SGD."""
    statement = "Theorem 4.1, from the run's own start, overlays the SGD path (largest deviation of an output)"
    return below("theorem", statement, deviation, 0.1, median=0.03, source="Theorem 4.1")


def signal_label(which: Literal["mu", "sigma"], values: Sequence[float] | np.ndarray) -> str:
    """`μ = (1, 2)`."""
    return f"{'μ' if which == 'mu' else 'σ'} = ({', '.join(f'{value:g}' for value in values)})"


def draw_plane(axes: Axes, measured: xr.Dataset, predicted: xr.Dataset | None, label: Literal["mu", "sigma"]) -> None:
    """Output paths of the first seed, divided by their targets, one color per setting, with 40 dots at equal
    intervals."""
    colors, every = settings_colors(measured.sizes["signal"]), max(1, measured.sizes["step"] // 40)
    z = normalized(measured).isel(seed=0)
    for index, color in enumerate(colors):
        name = signal_label(label, measured[label].isel(signal=index).values)
        path = z.isel(signal=index).transpose("step", "concept").values
        axes.plot(*path.T, color=color, label=name)  # pyright: ignore[reportArgumentType]
        axes.plot(*path[::every].T, "o", color=color, markersize=3)
        if predicted is not None:
            theory = (predicted.output / measured.mu).isel(signal=index, seed=0).transpose("step", "concept")
            axes.plot(*theory.values.T, **THEORY, label="Theorem 4.1" if index == len(colors) - 1 else None)
    axes.plot([0, 1], [0, 1], color=INK, alpha=0.15, linewidth=1)
    concept_plane(axes, (1.0, 1.0))
    axes.set(xlabel="output / target, concept 1", ylabel="output / target, concept 2")
    legend_beside(axes)


def draw_bulge(axes: Axes, area: xr.DataArray, name: str, flip: float) -> None:
    """Signed area against the varied signal: every seed a dot, the median a line, the predicted flip dashed."""
    area = area.sortby("signal").transpose("signal", "seed")
    axes.plot(area.signal, area, "o", color="#00798c", alpha=0.35, markersize=3.5, markeredgewidth=0)
    axes.plot(area.signal, area.median("seed"), color="#00798c", label="median over seeds")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.axvline(flip, **THEORY, label="a₁ = a₂")
    axes.set(xlabel=name, ylabel="signed area (> 0: concept 2 first)")
    axes.legend(loc="best")


def draw_speed(axes: Axes, steps: ArrayLike, speed: np.ndarray, rate: float, floor: float, **style: object) -> None:
    """One curve of speed on a logarithmic axis, and beside it the predicted slope (dashed), laid on its second half."""
    x = np.asarray(steps)
    shown = speed > floor * speed.max()
    axes.semilogy(x[shown], speed[shown], **style)  # pyright: ignore[reportArgumentType]
    tail = np.flatnonzero(shown)[shown.sum() // 3 :]
    end = tail[len(tail) // 2 :]
    level = np.mean(np.log(speed[end]) - rate * x[end])
    axes.semilogy(x[tail], np.exp(level + rate * x[tail]), **THEORY)
