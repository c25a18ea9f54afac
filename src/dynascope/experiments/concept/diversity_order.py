"""Figure 2b: a concept with more diverse data is learned first; the data also determine the slowdown at the end."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.experiments.concept import learning_order
from dynascope.experiments.concept.learning_order import SINGLE_SPEEDS
from dynascope.experiments.concept.sim_experiment import PUBLISHED, SimExperiment
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import THEORY, legend_beside, panels, settings_colors
from dynascope.lab.criteria import agrees, below, every, falling, share
from dynascope.lab.experiment import Claims, Figures, Source, Values
from dynascope.theory.concept.one_layer import spread_of_equal_strengths

LARGER_FIRST = "Concepts i with larger diversity (σ_i) learnt first."


class DiversityOrder(SimExperiment):
    """Is a concept learned first once its data are diverse enough?"""

    id = "concept.diversity-order"
    source = Source(CONCEPTS, "Figure 2b")
    cost = {"quick": 6, "full": 20}
    presets = {
        "quick": {"seeds": 3},
        "code": PUBLISHED | {"first_spreads": (0.2236, 0.3162, 0.7071, 1.0, 1.4142), "second_spread": 0.2236},
    }
    control = {"first_spreads": (0.05, 0.25, 0.5, 0.75, 1.0)}
    known_failures = {
        "larger-diversity-first": "Strength decides, a = σ² + μ²/s: the weaker signal needs σ₁ above 1.23 to be first.",
    }
    notes = """Concept 2 has the stronger signal (μ = (1, 2)); the diversity σ₁ of concept 1 rises until its strength
    a₁ = σ₁² + μ₁²/2 passes a₂ = 2.0025, at σ₁ = 1.226. The control stays below that, so nothing flips. Preset `code` is
    what the authors' published program runs: σ₁ in {.05, .1, .5, 1, 2} and σ₂ = .05 are read as variances, a third
    cluster lies at the origin (strengths then are σ² + μ²/3, and the flip is at σ₁² = 1.05), there are biases, all
    epochs use one shuffle, and the loss is averaged over a test cluster. Speeds are read down to 1e-4 of the largest,
    when the rounding of single precision begins to show."""

    first_spreads: Values = (0.05, 0.5, 1.0, 1.5, 2.0)
    second_spread: float = 0.05
    mu: tuple[float, float] = (1.0, 2.0)

    def signals(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """(μ, σ) of every setting."""
        return [(self.mu, (first, self.second_spread)) for first in self.first_spreads]

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(self.signals(), seed)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        return self.theorem(measured)

    def flip(self) -> float:
        """The spread at which both strengths are equal."""
        return spread_of_equal_strengths(self.mu, self.second_spread, self.origin)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        a = self.strengths(self.signals())
        measured = measured.assign_coords(signal=list(self.first_spreads))
        area = learning_order.bulge(measured)
        reduced = xr.Dataset({"bulge": area, "lead": learning_order.lead(measured), "flip": zero_of(area)})
        reduced["strength"] = ("signal", "concept"), a
        if self.epochs >= 20 and not self.test_samples:
            epochs = [epoch * self.steps(2) // self.epochs for epoch in (10, 20)]
            loss = measured.test_loss.sel(step=epochs, method="nearest")
            least, most = loss.isel(signal=a.min(axis=1).argmin()), loss.isel(signal=a[:, 0].argmax())
            reduced["loss_ratio"] = (most / least).drop_vars("step").rename(step="epoch")
        if predicted is not None:
            predicted = predicted.assign_coords(signal=measured.signal)
            reduced["deviation"] = learning_order.deviation(measured, predicted)
            slopes = learning_order.settled_slopes(measured, a, self.step_size, speed_share=SINGLE_SPEEDS)
            reduced["settled_ratio"] = slopes / xr.DataArray(-self.step_size * a.min(axis=1), dims="signal")
            end, theory = (learning_order.rate_between(run, speed_share=SINGLE_SPEEDS) for run in (measured, predicted))
            reduced["end_ratio"] = ("signal", "seed"), end.slope / theory.slope
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        a, flip = reduced.strength, self.flip()
        gap = a.diff("concept").isel(concept=0, drop=True)
        statement = "As σ₁ grows the order flips where σ₁² + μ₁²/s = a₂ (zero of the median area, interpolated)"
        yield agrees("order-flips", statement, reduced.flip, flip, absolute=0.1)
        right = (np.sign(reduced.bulge) == np.sign(gap)).where(np.abs(gap) > 0.1 * a.max("concept"))
        statement = "Concept 2 is first below the flip, concept 1 above it (strengths 10 % apart)"
        yield share("order", statement, right, 0.95)
        statement = "The concept with the more diverse data is first, in every setting"
        first = (reduced.bulge < 0).where(reduced.signal > self.second_spread * (1 + 1e-6))
        yield every("larger-diversity-first", statement, first, printed=LARGER_FIRST)
        statement = "The largest lead of concept 2 over concept 1 (median over seeds) falls as σ₁ rises"
        yield falling("lead-falls", statement, reduced.lead.median("seed").sortby("signal"), along="signal")
        statement = "The signed area of the path (median over seeds) falls as σ₁ rises"
        yield falling("area-falls", statement, reduced.bulge.median("seed").sortby("signal"), along="signal")
        if "loss_ratio" in reduced:
            statement = "The least diverse setting is short of the target when the most diverse is not: ratio of losses"
            yield below("still-short", statement, reduced.loss_ratio, 0.1, source="Figure 2b, Section 3.2")
        if "deviation" in reduced:
            yield from self._slowing(reduced)
            yield learning_order.overlays(reduced.deviation)

    def _slowing(self, reduced: xr.Dataset) -> Claims:
        apart = reduced.strength.max("concept") >= 2 * reduced.strength.min("concept")
        ratio = reduced.settled_ratio.median("seed").where(apart, drop=True)
        statement = "Once one exponential is left, the log speed falls at -η min a, whatever the loss: ratio of slopes"
        yield agrees("slope-at-any-loss", statement, ratio, 1.0, relative=0.05, source="Section 3.2")
        statement = "The slope of the log speed at the end is that of Theorem 4.1, from the run's own start, to 10 %"
        near = np.abs(reduced.end_ratio - 1) < 0.1
        yield share("theorem-slope", statement, near, 0.95, source="Theorem 4.1")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        figure, (plane, first) = panels(2)
        learning_order.draw_plane(plane, measured, predicted, "sigma")
        plane.set_title("Output at the test point, seed 0")
        learning_order.draw_bulge(first, reduced.bulge, "diversity of concept 1, σ₁", self.flip())
        first.set_title("Which concept is first")
        return {"diversity-order": figure, "slow-down": self._draw_slowing(measured, reduced.strength.values)}

    def _draw_slowing(self, measured: xr.Dataset, a: np.ndarray) -> Figure:
        figure, (loss, speed) = panels(2)
        middle, values = learning_order.speeds(measured.isel(seed=0))
        for k, color in enumerate(settings_colors(len(a))):
            loss.semilogy(measured.step, measured.test_loss.isel(seed=0, signal=k), color=color)
            label = learning_order.signal_label("sigma", measured.sigma.values[k])
            style = {"color": color, "linewidth": 1.1, "label": label}
            learning_order.draw_speed(speed, middle, values[k], -self.step_size * a[k].min(), SINGLE_SPEEDS, **style)
        speed.plot([], [], **THEORY, label="slope −η min a")
        loss.set(xlabel="step", ylabel="test loss", title="The loss, seed 0", ylim=(1e-9, None))  # float32 below
        speed.set(xlabel="step", ylabel="speed of the output per step", title="Its slowing is set by the data")
        legend_beside(speed)
        return figure


def zero_of(area: xr.DataArray) -> float:
    """The signal at which the median over seeds, interpolated linearly, first crosses zero; NaN if it never does."""
    median = area.median("seed").sortby("signal")
    x, y = median.signal.values, median.values
    for k in np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:])):
        return float(x[k] - y[k] * (x[k + 1] - x[k]) / (y[k + 1] - y[k]))
    return np.nan
