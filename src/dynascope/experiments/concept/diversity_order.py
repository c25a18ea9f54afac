"""Figure 2b: a concept with more diverse data is learned first; the data also set how learning slows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.concept import learning_order
from dynascope.experiments.concept.learning_order import SINGLE_SPEEDS
from dynascope.experiments.concept.sim_experiment import PAPER, SimExperiment
from dynascope.figures import THEORY, legend_beside, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source, Values
from dynascope.theory.concept.one_layer import predicted_outputs, spread_of_equal_strengths
from dynascope.theory.concept.terminal_rates import settled_step


class DiversityOrder(SimExperiment):
    """Is a concept learned first once its data are diverse enough?"""

    id = "concept.diversity-order"
    source = Source(PAPER, "Figure 2b")
    cost = {"quick": 6, "full": 20}
    presets = {
        "quick": {"seeds": 3},
        "code": {"first_spreads": (0.2236, 0.3162, 0.7071, 1.0, 1.4142), "second_spread": 0.2236, "origin": True,
                 "bias": True, "reshuffle": False, "test_samples": 5000},
    }  # fmt: skip
    control = {"first_spreads": (0.05, 0.25, 0.5, 0.75, 1.0)}
    notes = """Concept 2 has the stronger signal (μ = (1, 2)); the diversity σ₁ of concept 1 rises until its strength
    a₁ = σ₁² + μ₁²/2 passes a₂ = 2.0025, at σ₁ = 1.226. The control stays below that, so nothing flips. Preset `code` is
    what the authors' published program runs: σ₁ in {.05, .1, .5, 1, 2} and σ₂ = .05 are read as variances, a third
    cluster lies at the origin (strengths then are σ² + μ²/3, and the flip is at σ₁² = 1.05: its run with variance 1 is
    almost a tie), there are biases, all epochs use one shuffle, and the loss is averaged over a test cluster. Speeds
    are read down to 1e-4 of the largest, where the rounding of single precision begins to show."""

    first_spreads: Values = (0.05, 0.5, 1.0, 1.5, 2.0)
    second_spread: float = 0.05
    mu: tuple[float, float] = (1.0, 2.0)

    def signals(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """(μ, σ) of every setting."""
        return [(self.mu, (first, self.second_spread)) for first in self.first_spreads]

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(self.signals(), seed)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        return None if self.depth > 1 or self.bias else predicted_outputs(measured, self.step_size, self.origin)

    def flip(self) -> float:
        """The spread at which both strengths are equal."""
        return spread_of_equal_strengths(self.mu, self.second_spread, self.origin)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        a, spreads = self.strengths(self.signals()), np.array(self.first_spreads)
        area, gap = learning_order.bulge(measured), a[:, 1] - a[:, 0]
        apart = np.abs(gap) > 0.1 * a.max(axis=1)
        agree = np.sign(area[apart]) == np.sign(gap[apart])[:, None]
        flips = bool((gap[apart] > 0).any() and (gap[apart] < 0).any())
        flip, medians = self.flip(), np.median(area, axis=1)
        yield claim(
            "order-flips",
            "As σ₁ grows the order flips where σ₁² + μ₁²/s = a₂: concept 2 first below, concept 1 first above, "
            "in 95 % of runs (strengths more than 10 % apart)",
            source="Figure 2b", expected=f"share ≥ 0.95 and a change of sign, predicted at σ₁ = {flip:.4g}",
            measured=share_of(agree.ravel()) | {"flip": zero_of(spreads, medians)},
            holds=bool(flips and agree.mean() >= 0.95), seeds=self.seeds,
        )  # fmt: skip
        order, leads = np.argsort(spreads), np.median(learning_order.lead(measured), axis=1)
        for name, what, values in (("lead", "largest lead of concept 2 over concept 1", leads),
                                   ("area", "signed area of the path", medians)):  # fmt: skip
            falls = bool(np.all(np.diff(values[order]) < 0))
            yield claim(
                f"{name}-falls", f"The {what} (median over seeds) falls as σ₁ rises",
                source="Figure 2b", measured=dict(zip(map(str, spreads.tolist()), values.tolist(), strict=True)),
                expected="falling", holds=falls, seeds=self.seeds,
                diagnosis="" if falls or name == "area" else "Of a nearly straight path it can be the start's own.",
            )  # fmt: skip
        if self.epochs >= 20 and not self.test_samples:
            yield self._sooner(measured, a)
        if self.depth == 1 and not self.bias:
            yield from self._slowing(measured, predicted, a)

    def _sooner(self, measured: xr.Dataset, a: np.ndarray) -> Claim:
        per_epoch = self.steps(2) // self.epochs
        loss = measured.test_loss.sel(step=[10 * per_epoch, 20 * per_epoch], method="nearest")
        slow, fast = np.argmin(a.min(axis=1)), np.argmax(a[:, 0])
        ratio = (loss.isel(signal=fast) / loss.isel(signal=slow)).transpose("seed", "step").values
        medians = {f"σ₁ = {self.first_spreads[i]:g}": np.median(loss.isel(signal=i), axis=0) for i in (slow, fast)}
        return claim(
            "still-short",
            "When the most diverse setting has converged the least diverse is still short of the target: "
            "at epochs 10 and 20 its test loss is over ten times as large, in every run",
            source="Figure 2b, Section 3.2", measured=medians | {"largest ratio": ratio.max()}, expected="ratio < 0.1",
            holds=bool(ratio.max() < 0.1), seeds=self.seeds,
        )  # fmt: skip

    def _slowing(self, measured: xr.Dataset, predicted: xr.Dataset | None, a: np.ndarray) -> Iterable[Claim]:
        apart = np.flatnonzero(a.max(axis=1) >= 2 * a.min(axis=1))
        ratio: dict[str, list[float]] = {"first factor 100 of the loss": [], "second": []}
        for k in apart:
            begin = settled_step(a[k], np.array(self.mu), self.step_size)
            late = measured.isel(signal=k).sel(step=slice(begin, None))
            for name, window in zip(ratio, ((1.0, 1e-2), (1e-2, 1e-4)), strict=True):
                slope = learning_order.rate_between(late, *window, SINGLE_SPEEDS).slope
                ratio[name].append(float(np.median(slope) / (-self.step_size * a[k].min())))
        off = np.abs(np.array([*ratio.values()]) - 1)
        yield claim(
            "slope-at-any-loss",
            "Once one exponential is left (the other below 5 % of it, by the theorem) the log speed "
            "falls at -lr (2/d) min a per step, whatever the loss (strengths a factor 2 apart; median over seeds)",
            source="Section 3.2", measured=ratio | {"σ₁": [self.first_spreads[k] for k in apart]},
            expected="measured / predicted slope within 5 % of 1", holds=bool(off.size and np.all(off < 0.05)),
            seeds=self.seeds,
        )  # fmt: skip
        if predicted is None:
            return
        slope, theory = (
            learning_order.rate_between(trace, 0.05, 0.0, SINGLE_SPEEDS).slope for trace in (measured, predicted)
        )
        off = np.abs(slope / theory - 1)
        yield claim(
            "theorem-slope", "In every run the slope of the log speed is that of Theorem 4.1, from the run's own start",
            source="Theorem 4.1",
            measured={"median deviation": np.median(off), "share within 10 %": (off < 0.1).mean()},
            expected="median ≤ 0.05, share ≥ 0.95", seeds=self.seeds,
            holds=bool(np.median(off) <= 0.05 and (off < 0.1).mean() >= 0.95),
        )  # fmt: skip
        yield learning_order.judge_theorem(measured, predicted, self.seeds)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, (plane, first) = panels(2)
        learning_order.draw_plane(plane, measured, predicted, "sigma")
        plane.set_title("Output at the test point, seed 0")
        area = learning_order.bulge(measured)
        learning_order.draw_bulge(first, self.first_spreads, area, "diversity of concept 1, σ₁", self.flip())
        first.set_title("Which concept is first")
        return {"diversity-order": figure, "slow-down": self._draw_slowing(measured)}

    def _draw_slowing(self, measured: xr.Dataset) -> Figure:
        figure, (loss, speed) = panels(2)
        rates = -self.step_size * self.strengths(self.signals()).min(axis=1)
        middle, values = learning_order.speeds(measured.isel(seed=0))
        for k, color in enumerate(settings_colors(len(self.first_spreads))):
            loss.semilogy(measured.step, measured.test_loss.isel(seed=0, signal=k), color=color)
            label = learning_order.signal_label("sigma", measured.sigma.values[k])
            style = {"color": color, "linewidth": 1.1, "label": label}
            learning_order.draw_speed(speed, middle, values[k], float(rates[k]), SINGLE_SPEEDS, **style)
        speed.plot([], [], **THEORY, label="slope −η min a")
        loss.set(xlabel="step", ylabel="test loss", title="The loss, seed 0", ylim=(1e-9, None))  # float32 below
        speed.set(xlabel="step", ylabel="speed of the output per step", title="Its slowing is set by the data")
        legend_beside(speed)
        return figure


def zero_of(x: np.ndarray, y: np.ndarray) -> float | None:
    """Where the piecewise linear curve through the points first crosses zero."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    for k in np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:])):
        return float(x[k] - y[k] * (x[k + 1] - x[k]) / (y[k + 1] - y[k]))
    return None
