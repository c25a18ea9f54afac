"""Section 2.3: the Hessian norm of a network's output against its width, for a dozen graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, cast

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import scaling_exponent
from dynascope.dynamics.monitor import current_monitor
from dynascope.experiments.linearity.growing_networks import CASES, FIXED_SIZE, measure_case
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.claims import Claim, claim
from dynascope.lab.experiment import Experiment, Source

FALLS, FLAT = (-0.6, -0.3), 0.2
"""Slopes of networks that become linear, and the size of those that do not."""
Network = Literal[
    "fcn2-relu", "fcn2-tanh", "fcn3-tanh", "fcn4-tanh", "fcn3-relu", "uneven", "thin-neurons", "densenet", "skips",
    "convolution", "single-neuron-layer", "bottleneck-layer", "nonlinear-output",
]  # fmt: skip


class HessianScaling(Experiment):
    """Does the Hessian of a network's output fall as one over the square root of its width, for any graph?"""

    id = "linearity.hessian-scaling"
    source = Source(
        "Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Section 2.3, Figure 2.3, Remarks"
    )
    cost = {"quick": 13, "full": 600}
    presets = {
        "quick": {
            "widths": (32, 64, 128, 256),
            "networks": (
                "fcn3-tanh",
                "fcn2-relu",
                "thin-neurons",
                "single-neuron-layer",
                "nonlinear-output",
            ),
        }
    }
    control = {"networks": ("nonlinear-output",)}
    notes = """Spectral norm of the Hessian over all weights, at the start, at one input with |x|² = d; slope of its
    logarithm (median over seeds) in that of m. Theorem 2.3.6 is an upper bound with logarithms and speaks of the
    smallest in-degree past the first layer; m is the size of the hidden layers. Bands, -0.6 to -0.3 and ±0.2, were set
    after other runs, at widths 32 to 1024. ReLU violates the theorem's assumption; its second derivative is taken as 0.
    An output tanh(f + 1) is taken rather than tanh(f), since tanh''(0) = 0. Smaller widths are the widest network with
    fewer edges, so that one program serves all; weights are drawn anew for each width. The gap |f - f_lin| is the
    largest seen at a distance `radius`: along top eigenvectors of the Hessian, the gradient, and 16 random directions.
    In the control the only network has a nonlinear output."""

    networks: Annotated[tuple[Network, ...], Field(min_length=1)] = (
        "fcn3-tanh", "fcn2-relu", "fcn2-tanh", "fcn4-tanh", "fcn3-relu", "uneven", "thin-neurons", "densenet", "skips",
        "convolution", "single-neuron-layer", "bottleneck-layer", "nonlinear-output",
    )  # fmt: skip
    """The first is the one of the main claim."""
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = (32, 64, 128, 256, 512, 1024)
    dim: PositiveInt = 10
    removed: float = Field(0.5, ge=0, le=1)
    """The probability with which an edge of the DenseNet is removed."""
    radius: float = Field(1.0, gt=0)
    """The distance from the start at which linearity is tested."""
    seeds: PositiveInt = 8

    def measure(self, seed: int) -> xr.Dataset:
        seeds = member_seeds(seed, self.seeds)
        number = np.dtype(self.precision).type
        how = {"radius": jnp.asarray(number(self.radius)), "removed": jnp.asarray(number(self.removed))}
        found, monitor = [], current_monitor()
        for done, name in enumerate(self.networks):
            monitor.progress(float(done), float(len(self.networks)), "networks")
            case, widths, arrays = CASES[name], self._widths(name), monitor.restore(name)
            if arrays is None:
                groups = [(width,) for width in widths] if case.family.kind in FIXED_SIZE else [widths]
                parts = [measure_case(case, group, self.dim, seeds, **how) for group in groups]
                arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
                monitor.keep(name, arrays)
            joined = {key: (("width", "seed"), values) for key, values in arrays.items()}
            found.append(xr.Dataset(joined, {"width": np.asarray(widths), "seed": seeds}))
        keys = xr.DataArray(list(self.networks), dims="network", name="network")
        return cast(xr.Dataset, xr.concat(found, keys, join="outer"))

    def _widths(self, name: str) -> tuple[int, ...]:
        """Layers of m^1.5 neurons are as wide as the widest others at a smaller m."""
        if name != "uneven":
            return self.widths
        return tuple(sorted({max(2, round(width ** (2 / 3.0))) for width in self.widths}))

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        """The exact norm of two layers of ReLU; m^(-1/2) from the narrowest network on for the others."""
        norm = measured.gap_norm.median("seed")
        exact = [
            float(ds.theory.linearity.bounds.two_layer_relu_norm(jnp.ones(self.dim), int(m))) for m in measured.width
        ]
        lines = []
        for name in self.networks:
            one = norm.sel(network=name)
            there = one.dropna("width")
            line = float(there[0]) * np.sqrt(float(there.width[0]) / measured.width.values)
            lines.append(np.where(np.isfinite(one.values), exact if name == "fcn2-relu" else line, np.nan))
        return xr.Dataset({"gap_norm": (("network", "width"), np.array(lines))}, norm.coords)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        assert predicted is not None
        first, *others = self.networks
        yield self._slope_claim(measured, first, "norm-falls", linear=True)
        for name in others:
            yield self._slope_claim(measured, name, name, linear=CASES[name].linear)
        if "fcn2-relu" in self.networks:
            norms = measured.gap_norm.sel(network="fcn2-relu")
            off = float(np.abs(norms / predicted.gap_norm.sel(network="fcn2-relu") - 1).max())
            yield claim(
                "exact-norm", "Two layers of ReLU: |H| = |x| / √(m d) at every width and seed, to 1e-4",
                source="Appendix B.1", measured={"largest relative difference": off}, expected="≤ 1e-4",
                holds=off <= 1e-4, seeds=self.seeds,
            )  # fmt: skip
        if {"fcn3-tanh", "thin-neurons"} <= set(self.networks):
            medians = measured.gap_norm.median("seed").sel(network=["thin-neurons", "fcn3-tanh"]).values
            ratio = medians[0] / medians[1]
            yield claim(
                "thin-neurons-harmless", "Two neurons of in-degree 1 change the norm by a half at most, at each width",
                source="Figure 2.3", measured={"ratio to the network without": ratio}, expected="0.67 to 1.5",
                holds=np.all((ratio > 2 / 3) & (ratio < 1.5)), seeds=self.seeds,
            )  # fmt: skip
        one = measured.sel(network=first).dropna("width", how="all")
        along, random = one.gap_hessian.median("seed"), one.gap_random.median("seed")
        share = (random / along).values
        yield claim(
            "random-directions-understate", f"{CASES[first].title}: the largest |f - f_lin| over 16 random directions "
            "is less than half that along the top eigenvectors, at every width", source="Corollary 2.3.7",
            measured={"random / eigenvectors": share}, expected="< 0.5", holds=np.all(share < 0.5), seeds=self.seeds,
        )  # fmt: skip
        bound = (along / (one.gap_norm.median("seed") * self.radius**2 / 2)).values
        steepness = scaling_exponent(one.width.values, one.gap_value.median("seed").values)
        yield claim(
            "gap-falls", f"{CASES[first].title}: the largest |f - f_lin| seen at distance {self.radius:g} falls with "
            "the slope of the Hessian", source="Corollary 2.3.7",
            measured={"slope": steepness, "gap along the top eigenvectors / (|H| R²/2)": bound},
            expected=f"slope in {list(FALLS)}", holds=FALLS[0] <= steepness <= FALLS[1], seeds=self.seeds,
            diagnosis="" if FALLS[0] <= steepness <= FALLS[1] else f"The slope is {steepness:.2f}: at this distance "
            "the third derivative has its part in the gap, or the Hessian does not fall.",
        )  # fmt: skip

    def _slope_claim(self, measured: xr.Dataset, name: str, id: str, *, linear: bool) -> Claim:
        one = measured.sel(network=name).dropna("width", how="all")
        width, medians = one.width.values, one.gap_norm.median("seed").values
        value, each = scaling_exponent(width, medians), scaling_exponent(width, one.gap_norm.transpose("width", "seed"))
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        holds = FALLS[0] <= value <= FALLS[1] if linear else abs(value) < FLAT
        diagnosis = f"Slope {value:.2f} over widths {width[0]} to {width[-1]}"
        if name == "densenet":
            by_degree = scaling_exponent(one.in_degree.median("seed").values, medians)
            diagnosis += f"; {by_degree:.2f} in the smallest in-degree past the first layer"
        diagnosis += "."
        return claim(
            id,
            f"{CASES[name].title}: the Hessian norm " + ("falls as m^(-1/2)" if linear else "does not fall with m"),
            source="Theorem 2.3.6" if linear else "Section 2.3",
            measured={"slope": value, "mean over seeds": each.mean(), "standard error": error,
                      "norm at the smallest and largest width": medians[[0, -1]]},
            expected=f"slope in {list(FALLS)}" if linear else f"|slope| < {FLAT}",
            holds=holds, seeds=self.seeds, diagnosis="" if holds else diagnosis,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, (left, right) = panels(2, size=(5.6, 4.2))
        falling = [name for name in self.networks if CASES[name].linear]
        colors = dict(zip(falling, settings_colors(len(falling)), strict=True))
        standing = (PALETTE[0], PALETTE[2])
        colors |= dict(zip([name for name in self.networks if name not in falling], standing, strict=False))
        for name in self.networks:
            one = measured.sel(network=name).dropna("width", how="all")
            style = {"color": colors[name], "marker": "o", "markersize": 4, "linewidth": 1.4}
            style |= {} if CASES[name].linear else {"linestyle": ":", "marker": "s"}
            value = scaling_exponent(one.width.values, one.gap_norm.median("seed").values)
            left.loglog(one.width, one.gap_norm.median("seed"), label=f"{CASES[name].title} ({value:.2f})", **style)
            for k in range(one.sizes["seed"]):
                left.loglog(one.width, one.gap_norm.isel(seed=k), ".", color=colors[name], markersize=2.5, alpha=0.5)
        width = measured.width.values
        top = float(measured.gap_norm.median("seed").isel(width=0).max())
        left.loglog(width, 0.8 * top * np.sqrt(width[0] / width), label="slope -1/2", **THEORY)
        left.set(xlabel="width m", ylabel="‖H‖ of the output, at the start", title="Hessian norm (slope)")
        left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)
        first = self.networks[0]
        one = measured.sel(network=first).dropna("width", how="all")
        for name, label, color in (
            ("gap_hessian", "along top eigenvectors", INK),
            ("gap_gradient", "along the gradient", PALETTE[1]),
            ("gap_random", "random directions", FAINT),
        ):
            right.loglog(one.width, one[name].median("seed"), "o-", color=color, markersize=4, label=label)
        half = one.gap_norm.median("seed") * self.radius**2 / 2
        right.loglog(one.width, half, label="‖H‖ R² / 2 at the start", **THEORY)
        right.set(xlabel="width m", ylabel="|f - f_lin|",
                  title=f"Gap at distance {self.radius:g}: {CASES[first].title}")  # fmt: skip
        right.legend(fontsize=8)
        for axes in (left, right):
            axes.set_xticks(width, [str(m) for m in width])
            axes.minorticks_off()
        return {"hessian-scaling": figure}
