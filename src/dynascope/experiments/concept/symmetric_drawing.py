"""Drawing a run of the symmetric model: its test loss, the entries of its Jacobian, its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure

from dynascope.curves import stages
from dynascope.dynamics.schedule import log_steps
from dynascope.figures import FAINT, INK, PALETTE, THEORY, concept_plane, legend_beside, panels
from dynascope.theory.concept.entries import entry_classes

SMALL_THEORY = {**THEORY, "linewidth": 0.9}


def minor_color(i: int, j: int) -> tuple[float, float, float]:
    """Halfway between the colors of its two concepts, lightened."""
    one, other = np.asarray(to_rgb(PALETTE[i])), np.asarray(to_rgb(PALETTE[j]))
    red, green, blue = 0.8 * (one + other) / 2 + 0.2
    return float(red), float(green), float(blue)


def curve(axes: Axes, values: np.ndarray, **style: Any) -> None:
    """A curve recorded at every step, at as many of them as a logarithmic axis can show."""
    seen = log_steps(len(values) - 1, 400)
    axes.plot(seen, values[seen], **style)


def step_axis(axes: Axes, last: int, half_steps: Sequence[float] | np.ndarray = ()) -> None:
    """Steps on a logarithmic scale, to the end or to three times the last predicted stage."""
    known = [float(step) for step in half_steps if np.isfinite(step)]
    axes.set(xscale="log", xlim=(1, min(last, 3 * max(known)) if known else last), xlabel="step")


def draw_test_loss(
    axes: Axes,
    run: xr.Dataset,
    predicted: xr.Dataset | None = None,
    *,
    training: bool = False,
    tolerance: float = 0.01,
    color: str = INK,
    label: str = "test loss",
) -> None:
    """The test loss of one run over its first value, its turning points marked; predicted stages are dashed."""
    loss = run.test_loss.values
    half_steps = predicted.half_step.values if predicted is not None else ()
    curve(axes, loss / loss[0], color=color, label=label)
    if training:
        curve(axes, run.loss.values / run.loss.values[0], color=FAINT, label="training loss")
    if predicted is not None:
        curve(axes, predicted.test_loss.values / loss[0], **SMALL_THEORY, label="theory, from\nthe start alone")
    for turn in stages.turning_points(loss, tolerance):
        axes.plot(turn.at, turn.value / loss[0], "v" if turn.kind == "maximum" else "^", color=color, markersize=5)
    mark_stages(axes, half_steps)
    axes.set(ylim=(0, None), ylabel="loss / first value")
    step_axis(axes, len(loss) - 1, half_steps)
    axes.legend(loc="lower left")


def mark_stages(axes: Axes, half_steps: Sequence[float] | np.ndarray) -> None:
    """Draw a dashed line at the step at which each major is predicted to reach 1/2."""
    for step in np.asarray(half_steps):
        if np.isfinite(step) and step > 1:
            axes.axvline(step, **SMALL_THEORY, alpha=0.55)


def draw_entries(
    axes: Axes, W: np.ndarray, concepts: int, *, predicted: xr.Dataset | None = None, legend: bool = True
) -> None:
    """Majors in their concept's color, minors thin and between the colors of their two concepts."""
    for i in reversed(range(concepts)):
        curve(axes, W[:, i, i], color=PALETTE[i], linewidth=2.2, label=f"w{_low(i)}{_low(i)}")
    for i in range(concepts):
        for j in range(i + 1, concepts):
            curve(axes, W[:, i, j], color=minor_color(i, j), linewidth=1.2, label=f"w{_low(i)}{_low(j)}")
    if predicted is not None:
        for i in range(concepts):
            for j in range(i, concepts):
                label = "theory, from\nthe start alone" if i == j == 0 else None
                curve(axes, predicted.W.values[:, i, j], **SMALL_THEORY, label=label)
    half_steps = predicted.half_step.values if predicted is not None else ()
    mark_stages(axes, half_steps)
    axes.set_ylabel("entry of the Jacobian")
    step_axis(axes, len(W) - 1, half_steps)
    if legend:
        legend_beside(axes)


def draw_plane_path(axes: Axes, W: np.ndarray, mu: Sequence[float], predicted: np.ndarray | None = None) -> None:
    """The output at the test point in the plane of two concepts; dots at equal ratios of steps."""
    path = W @ np.asarray(mu)
    seen = log_steps(len(path) - 1, 800)
    axes.plot(*path[seen].T, color=PALETTE[0], label="output at the test point")
    dots = np.unique(np.geomspace(1, len(path) - 1, 30).astype(int))
    axes.plot(*path[dots].T, "o", color=PALETTE[0], markersize=3)
    if predicted is not None:
        axes.plot(*(predicted[seen] @ np.asarray(mu)).T, **SMALL_THEORY, label="theory, from the start alone")
    concept_plane(axes, mu)


def draw_outputs(axes: Axes, W: np.ndarray, mu: Sequence[float], half_steps: Sequence[float] | np.ndarray = ()) -> None:
    """Each output at the test point over its target."""
    outputs = (W @ np.asarray(mu)) / np.asarray(mu)
    for p in reversed(range(len(mu))):
        curve(axes, outputs[:, p], color=PALETTE[p], label=f"concept {p + 1}")
    axes.axhline(1, color=FAINT, linewidth=0.8)
    mark_stages(axes, half_steps)
    axes.set_ylabel("output / target")
    step_axis(axes, len(W) - 1, half_steps)
    legend_beside(axes)


def draw_partition(dim: int, concepts: int) -> Figure:
    """Figure 4: the entries that are majors, minors (labeled by their groups) and irrelevant."""
    figure, axes = panels(1, size=(4.4, 4.2))
    classes = entry_classes(dim, concepts)
    axes.imshow(classes.labels, cmap=ListedColormap(["#eef0f3", "#d1495b", "#9ccbd1"]), vmin=0, vmax=2)
    for (i, j), kind in np.ndenumerate(classes.labels):
        groups = [str(p + 1) for p in range(concepts) if classes.groups[p, i, j]]
        text = {0: "", 1: f"{i + 1}", 2: ", ".join(groups)}[int(kind)]
        axes.text(j, i, text, ha="center", va="center", color="white" if kind == 1 else INK)
    axes.set_xticks(np.arange(dim + 1) - 0.5, [""] * (dim + 1))
    axes.set_yticks(np.arange(dim + 1) - 0.5, [""] * (dim + 1))
    axes.grid(color="white", linewidth=2)
    axes.tick_params(length=0)
    title = f"Jacobian, d = {dim}, s = {concepts}: major (red), minor with\nits groups (blue), irrelevant (gray)"
    axes.set_title(title)
    return figure


def _low(index: int) -> str:
    return "₁₂₃₄₅₆₇₈₉"[index]
