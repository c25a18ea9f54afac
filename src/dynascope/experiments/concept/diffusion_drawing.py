"""The figures of painted concepts: paths with error and speed, a gallery over steps, and the lead by separation."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.concept import painted_paths as paths
from dynascope.figures import FAINT, INK, PALETTE, THEORY, legend_beside, panels, settings_colors

COLUMNS = 10
"""Steps in the gallery."""


def draw_paths(measured: xr.Dataset, predicted: xr.Dataset) -> Figure:
    """(a) the plane of color and size, (b) the error of the new class, (c) the speed, as means over seeds; bands of the
    error are those of single trainings, from the smallest to the largest."""
    figure, (plane, errors, speeds) = panels(3, size=(4.0, 3.7))
    path = paths.smoothed(paths.new_path(measured).mean("seed"), 1.0)
    error = paths.error(measured.concepts.mean("seed")).isel(prompt=-1)
    single = paths.error(measured.concepts).isel(prompt=-1)
    speed = paths.speed(measured)
    colors = settings_colors(measured.sizes["separation"])
    for i, (one, color) in enumerate(zip(measured.separation.values, colors, strict=True)):
        label = f"{one:.1f}"
        x, y = path.isel(separation=i).transpose("concept", "step").values
        plane.plot(x, y, color=color, label=label)
        plane.plot(x[-1:], y[-1:], "o", color=color, markersize=4)
        if i in (0, len(colors) - 1):
            plane.plot(
                *predicted.path.sel(space="told").isel(separation=i).transpose("concept", "point").values, **THEORY
            )
            band = single.isel(separation=i)
            errors.fill_between(measured.step, band.min("seed"), band.max("seed"), color=color, alpha=0.15, linewidth=0)
        errors.plot(measured.step, error.isel(separation=i), color=color)
        moving = speed.isel(separation=i)
        speeds.plot(moving.step, moving.where(moving > 0), ".-", color=color, linewidth=0.8, markersize=3)
    handles, labels = plane.get_legend_handles_labels()
    (classes,) = plane.plot([0, 0, 1], [0, 1, 0], "o", color=FAINT, markersize=8, zorder=1)
    (asked,) = plane.plot([1], [1], "*", color=INK, markersize=13, zorder=5)
    (theory,) = plane.plot([], [], **THEORY)
    plane.set(xlabel="share of blue", ylabel="share of small", xlim=(-0.06, 1.06), ylim=(-0.06, 1.06))
    plane.set_title("a  Asked for blue and small")
    errors.set(xlabel="step", ylabel="error in concept space", xscale="log", title="b  Error of the new class")
    speeds.set(xlabel="step", ylabel="distance per step", yscale="log", title="c  Speed in concept space")
    handles, labels = [*handles, theory, classes, asked], [*labels, "theory", "trained on", "asked for"]
    speeds.legend(handles, labels, title="separation\nof colors", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def draw_gallery(measured: xr.Dataset) -> Figure:
    """Pictures that the model paints of the new class while it learns: a row for each separation, the first seed."""
    last = measured.sizes["step"] - 1
    few = np.unique(np.linspace(last // 8, last, COLUMNS).astype(int))
    rows = measured.sizes["separation"]
    figure, axes = panels(
        len(few), rows, size=(0.82, 0.85), squeeze=False, gridspec_kw={"wspace": 0.04, "hspace": 0.04}
    )
    pictures = measured.concepts_pictures.isel(seed=0, prompt=-1, picture=0)
    for i in range(rows):
        for j, at in enumerate(few):
            axis = axes[i, j]
            axis.imshow(pictures.isel(separation=i, step=at).values)
            axis.set(xticks=[], yticks=[])
            axis.grid(False)
            if i == 0:
                axis.set_title(f"{int(measured.step[at])}", fontsize=8, loc="center")
        axes[i, 0].set_ylabel(f"{float(measured.separation[i]):.1f}", rotation=0, labelpad=14, va="center")
    figure.suptitle("Asked for blue and small, never seen: steps to the right, separations of colors down", fontsize=9)
    return figure


def draw_leads(reduced: xr.Dataset) -> Figure:
    """The lead of size over color by separation, for every training and for the structured identity mapping."""
    figure, (leads, steps) = panels(2)
    at = reduced.separation.values
    leads.axhline(0, color=FAINT, linewidth=0.8)
    leads.plot(at, reduced.lead.transpose("separation", "seed").values, "o", color=PALETTE[1], markersize=4, alpha=0.5)
    leads.plot(at, reduced.lead.mean("seed"), color=PALETTE[1], label="measured, mean")
    told, seen = (reduced.predicted_lead.sel(space=space) for space in ("told", "pixels"))
    leads.plot(at, told, **THEORY, label="theory, signals of conditions")
    leads.plot(at, seen, **(THEORY | {"linestyle": ":"}), label="theory, signals of pictures")
    leads.set(xlabel="separation of colors", ylabel="lead of size over color (of theory: area)")
    leads.set_title("Which concept leads")
    leads.legend()
    for name, color in zip(reduced.concept.values, (PALETTE[0], PALETTE[2]), strict=False):
        own = reduced.learned_at.sel(concept=name)
        steps.plot(at, own.transpose("separation", "seed").values, "o", color=color, markersize=4, alpha=0.5)
        steps.plot(at, own.median("seed"), color=color, label=f"{name}, median")
    steps.set(xlabel="separation of colors", ylabel="step", yscale="log")
    steps.set_title(f"When {paths.LEARNED:.0%} of the pictures have it")
    legend_beside(steps)
    return figure
