"""Figure 2a: concepts with the stronger signal are learned first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from dynascope.experiments.concept.learning_order import bulge, deviation, draw_bulge, draw_plane, lead, overlays
from dynascope.experiments.concept.sim_experiment import PUBLISHED, SimExperiment
from dynascope.experiments.concept.transients import count_descents
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import panels
from dynascope.lab.criteria import below, every, falling, share
from dynascope.lab.experiment import BoundedExperiment, Claims, Figures, Source, Values


class SignalOrder(SimExperiment, BoundedExperiment):
    """Is the concept with the stronger signal learned first?"""

    id = "concept.signal-order"
    source = Source(CONCEPTS, "Figure 2a")
    cost = {"quick": 8, "full": 60}
    presets = {"quick": {"seeds": 3}, "code": PUBLISHED | {"first_signals": (1.0, 2.0, 3.0), "sigma": (0.2236, 0.2236)}}
    control = {"sigma": (3.0, 0.05), "first_signals": (0.5, 1.0, 1.5)}
    notes = """A path that bulges to the upper left learns concept 2 first. The control gives the weaker signal so much
    diversity that it is still learned first: signal strength alone then orders nothing. Preset `code` is what the
    authors' published program runs: a third cluster at the origin, σ read as a variance, biases, one shuffle for all
    epochs, and the loss averaged over a test cluster; the cluster at the origin divides the strengths by 3 instead of
    2, which slows everything but changes no order."""

    first_signals: Values = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    second_signal: float = 2.0
    sigma: tuple[float, float] = (0.05, 0.05)

    def signals(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """(μ, σ) of every setting."""
        return [((first, self.second_signal), self.sigma) for first in self.first_signals]

    def predict_limits(self, claim: str, field: str) -> Iterable[float]:
        """The order flips where both strengths of Theorem 4.1 are equal, σ₁² + μ₁²/s = σ₂² + μ₂²/s; and which signal is
        the stronger changes where the signals are equal."""
        if claim != "signal-first":
            return ()
        clusters, second, (spread, other) = 2 + int(self.origin), self.second_signal, self.sigma
        if field == "second_signal":
            flips = [root(first**2 + clusters * (spread**2 - other**2)) for first in self.first_signals]
            return (*flips, *self.first_signals)
        if field in ("sigma.0", "sigma.1"):
            sign, known = (1, other) if field == "sigma.0" else (-1, spread)
            return [root(known**2 + sign * (second**2 - first**2) / clusters) for first in self.first_signals]
        return ()

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(self.signals(), seed)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        return self.theorem(measured)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        mu = measured.mu.assign_coords(signal=measured.mu.values[:, 0])
        strength = mu.copy(data=self.strengths(self.signals()))
        measured = measured.assign_coords(signal=mu.signal)
        reduced = xr.Dataset(
            {
                "bulge": bulge(measured),
                "lead": lead(measured),
                "signal_gap": mu.diff("concept").isel(concept=0, drop=True).round(6),
                "strength_gap": strength.diff("concept").isel(concept=0, drop=True).round(6),
                "descents": count_descents(measured.test_loss),
            }
        )
        if predicted is not None:
            reduced["deviation"] = deviation(measured, predicted.assign_coords(signal=mu.signal))
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        area, first, stronger = np.sign(reduced.bulge), np.sign(reduced.signal_gap), np.sign(reduced.strength_gap)
        in_order = (area == first).where(first != 0)
        statement = "The concept with the larger μ is learned first (its side of the chord)"
        yield share("signal-first", statement, in_order, 0.95)
        in_order = (area == stronger).where(stronger != 0)
        statement = "The sign of the area is that of a₂ - a₁, a = σ² + μ²/s"
        yield share("strength-first", statement, in_order, 0.95, source="Section 4.1")
        statement = "The largest lead of concept 2 over concept 1 (median over seeds) falls as μ₁ rises"
        yield falling("lead-falls", statement, reduced.lead.median("seed").sortby("signal"), along="signal")
        size = np.abs(reduced.bulge).median("seed")
        if (stronger == 0).any():
            statement = "With equal strengths the path is nearly straight: its area, as a share of the largest"
            yield below("equal-signals", statement, size[stronger == 0] / size.max(), 0.1)
        statement = "One layer never memorizes on the way: one descent of the test loss in every run"
        yield every("monotone-loss", statement, reduced.descents == 1, source="Section 4.1")
        if "deviation" in reduced:
            yield overlays(reduced.deviation)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        figure, (plane, first) = panels(2)
        draw_plane(plane, measured, predicted, "mu")
        plane.set_title("Output at the test point, seed 0")
        draw_bulge(first, reduced.bulge, "signal of concept 1, μ₁", self.second_signal)
        first.set_title("Which concept is first")
        return {"signal-order": figure}


def root(square: float) -> float:
    """The square root; NaN of a negative number."""
    return square**0.5 if square >= 0 else float("nan")
