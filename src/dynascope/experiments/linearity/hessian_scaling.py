"""Section 2.3: the Hessian norm of a network's output against its width, for a dozen graphs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args

import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import scaling_exponent
from dynascope.dynamics.ensemble import member_seeds
from dynascope.dynamics.monitor import current_monitor
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.linearity.growing_networks import CASES, FIXED_SIZE, measure_case
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels, settings_colors
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import above, agrees, below, slope, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source

FALLS, FLAT = {"low": -0.6, "high": -0.3}, -0.2
"""Slopes of networks that become linear, and the least of those that do not."""
BANDS = "Both bands of slopes, after other runs, at widths 32 to 1024."
Network = Literal[
    "fcn3-tanh",
    "fcn2-relu",
    "fcn2-tanh",
    "fcn4-tanh",
    "fcn3-relu",
    "uneven",
    "thin-neurons",
    "densenet",
    "skips",
    "convolution",
    "single-neuron-layer",
    "bottleneck-layer",
    "nonlinear-output",
]


class HessianScaling(Experiment):
    """Does the Hessian of a network's output fall as one over the square root of its width, for any graph?"""

    id = "linearity.hessian-scaling"
    source = Source(OVER_PARAMETERIZED, "Section 2.3, Figure 2.3, Remarks")
    cost = {"quick": 13, "full": 600, "H200": 280}
    presets = {
        "quick": {
            "widths": (32, 64, 128, 256),
            "networks": ("fcn3-tanh", "fcn2-relu", "thin-neurons", "single-neuron-layer", "nonlinear-output"),
        }
    }
    control = {"networks": ("nonlinear-output",)}
    notes = """Spectral norm of the Hessian over all weights, at the start, at one input with |x|² = d; slope of its
    logarithm (median over seeds) in that of m. Theorem 2.3.6 is an upper bound with logarithms and speaks of the
    smallest in-degree past the first layer; m is the size of the hidden layers. ReLU violates the theorem's assumption;
    its second derivative is taken as 0. An output tanh(f + 1) is taken rather than tanh(f), since tanh''(0) = 0.
    Smaller widths are the widest network with fewer edges, so that one program serves all; weights are drawn anew for
    each width. The gap |f - f_lin| is the largest seen at a distance `radius`: along top eigenvectors of the Hessian,
    the gradient, and 16 random directions. In the control the only network has a nonlinear output."""

    networks: Annotated[tuple[Network, ...], Field(min_length=1)] = tuple(get_args(Network))
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

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
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

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        names = ("gap_norm", "gap_value", "gap_random", "gap_gradient", "gap_hessian", "in_degree")
        return measured[list(names)].assign(expected_norm=predicted.gap_norm)

    def judge(self, reduced: xr.Dataset) -> Claims:
        first, *others = self.networks
        yield self._slope(reduced, first, "norm-falls", linear=True)
        for name in others:
            yield self._slope(reduced, name, name, linear=CASES[name].linear)
        if "fcn2-relu" in self.networks:
            one = reduced.sel(network="fcn2-relu").dropna("width", how="all")
            statement = "Two layers of ReLU: |H| = |x| / √(m d) at every width and seed"
            yield agrees("exact-norm", statement, one.gap_norm, one.expected_norm, relative=1e-4, source="Appendix B.1")
        medians = reduced.median("seed")
        if {"fcn3-tanh", "thin-neurons"} <= set(self.networks):
            ratio = medians.gap_norm.sel(network="thin-neurons") / medians.gap_norm.sel(network="fcn3-tanh")
            statement = "Two neurons of in-degree 1 hardly change the norm: ratio to the network without, by width"
            yield within("thin-neurons-harmless", statement, ratio.dropna("width"), 2 / 3, 1.5, source="Figure 2.3")
        one, title = medians.sel(network=first).dropna("width", how="all"), CASES[first].title
        about: dict[str, Any] = {"source": "Corollary 2.3.7"}
        statement = f"{title}: |f - f_lin| over 16 random directions is far less than along the top eigenvectors "
        statement += "(ratio)"
        yield below("random-directions-understate", statement, one.gap_random / one.gap_hessian, 0.5, **about)
        statement = f"{title}: along the top eigenvectors |f - f_lin| is |H| R²/2, up to third derivatives"
        expected = one.gap_norm * self.radius**2 / 2
        yield agrees("gap-by-norm", statement, one.gap_hessian, expected, relative=0.15, **about)
        statement = f"{title}: the largest |f - f_lin| seen at distance {self.radius:g} falls with the slope of the "
        statement += "Hessian"
        yield slope("gap-falls", statement, one.gap_value, "width", **FALLS, post_hoc=BANDS, **about)

    def _slope(self, reduced: xr.Dataset, name: str, id: str, *, linear: bool) -> Claim:
        one = reduced.sel(network=name).dropna("width", how="all")
        norm, statement = one.gap_norm.median("seed"), f"{CASES[name].title}: the Hessian norm "
        about: dict[str, Any] = {"post_hoc": BANDS, "shown": {"norm": norm}}
        if name == "densenet":  # its in-degrees contain the inputs
            degrees = one.in_degree.median("seed").values
            about["shown"]["slope in the smallest in-degree"] = scaling_exponent(degrees, norm.values)
        if linear:
            return slope(id, statement + "falls as m^(-1/2)", norm, "width", source="Theorem 2.3.6", **FALLS, **about)
        value = scaling_exponent(one.width.values, norm.values)
        return above(id, statement + "does not fall with m: its slope", value, FLAT, source="Section 2.3", **about)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (left, right) = panels(2, size=(5.6, 4.2))
        falling = [name for name in self.networks if CASES[name].linear]
        colors = dict(zip(falling, settings_colors(len(falling)), strict=True))
        standing = (PALETTE[0], PALETTE[2], PALETTE[3])
        colors |= dict(zip([name for name in self.networks if name not in falling], standing, strict=False))
        for name in self.networks:
            one = reduced.sel(network=name).dropna("width", how="all")
            style = {"color": colors[name], "marker": "o", "markersize": 4, "linewidth": 1.4}
            style |= {} if CASES[name].linear else {"linestyle": ":", "marker": "s"}
            value = scaling_exponent(one.width.values, one.gap_norm.median("seed").values)
            left.loglog(one.width, one.gap_norm.median("seed"), label=f"{CASES[name].title} ({value:.2f})", **style)
            each = one.gap_norm.transpose("width", "seed")
            left.loglog(one.width, each, ".", color=colors[name], markersize=2.5, alpha=0.5)
        width = reduced.width.values
        top = float(reduced.gap_norm.median("seed").isel(width=0).max())
        left.loglog(width, 0.8 * top * np.sqrt(width[0] / width), label="slope -1/2", **THEORY)
        left.set(xlabel="width m", ylabel="‖H‖ of the output, at the start", title="Hessian norm (slope)")
        left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)
        first = self.networks[0]
        one = reduced.sel(network=first).dropna("width", how="all")
        for name, label, color in (
            ("gap_hessian", "along top eigenvectors", INK),
            ("gap_gradient", "along the gradient", PALETTE[1]),
            ("gap_random", "random directions", FAINT),
        ):
            right.loglog(one.width, one[name].median("seed"), "o-", color=color, markersize=4, label=label)
        half = one.gap_norm.median("seed") * self.radius**2 / 2
        right.loglog(one.width, half, label="‖H‖ R² / 2 at the start", **THEORY)
        right.set(
            xlabel="width m", ylabel="|f - f_lin|", title=f"Gap at distance {self.radius:g}: {CASES[first].title}"
        )
        right.legend(fontsize=8)
        for axes in (left, right):
            axes.set_xticks(width, [str(m) for m in width])
            axes.minorticks_off()
        return {"hessian-scaling": figure}
