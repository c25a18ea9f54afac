"""Figures of the quasi-symmetric factorization: two layers that reach the same orbit, and the effect of noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.theory.edge.product_orbit import orbit_contraction

LAYERS = {"Y": PALETTE[0], "Z": PALETTE[1]}


def two_last(curve: xr.DataArray) -> np.ndarray:
    """The last two iterates of every case, the smaller first."""
    return np.sort(curve.values[:, -2:], axis=-1)


def draw_runs(measured: xr.Dataset, predicted: xr.Dataset, alphas: Sequence[float], K: float) -> Figure:
    """A row for each α, with its first draw: the loss, the two layers until the rate is lowered, their imbalance."""
    figure, grid = panels(3, len(alphas), size=(4.6, 3.0), squeeze=False)
    for row, alpha in enumerate(alphas):
        at = int(np.argmax((measured.kind.values == "quasi") & (measured.alpha.values == alpha)))
        run, theory = measured.isel(case=at), predicted.isel(case=at)
        loss, layers, imbalance = grid[row]
        shown = run.error[:257]
        loss.semilogy(shown.step, shown, "o", color=PALETTE[3], markersize=2.5, markeredgewidth=0)
        _levels(loss, theory.error.values, "(r² - σ₁²)²/2 on the orbit")
        loss.set(xlabel="step", ylabel="loss", title=f"α = {alpha:g}: the loss")
        _layers(layers, run, theory)
        layers.set(xlabel="step", ylabel="size along u", title=f"The two layers, K = {K:g}; then a lower rate")
        gap = (np.abs(run.lead_Y - run.lead_Z) / run.sigma)[:257].values
        imbalance.semilogy(gap, "o", color=PALETTE[0], markersize=2.5, markeredgewidth=0)
        late = np.arange(120, min(257, len(gap)))
        if late.size:
            rate = np.clip(float(orbit_contraction(K)), 0, None) ** ((late - 200) / 2)
            imbalance.plot(late, np.median(gap[late] / rate) * rate, **THEORY, label="3 - 2K for two steps")
        imbalance.set(xlabel="step", ylabel="||uᵀY| - |uᵀZ|| / σ₁", title="Their imbalance")
    grid[0, 0].legend(loc="lower right")
    grid[-1, 1].legend(loc="upper right", ncols=2)
    grid[0, 2].legend(loc="lower left")
    return figure


def draw_noise(deviation: xr.DataArray) -> Figure:
    """The dependence of the limit on the noise at the start."""
    figure, axes = panels(1, size=(4.8, 3.6))
    noise, far = deviation.noise.values, deviation.values
    axes.loglog(noise, far, "o", color=PALETTE[0], label="median of three draws")
    axes.loglog(noise, far[0] * noise / noise[0], **THEORY, label="proportional to ε")
    axes.set(xlabel="noise at the start, ε", ylabel="deviation of the factors", title="The limit, up to O(ε)")
    axes.legend(loc="upper left")
    return figure


def _layers(axes: Axes, run: xr.Dataset, theory: xr.Dataset, until: int = 160) -> None:
    for layer, color in LAYERS.items():
        style = {"color": color, "marker": "o", "markersize": 2, "linewidth": 0.6}
        axes.plot(run[f"lead_{layer}"].values[: until + 1], label=f"|uᵀ{layer}|", **style)
        after = run[f"lowered_lead_{layer}"].values[:21]
        axes.plot(until + 15 + np.arange(len(after)), after, **style)
    axes.axvspan(until + 2, until + 13, color=FAINT, alpha=0.25, linewidth=0)
    axes.plot([until + 15, until + 36], [float(run.sigma)] * 2, **THEORY, label="σ₁ρ₁, σ₁ρ₂; then σ₁")
    for level in theory.lead.values:
        axes.plot([0, until], [level, level], **THEORY)


def _levels(axes: Axes, levels: Iterable[float], label: str) -> None:
    for index, level in enumerate(levels):
        axes.axhline(level, **THEORY, label="" if index else label)
