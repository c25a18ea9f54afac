"""Figures 11 and 12: two layers, linear or with ReLU, learn concepts in the same order, less regularly."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.curves import stages
from dynascope.experiments.concept import learning_order
from dynascope.experiments.concept.sim_experiment import PUBLISHED, SimExperiment
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import INK, legend_beside, panels
from dynascope.lab.criteria import About, above, below, every, falling, share, within
from dynascope.lab.experiment import Claims, Figures, Source, Values

NETWORKS = {"linear": "#00798c", "relu": "#d1495b"}
"""The networks of two layers, and their colors."""
ALL = ["one layer", *NETWORKS]
ONLY_RELU = """Of two linear layers and one layer either can travel farther: it depends on the start. The claim was
first made of both networks of two layers."""


class TwoLayerOrder(SimExperiment):
    """Do two-layer networks, linear and ReLU, also learn the stronger concept first?"""

    id = "concept.two-layer-order"
    source = Source(CONCEPTS, "Figures 11 and 12")
    cost = {"quick": 16, "full": 110}
    presets = {
        "quick": {"seeds": 2, "first_signals": (0.5, 1.0, 3.0), "first_spreads": (0.5, 2.0)},
        "code": PUBLISHED
        | {"first_signals": (1.0, 2.0, 3.0), "first_spreads": (0.3162, 0.7071, 1.0, 1.4142), "second_spread": 0.2236},
    }
    control = {"init_scale": 0.3}
    notes = """Figure 11 is the linear network, Figure 12 the one with ReLU (the text of Appendix F.2 has them the other
    way round, the captions do not). Which concept of two layers is first depends on the start too, so settings whose
    strengths are a factor 1.1 to 1.5 apart are judged separately. The control starts from weights so large that the
    start, not the data, sets the order. Preset `code` is what the authors' published program runs: a third cluster at
    the origin, σ₁ in {.1, .5, 1, 2} and σ₂ = .05 read as variances, biases, one shuffle for all epochs, a test
    cluster."""

    defaults = {"depth": 2}

    first_signals: Values = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    """μ₁ of the settings with σ = (σ₂, σ₂)."""
    first_spreads: Values = (0.5, 1.0, 1.5, 2.0)
    """σ₁ of the settings with μ = (1, μ₂)."""
    second_signal: float = 2.0
    second_spread: float = 0.05

    def signals(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """(μ, σ) of every setting: first those that vary the signal, then those that vary the diversity."""
        even = (self.second_spread, self.second_spread)
        by_signal = [((first, self.second_signal), even) for first in self.first_signals]
        by_diversity = [((1.0, self.second_signal), (first, self.second_spread)) for first in self.first_spreads]
        return by_signal + by_diversity

    def measure(self, seed: int) -> xr.Dataset:
        signals = self.signals()
        runs = [self.train(signals, seed, depth=1), *(self.train(signals, seed, activation=name) for name in NETWORKS)]
        traces = [run[["output", "test_loss"]] for run in runs]
        return xr.concat(traces, xr.Variable("network", ALL)).assign({name: runs[0][name] for name in ("mu", "sigma")})

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        runs = measured.transpose("network", "signal", "seed", "step", ...)
        each, (_, speed) = ("network", "signal", "seed"), learning_order.speeds(runs)
        late = speed[..., -(speed.shape[-1] // 10) :].mean(axis=-1) / speed.max(axis=-1)
        end = learning_order.rate_between(runs, 0.01, speed_share=learning_order.SINGLE_SPEEDS)
        return xr.Dataset(
            {
                "strength": (("signal", "concept"), self.strengths(self.signals())),
                "bulge": learning_order.bulge(runs),
                "descents": (each, stages.descents(runs.test_loss)),
                "excess_travel": excess_travel(runs),
                "left": runs.test_loss.isel(step=-1, drop=True) / runs.test_loss.isel(step=0, drop=True),
                "late_speed": (each, late),
                "r_squared": (each, end.r_squared),
                "mu": runs.mu,
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        two, a = reduced.sel(network=list(NETWORKS)), reduced.strength
        ratio, weak = a.max("concept") / a.min("concept"), np.isclose(reduced.mu.isel(concept=0), 0.5)
        right = np.sign(two.bulge) == np.sign(a.diff("concept").isel(concept=0, drop=True))
        judged = ~((two.network == "relu") & xr.DataArray(weak, dims="signal"))
        statement = "The sign of the area is that of a₂ - a₁ (strengths a factor 1.5 apart; without ReLU at μ₁ = 0.5)"
        yield share("strength-first", statement, right.where(judged & (ratio >= 1.5)), 0.95)
        near = (ratio < 1.5) & (ratio > 1.1)
        if near.any():
            statement = "With strengths a factor 1.1 to 1.5 apart the sign is right in most runs"
            yield share("near-ties", statement, right.where(near), 0.5)
        if weak.any():
            area = two.bulge.isel(signal=weak).median(("signal", "seed"))
            statement = "With ReLU and μ₁ = 0.5 the area shrinks below that of the linear network (medians)"
            yield falling("relu-weak-signal", statement, area, along="network", source="Figure 12")
        statement = "The test loss falls once, in every run of both networks"
        yield every("one-descent", statement, two.descents == 1)
        statement = "With ReLU paths are less regular: travel beyond the way from start to end, over that of the others"
        travel = reduced.excess_travel.median(("signal", "seed"))
        ratio = travel.sel(network="relu") / travel.sel(network=["one layer", "linear"])
        yield above("less-regular", statement, ratio, 1, post_hoc=ONLY_RELU)
        statement = "In most runs paths of both networks of two layers are less regular than those of one layer"
        farther = two.excess_travel > reduced.excess_travel.sel(network="one layer", drop=True)
        about = About(post_hoc="The share was chosen after seeing results.", printed="more non-regular curves")
        yield share("both-less-regular", statement, farther, 0.75, **about)
        left, linear = two.left.sel(network="relu"), two.left.sel(network="linear").median()
        statement = "ReLU is left with 0.2 to 4 % of the initial loss, within a factor of 2"
        yield within("relu-keeps", statement, left, 0.001, 0.08, source="Figure 12", shown={"linear, median": linear})
        statement = "The slow-down is kept: the speed in the last tenth of a run, over its largest"
        yield below("slow-down", statement, two.late_speed, 0.05)
        if not self.bias:
            linear = two.sel(network="linear")
            statement = "The linear network's log speed ends straight: R², in runs that end below 0.1 % of the loss"
            straight = linear.r_squared.values[linear.left.values < 1e-3]
            yield above("straight", statement, straight, 0.98)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        count = len(self.first_signals)
        planes, grid = panels(2, rows=2, size=(5.2, 3.5))
        scatter, axes = panels(1, size=(5.6, 3.6))
        gap = np.diff(reduced.strength)
        for row, (name, color) in zip(grid, NETWORKS.items(), strict=True):
            trace, area = measured.sel(network=name), reduced.bulge.sel(network=name).values
            network = "Linear" if name == "linear" else "ReLU"
            learning_order.draw_plane(row[0], trace.isel(signal=slice(count, None)), None, "sigma")
            row[0].set_title(f"{network}, diversity varied")
            learning_order.draw_plane(row[1], trace.isel(signal=slice(0, count)), None, "mu")
            row[1].set_title(f"{network}, signal varied")
            style = {"color": color, "alpha": 0.5, "markersize": 4.5, "label": name}
            axes.plot(np.repeat(gap, area.shape[1]), area.ravel(), "o", **style)
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set(xlabel="a₂ − a₁", ylabel="signed area (> 0: concept 2 first)", title="The stronger concept is first")
        legend_beside(axes)
        return {"two-layer-order": planes, "sign-of-area": scatter}


def excess_travel(trace: xr.Dataset) -> xr.DataArray:
    """Total variation of the normalized outputs beyond their net change, summed over concepts."""
    z = learning_order.normalized(trace)
    return (abs(z.diff("step")).sum("step") - abs(z.isel(step=-1) - z.isel(step=0))).sum("concept")
