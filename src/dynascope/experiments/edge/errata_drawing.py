"""The figure of the errata: six counter-examples one can see."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.figures.forms import CONCEPT_COLOURS, FAINT, INK, THEORY, panels, settings_colors
from dynascope.theory.edge import quartic_orbit
from dynascope.theory.edge.neuron_intervals import Box, propagate


def draw_errata(measured: xr.Dataset, bend: float, box: Box) -> Figure:
    """Proposition 2 (where it fails; what descent does), the literal manifold, (3.4), (B.90), (B.100)."""
    figure, grid = panels(3, 2, size=(4.7, 3.6))
    _where_composition_fails(figure, grid[0, 0], bend)
    _descent(grid[0, 1], measured)
    _literal_manifold(grid[0, 2])
    _implicit_rate(grid[1, 0])
    _enclosure(grid[1, 1], measured, box)
    _cubes(grid[1, 2], measured)
    return figure


def _where_composition_fails(figure: Figure, axes: Axes, bend: float) -> None:
    """The margin of q(p) at 0 for p = x + b x² + c x³ and q likewise, with c such that both have margin 0.1."""
    b = np.linspace(-1, 1, 201)
    inner, outer = np.meshgrid(b, b)
    total = 0.1 + 0.1 + 36 * inner * outer
    image = axes.pcolormesh(b, b, total, cmap="RdBu", vmin=-30, vmax=30, shading="nearest", rasterized=True)
    figure.colorbar(image, ax=axes, label="margin of q(p)")
    axes.plot([-bend], [0.5], "*", color="black", markersize=12)
    for x, y, text in ((-0.5, -0.5, "holds"), (0.5, 0.5, "holds"), (0.5, -0.5, "fails"), (-0.5, 0.65, "fails")):
        axes.text(x, y, f"q(p) {text}", ha="center", va="center", fontsize=9, color=INK)
    axes.set(xlabel="bend of p, p''/2", ylabel="bend of q, q''/2", title="Prop. 2: p and q each have margin 0.1")
    axes.grid(visible=False)


def _descent(axes: Axes, measured: xr.Dataset) -> None:
    styles = ("-", "-", "-", (0, (4, 3)))
    for color, style, name in zip(settings_colors(4), styles, measured.loss.values, strict=True):
        path = measured.away.sel(loss=name)
        axes.plot(path.step, path.where(path < 1e2), color=color, linestyle=style, label=name)
    axes.set(yscale="log", ylim=(3e-4, 3e2), xlabel="step", ylabel="distance from the minimum",
             title="Descent, 0.2 % above the threshold")  # fmt: skip
    axes.legend(loc="upper left", ncols=2, fontsize=8)


def _literal_manifold(axes: Axes) -> None:
    x, edge = np.linspace(0.35, 2, 200), 1 / np.sqrt(2)
    axes.plot(x, 1 / x, color=FAINT, label="minima")
    axes.plot([0.05, edge], [0.05, edge], color=CONCEPT_COLOURS[0], linewidth=4, alpha=0.8,
              label="∇L · u = 0, λ = 1 - x² < 2/η")  # fmt: skip
    axes.annotate("", (0.5 + 0.2, 0.5 - 0.2), (0.5, 0.5), arrowprops={"arrowstyle": "->", "color": INK})
    axes.annotate(
        "", (0.5 + 0.25, 0.5 + 0.25), (0.5, 0.5), arrowprops={"arrowstyle": "->", "color": CONCEPT_COLOURS[1]}
    )
    axes.text(0.73, 0.26, "u, top eigenvector", fontsize=8)
    axes.text(0.78, 0.72, "-∇L", fontsize=8, color=CONCEPT_COLOURS[1])
    axes.plot([0.5], [0.5], "o", color=INK, markersize=5)
    axes.set(xlabel="x", ylabel="y", xlim=(0, 2), ylim=(0, 2), title="Props. 5, 6: points of M for η > 1")
    axes.legend(loc="upper right")


def _implicit_rate(axes: Axes) -> None:
    K = np.linspace(1.001, 1.9, 300)
    high = quartic_orbit.normalized_orbit(jnp.asarray(K)).high
    axes.plot(K, np.asarray(quartic_orbit.implicit_rate(1.0, high)), color=CONCEPT_COLOURS[1], label="(3.4) at d₂")
    axes.plot(K, K, **THEORY, label="closed form: all K > 1")
    axes.axvline(quartic_orbit.IMPLICIT_LIMIT, color=FAINT, linewidth=0.8)
    axes.set(xlabel="η μ", ylabel="rate given back", title="(B.17): the orbit does not end at 1.5")
    axes.legend(loc="upper left")


def _enclosure(axes: Axes, measured: xr.Dataset, box: Box) -> None:
    counts, _, _ = axes.hist(measured.height, bins=60, color=CONCEPT_COLOURS[1], alpha=0.6)
    axes.set_ylim(0, 1.3 * np.max(counts))
    printed, valid = propagate(box, "printed").height, propagate(box, "valid").height
    axes.axvline(printed, color=CONCEPT_COLOURS[0], linewidth=1.6, label=f"printed bound, {printed:.3f}")
    axes.axvline(valid, **THEORY, label=f"valid bound, {valid:.3f}")
    axes.set(xlabel="wy after a step from box I8", ylabel="random states", title="(B.90): not an enclosure", yticks=[])
    axes.legend(loc="upper left")


def _cubes(axes: Axes, measured: xr.Dataset) -> None:
    for color, k in zip(settings_colors(4), (10, 20, 27, 35), strict=True):
        axes.plot(
            measured.m, measured.cubed.isel(argument=k), color=color, label=f"x = {measured.argument[k].item():.2g}"
        )
    axes.axhline(1, **THEORY, label="printed: never above")
    axes.axvline(1, color=FAINT, linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="m", ylabel="ratio over m³", title="(B.100): only for m ≥ 1")
    axes.legend(loc="upper right")
