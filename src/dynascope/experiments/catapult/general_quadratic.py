"""Figure B.4: general quadratic models catapult like networks, with gamma in the place of 1/sqrt(width)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt, field_validator

import dynascope as ds
from dynascope.curves import scaling_exponent
from dynascope.experiments.catapult.classification_data import known, sample
from dynascope.experiments.catapult.two_layer_models import (
    CATAPULT,
    DIVERGENT,
    MONOTONE,
    kernel_matrix,
    network,
    regime,
    squared_gradient,
)
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, THEORY, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Experiment, Source, Values
from dynascope.models.quadratic_model import DiagonalForm, QuadraticModel, unit_features
from dynascope.tasks.supervised import mean_squared_error
from dynascope.theory.catapult import critical_rates

SLOPE = (-2.2, -1.8)
"""Between which exponents of gamma the peak must grow (theory: -2)."""
SAME = 0.25
"""Final kernels that differ by less than this share of their mean are the same."""


class OneExample(eqx.Module):
    """An ensemble member: a random example with label 1, and descent on (g - y)^2/2."""

    dim: int = eqx.field(static=True)

    def __call__(self, setting: tuple[Array, Array], seed: Array) -> ds.Descent:
        gamma, rate = setting
        for_point, for_weights, for_signs = jax.random.split(jax.random.key(seed), 3)
        x, w = jax.random.normal(for_point, (self.dim,)), jax.random.normal(for_weights, (self.dim,))
        signs = 2 * jax.random.bernoulli(for_signs, shape=(self.dim,)).astype(x.dtype) - 1
        model = QuadraticModel(w, unit_features, DiagonalForm(signs), gamma)
        probes = {"loss": ds.probes.loss(), "kernel": lambda model: squared_gradient(model, lambda model: model(x))}
        return ds.Descent(model, lambda model: (model(x) - 1) ** 2 / 2, optax.sgd(rate), probes=probes)


class Digits(eqx.Module):
    """An ensemble member: a two-layer ReLU network of any width up to `units`, at `ratio` times its critical rate."""

    units: int = eqx.field(static=True)

    def __call__(self, width: Array, ratio: Array, seed: Array, x: Array, y: Array) -> ds.Descent:
        net, factor = network(jax.random.key(seed), x.shape[1], self.units, width)

        def top(model: Any) -> Array:
            return factor**2 * jnp.linalg.eigvalsh(kernel_matrix(model, x))[-1]

        def loss(model: Any, data: tuple[Array, Array]) -> Array:
            points, labels = data
            return mean_squared_error(factor * jax.vmap(model)(points), labels)

        rate = ratio * critical_rates.critical_rate(top(net), x.shape[0], "mse")
        return ds.Descent(net, loss, optax.sgd(rate), data=(x, y), probes={"loss": ds.probes.loss(), "kernel": top})


class GeneralQuadratic(Experiment):
    """Do general quadratic models catapult, and higher with less curvature and with larger rates?"""

    id = "catapult.general-quadratic"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figure B.4")
    cost = {"quick": 6, "full": 600}
    presets = {
        "quick": {"seeds": 3, "data": "digits", "pool": 4, "widths": (250, 1000), "net_steps": 100, "net_seeds": 3}
    }
    control = {"rate": 1.8, "ratios": (0.5, 0.7)}
    notes = """g = w·x/|x| + γ/2 wᵀΣw with Σ a diagonal of random signs (one draw for each seed), w ~ N(0, I) in 100
    dimensions, one example, label 1 (the document states neither the label nor the number of examples), loss (g -
    y)²/2, so that the critical rate is about 2. Networks: two layers, 20 images, rates in critical rates of their own
    start (the document's 2.8 is one of its data). Full setting: airplanes and birds of CIFAR-10; quick: digits 0 and 2
    of MNIST, averaged to 7 × 7. One program serves all widths: units beyond a
    width are zero and stay so. The control takes rates below the critical one."""

    precision: Literal["float32", "float64"] = "float64"
    dim: PositiveInt = 100
    rate: float = Field(2.8, gt=0)
    """The rate at which γ is varied."""
    gammas: Values = (0.01, 0.003, 0.001, 0.0003)
    gamma: float = Field(0.001, gt=0)
    """The γ at which the rate is varied."""
    rates: Values = (1.9, 2.2, 2.5, 2.8, 3.2, 3.9, 4.2)
    steps: PositiveInt = 300
    seeds: PositiveInt = 10
    data: str = "cifar10"
    classes: tuple[int, int] = (0, 2)
    pool: PositiveInt = 1
    samples: PositiveInt = 20
    widths: tuple[PositiveInt, ...] = (500, 2000, 10_000)
    ratios: Values = (1.2, 1.4, 1.8)
    """Learning rates of the networks over the critical one at initialization."""
    net_steps: PositiveInt = 150
    net_seeds: PositiveInt = 1
    """Seeds of the networks, which at full size cost the most by far."""

    _known = field_validator("data")(known)

    def measure(self, seed: int) -> xr.DataTree:
        """`models`: loss and kernel of quadratic models; `networks`: of the networks."""
        number = np.dtype(self.precision)
        seeds = member_seeds(seed, self.seeds)
        pairs = [(gamma, self.rate) for gamma in self.gammas] + [(self.gamma, rate) for rate in self.rates]
        gammas, rates = (np.array(column, number) for column in zip(*pairs, strict=True))
        models = ds.ensemble(
            OneExample(self.dim), {"setting": (gammas, rates), "seed": seeds}, steps=self.steps, record=1
        ).trace.assign_coords(gamma=("setting", gammas), rate=("setting", rates))
        drawn = sample(self.data, self.classes, self.samples, 1, seed, pool=self.pool)
        networks = ds.ensemble(
            Digits(max(self.widths)),
            {"width": np.array(self.widths, np.int32), "ratio": np.array(self.ratios, number),
             "seed": member_seeds(seed, self.net_seeds)},
            steps=self.net_steps, record=1, fixed={"x": drawn.x.astype(number), "y": drawn.y.astype(number)},
        ).trace  # fmt: skip
        about = xr.Dataset(attrs={"data": drawn.name})
        return xr.DataTree.from_dict({"/": about, "models": models, "networks": networks})

    def judge(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> Iterable[Claim]:
        first, models = len(self.gammas), measured["models"].to_dataset().transpose("setting", "seed", "step")
        loss, kernel = models.loss.values, models.kernel.values
        found = regime(loss)
        with np.errstate(invalid="ignore"):
            peak, end = np.max(loss, axis=-1), kernel[..., -1]
        slopes = scaling_exponent(self.gammas, peak[:first])
        caught = (found[:first] == CATAPULT).all(axis=0)
        good = caught & (slopes > SLOPE[0]) & (slopes < SLOPE[1])
        yield claim(
            "peak-by-gamma", f"At rate {self.rate:g} every γ gives a catapult, whose peak grows like γ^-2 (as with the "
            "width of a network), in every seed",
            source="Figure B.4a", measured=share_of(good) | {"exponent of γ": slopes, "peaks, median": dict(zip(map(str,
            self.gammas), np.median(peak[:first], axis=1), strict=True))},
            expected={"share": 1, "exponent": list(SLOPE)}, holds=bool(good.all()), seeds=self.seeds,
            diagnosis="" if caught.all() else "Not every run is a catapult.",
        )  # fmt: skip
        small = np.array(self.gammas) < 0.005
        ends = np.median(end[:first][small], axis=1)
        spread = float(np.ptp(ends) / ends.mean())
        yield claim(
            "kernel-not-by-gamma", "The kernel at the end does not depend on γ, for γ below 0.005 (median over seeds; "
            "spread over the mean)", source="Figure B.4a", measured={"kernel": dict(zip(map(str, self.gammas),
            np.median(end[:first], axis=1), strict=True)), "spread": spread}, expected=f"< {SAME}",
            holds=spread < SAME, seeds=self.seeds,
        )  # fmt: skip
        yield self._judge_rates(found[first:], peak[first:], end[first:], kernel[first:, :, 0])
        yield self._judge_networks(measured["networks"].to_dataset(), measured.attrs["data"])

    def _judge_rates(self, found: np.ndarray, peak: np.ndarray, end: np.ndarray, start: np.ndarray) -> Claim:
        ratio = np.array(self.rates)[:, None] * start / 2
        expected = np.where(ratio < 1, MONOTONE, np.where(ratio < 2, CATAPULT, DIVERGENT))
        off_edge = (np.abs(ratio - 1) > 0.02) & (np.abs(ratio - 2) > 0.02)
        right = (found == expected)[off_edge]
        inside = [k for k, rate in enumerate(self.rates) if 1.05 < rate / 2 < 1.6]
        rising = bool(np.all(np.diff(np.median(peak[inside], axis=1)) > 0))
        falling = bool(np.all(np.diff(np.median(end[inside], axis=1)) < 0))
        return claim(
            "by-rate", f"γ = {self.gamma:g}: monotone below the critical rate, a catapult up to twice it, divergent "
            "beyond (2 % away from both); up to 1.6 critical rates a larger rate has a higher peak and a smaller "
            "kernel at the end",
            source="Figure B.4a", measured=share_of(right) | {"rates": list(self.rates), "peak, median":
            np.median(peak, axis=1), "kernel, median": np.median(end, axis=1)},
            expected="share = 1, both orders", holds=bool(right.all() and rising and falling), seeds=self.seeds,
        )  # fmt: skip

    def _judge_networks(self, networks: xr.Dataset, data: str) -> Claim:
        networks = networks.transpose("width", "ratio", "seed", "step")
        loss, kernel = networks.loss.values, networks.kernel.values
        with np.errstate(invalid="ignore"):
            peak, ratio = np.max(loss, axis=-1), kernel[..., -1] / kernel[..., 0]
        middle_peak, middle = np.median(peak, axis=-1), np.median(ratio, axis=-1)
        growth = scaling_exponent(self.widths, middle_peak)
        spread = np.ptp(middle, axis=0)
        holds = bool(np.all((growth > 0.7) & (growth < 1.2)) and np.all(spread < 0.1) and np.all(np.diff(middle) < 0))
        return claim(
            "networks", "ReLU networks: a wider one has a higher peak (in proportion), the kernel at the end over its "
            "start does not depend on the width (within 0.1), and a larger rate makes it smaller "
            f"({data})",
            source="Figure B.4b", measured={"rates over the critical one": list(self.ratios), "exponent of the width":
            growth, "peak": middle_peak, "kernel, end over start": middle},
            expected="exponents 0.7 to 1.2; spread < 0.1; falling in the rate", holds=holds, seeds=self.net_seeds,
            diagnosis="" if holds else "Below the critical rate there is no peak to grow.",
        )  # fmt: skip

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, grid = panels(3, 2, size=(4.5, 3.2))
        first, middle = len(self.gammas), len(self.ratios) // 2
        for row, name in enumerate(("loss", "kernel")):
            models, networks = (measured[node].to_dataset()[name].isel(seed=0) for node in ("models", "networks"))
            self._curves(grid[row, 0], models[:first], "γ = {:g}", self.gammas)
            self._curves(grid[row, 1], models[first:], "η = {:g}", self.rates)
            for color, width in zip(settings_colors(len(self.widths)), self.widths, strict=True):
                run = networks.sel(width=width).isel(ratio=middle)
                grid[row, 2].plot(run.step, run, color=color, label=f"width {width}")
            for axes in grid[row]:
                axes.set(xlabel="step", ylabel=name, xlim=(0, 40))
                if name == "loss":
                    axes.set(yscale="log", ylim=(1e-4, 1e8))
        grid[0, 0].set_title(f"γ varied, η = {self.rate:g}")
        grid[0, 1].set_title(f"η varied, γ = {self.gamma:g}")
        grid[0, 2].set_title(f"ReLU network, {self.ratios[middle]:g} critical rates")
        for axes in grid[0]:
            axes.legend(loc="upper right", fontsize=7.5, ncols=2)
        grid[1, 1].set_ylim(0, 2)
        grid[1, 0].axhline(2 / self.rate, **THEORY)
        grid[1, 0].text(40, 2 / self.rate, " 2/η", va="center", fontsize=8, color=FAINT)
        return {"general-quadratic": figure}

    def _curves(self, axes: Axes, runs: xr.DataArray, label: str, values: tuple[float, ...]) -> None:
        for color, run, value in zip(settings_colors(len(values)), runs, values, strict=True):
            axes.plot(run.step, run.where(np.abs(run) < 1e9), color=color, label=label.format(value))
