"""Transient memorization, a test loss that falls, rises and falls again: its measurement, claims and drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

import dynascope as ds
from dynascope.curves import stages
from dynascope.experiments.concept.sim_experiment import Signals, SimExperiment
from dynascope.figures import INK, THEORY, concept_plane, settings_colors
from dynascope.lab.claims import Claim, wilson_interval
from dynascope.lab.criteria import below, every

MEMORIZING, DIRECT, SECOND = "#d1495b", "#9aa4b2", "#00798c"
Numbers = Sequence[Any] | np.ndarray | xr.DataArray


class Turn(NamedTuple):
    """A loss's first minimum and the maximum after it, over the loss at the start; nan if it only falls."""

    minimum: float
    minimum_at: float
    maximum: float
    maximum_at: float


class ReferenceShare(NamedTuple):
    """A share of starts that an independent program measured, and the number of those starts."""

    share: float
    of: int


def memorizes(loss: np.ndarray) -> np.ndarray:
    """Whether each curve (last axis: steps) falls, rises and falls again: two descents or more."""
    return np.asarray(stages.descents(loss) >= 2)


def first_turn(loss: np.ndarray, steps: np.ndarray) -> Turn:
    """The steps at which one curve turns for the first time, and turns back."""
    points = stages.turning_points(loss)
    bottom = next((k for k, point in enumerate(points) if point.kind == "minimum"), len(points))
    if bottom + 1 >= len(points):
        return Turn(*[float("nan")] * 4)
    low, high = points[bottom : bottom + 2]
    return Turn(low.value / loss[0], steps[low.at], high.value / loss[0], steps[high.at])


def deepest_rise(loss: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The levels, over the start, between which each of the curves (seed, step) rises most."""
    high = stages.memorization_peak(loss)
    rows, low = np.arange(len(loss)), before_peak(loss, high)
    return loss[rows, low] / loss[:, 0], loss[rows, high] / loss[:, 0]


def before_peak(loss: np.ndarray, peak: np.ndarray) -> np.ndarray:
    """The step at which each curve (seed, step) is lowest before its peak (-1: no peak, lowest at its end)."""
    return np.array([np.argmin(curve[: at + 1 or None]) for curve, at in zip(loss, peak, strict=True)], int)


def numpy_starts(seeds: Sequence[int], dim: int, depth: int, width: int, precision: str) -> tuple[np.ndarray, ...]:
    """Framework-default uniform weights from `numpy.random.default_rng(seed)`, input side first: (start, out, in)."""
    sizes = [dim, *[width] * (depth - 1), dim]
    draws = [np.random.default_rng(seed) for seed in seeds]
    return tuple(
        np.stack([rng.uniform(-(into**-0.5), into**-0.5, (out, into)) for rng in draws]).astype(precision)
        for into, out in pairwise(sizes)
    )


def from_starts(experiment: SimExperiment, signals: Signals, seeds: Sequence[int], **changes: Any) -> xr.Dataset:
    """Population gradient descent from NumPy's starts: `test_loss`, `output` over (signal, start, step)."""
    changes = {"samples": None, "rotate": False, "origin": False, "seeds": 1, **changes}
    set_up = experiment.model_copy(update=changes)
    starts = numpy_starts(seeds, set_up.dim, set_up.depth, set_up.width or set_up.dim, set_up.precision)
    trace = experiment.train(signals, 0, over={"weights": starts}, **{"record": 1, **changes})
    paths = trace[["test_loss", "output"]].isel(seed=0, drop=True)
    return paths.rename(weights="start").assign_coords(start=list(seeds)).transpose("signal", "start", "step", ...)


def nearly_flow(
    experiment: SimExperiment, signals: Signals, seeds: Sequence[int], finer: int = 20, **changes: Any
) -> xr.Dataset:
    """The same in float64, with steps so small that they follow the gradient flow; `step` counts the original steps."""
    steps, exact = experiment.steps(2), experiment.model_copy(update={"precision": "float64"})
    changes |= {"learning_rate": experiment.learning_rate / finer, "steps": finer * steps}
    with jax.enable_x64(True):
        trace = from_starts(exact, signals, seeds, record=finer * ds.log_steps(steps, 300), **changes)
    return trace.assign_coords(step=trace.step / finer)


def off_by(values: Numbers, reference: Numbers, digits: Numbers | int, relative: float = 0.01) -> np.ndarray:
    """The distance from a reference that was rounded to `digits` decimals, in units of `relative` of it and half of its
    last digit: below 1 if they agree."""
    want = np.asarray(reference, float)
    return np.abs(np.asarray(values, float) - want) / (
        relative * np.abs(want) + 0.5 * 10.0 ** -np.asarray(digits, float)
    )


def count_descents(loss: xr.DataArray) -> xr.DataArray:
    """The descents of every curve."""
    return xr.apply_ufunc(stages.descents, loss, input_core_dims=[["step"]])


def first_turns(trace: xr.Dataset) -> xr.DataArray:
    """The first `Turn` of every test loss, its four numbers along `reading`."""
    found = xr.apply_ufunc(
        lambda loss, steps: np.array(first_turn(loss, steps)),
        trace.test_loss,
        trace.step,
        input_core_dims=[["step"], ["step"]],
        output_core_dims=[["reading"]],
        vectorize=True,
    )
    return found.assign_coords(reading=list(Turn._fields))


def judge_turns(turns: Mapping[Any, Numbers], reference: Mapping[Any, Turn]) -> Claim:
    """The claim that the loss from the chosen starts turns at the values of an independent program."""
    statement = "From NumPy starts chosen for a deep transient the loss turns where an independent program's does: "
    statement += "(minimum, step, maximum, step), differences over 1 % and rounding"
    off = [off_by(turns[case], turn, (3, 0, 3, 0)) for case, turn in reference.items()]
    shown = {str(case): {"here": turns[case], "there": list(turn)} for case, turn in reference.items()}
    return below("chosen-turns", statement, off, 1, shown=shown, seeds=len(off))


def judge_flow(descents: xr.DataArray) -> Claim:
    """The claim that the step size is not the cause, from the descents of `nearly_flow`."""
    statement = "It is no artifact of the step size: gradient flow from the chosen starts has two descents too"
    return every("flow", statement, descents == 2, seeds=descents.sizes["start"])


def draw_losses(axes: Axes, trace: xr.Dataset, setting: str, limit: int = 25) -> None:
    """Test losses of the first seeds over their starts: those that memorize on the way in color, the rest in gray."""
    loss = trace.test_loss.transpose("seed", "step").values
    turns = memorizes(loss)
    relative, shown = loss[:limit] / loss[:limit, :1], turns[:limit]
    for kind, color, label in ((False, DIRECT, "one descent"), (True, MEMORIZING, "two descents or more")):
        for k, curve in enumerate(relative[shown == kind]):
            axes.plot(trace.step, curve, color=color, linewidth=1.0, alpha=0.6, label=None if k else label)
    loss_axes(axes)
    axes.set_title(f"{setting}: {turns.sum()} of {len(turns)} seeds turn back")


def loss_axes(axes: Axes) -> None:
    """Steps on a logarithmic axis that shows the start too."""
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set(xlabel="step", ylabel="test loss / its start", xlim=(0, None), ylim=(0, None))


def draw_shares(axes: Axes, x: Sequence[int] | Sequence[float], found: Numbers, color: str, label: str) -> None:
    """The share of starts in each row of outcomes, with its Wilson interval."""
    share = np.array([outcome.mean() for outcome in found])
    low, high = np.array([wilson_interval(int(outcome.sum()), outcome.size) for outcome in found]).T
    bars = np.clip([share - low, high - share], 0, None)
    axes.errorbar(x, share, bars, color=color, marker="o", markersize=4, capsize=2.5, linewidth=1.3, label=label)


def draw_reference(axes: Axes, x: Sequence[int], shares: Sequence[float]) -> None:
    """The shares of an independent program, as crosses."""
    known = "independent program" in axes.get_legend_handles_labels()[1]
    label = None if known else "independent program"
    axes.plot(x, shares, "x", color=MEMORIZING, markersize=6.5, zorder=5, label=label)


def draw_detour(axes: Axes, path: np.ndarray, loss: np.ndarray, color: Any, label: str | None = None) -> None:
    """A path (step, concept) through the concept plane, with marks at the loss's first minimum and at its maximum."""
    axes.plot(*path.T, color=color, label=label)  # pyright: ignore[reportArgumentType]
    axes.plot(*path[0], "s", color=color, markersize=4)
    for point in stages.turning_points(loss)[:2]:
        marker = "v" if point.kind == "minimum" else "^"
        axes.plot(*path[point.at], marker, color=color, markersize=7, markeredgecolor=INK)


def draw_chosen(plane: Axes, losses: Axes, chosen: xr.Dataset, flow: xr.Dataset, mu: Sequence[float]) -> None:
    """Paths and test losses of the chosen starts for one signal; dashed, the losses of the gradient flow."""
    for k, color in enumerate(settings_colors(chosen.sizes["start"])):
        run = chosen.isel(start=k)
        draw_detour(plane, run.output.transpose("step", "concept").values, run.test_loss.values, color)
        losses.plot(run.step, run.test_loss / run.test_loss[0], color=color, label=f"start {int(run.start)}")
    for k, curve in enumerate(flow.test_loss.transpose("start", "step")):
        losses.plot(flow.step, curve / curve[0], **THEORY, label=None if k else "gradient flow")
    concept_plane(plane, mu)
    plane.legend(loc="lower left")
    loss_axes(losses)
    losses.legend(loc="upper right")
