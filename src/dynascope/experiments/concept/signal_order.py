"""Figure 2a: concepts with the stronger signal are learned first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from dynascope.curves import stages
from dynascope.experiments.concept.learning_order import bulge, draw_bulge, draw_plane, judge_theorem, lead
from dynascope.experiments.concept.sim_experiment import PAPER, SimExperiment
from dynascope.figures import panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source, Values
from dynascope.theory.concept.one_layer import predicted_outputs


class SignalOrder(SimExperiment):
    """Is the concept with the stronger signal learned first?"""

    id = "concept.signal-order"
    source = Source(PAPER, "Figure 2a")
    cost = {"quick": 8, "full": 60}
    presets = {
        "quick": {"seeds": 3},
        "code": {"first_signals": (1.0, 2.0, 3.0), "origin": True, "sigma": (0.2236, 0.2236), "bias": True,
                 "reshuffle": False, "test_samples": 5000},
    }  # fmt: skip
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

    def measure(self, seed: int) -> xr.Dataset:
        return self.train(self.signals(), seed)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        return None if self.depth > 1 or self.bias else predicted_outputs(measured, self.step_size, self.origin)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        def in_order(sign: np.ndarray) -> np.ndarray:
            """Whether the area has the expected sign, for every setting without a tie and every seed."""
            return np.sign(area[sign != 0]) == sign[sign != 0][:, None]

        area, mu = bulge(measured), measured.mu.values
        gap = np.diff(self.strengths(self.signals()))[:, 0]
        agree = in_order(np.sign(np.round(mu[:, 1] - mu[:, 0], 6)))
        yield claim(
            "signal-first", "The concept with the larger μ is learned first (its side of the chord), in 95 % of runs",
            source="Figure 2a", measured=share_of(agree.ravel()), expected="share ≥ 0.95",
            holds=bool(agree.size and agree.mean() >= 0.95), seeds=self.seeds,
        )  # fmt: skip
        by_strength = np.sign(np.round(gap, 6))
        agree = in_order(by_strength)
        yield claim(
            "strength-first", "The sign of the area is that of a₂ - a₁, a = σ² + μ²/s, in 95 % of runs",
            source="Section 4.1", measured=share_of(agree.ravel()), expected="share ≥ 0.95",
            holds=bool(agree.size and agree.mean() >= 0.95), seeds=self.seeds,
        )  # fmt: skip
        leads = np.median(lead(measured), axis=1)
        falling = bool(np.all(np.diff(leads[np.argsort(mu[:, 0])]) < 0))
        yield claim(
            "lead-falls", "The largest lead of concept 2 over concept 1 (median over seeds) falls as μ₁ rises",
            source="Figure 2a", measured=dict(zip(map(str, mu[:, 0].tolist()), leads.tolist(), strict=True)),
            expected="falling", holds=falling, seeds=self.seeds,
        )  # fmt: skip
        equal = np.abs(area[by_strength == 0])
        if equal.size:
            strongest = np.abs(area[np.argmax(np.abs(gap))])
            yield claim(
                "equal-signals",
                "With equal strengths the path is nearly straight: its area is under a tenth of the largest",
                source="Figure 2a", measured=float(np.median(equal)), expected=f"< {np.median(strongest) / 10:.3f}",
                holds=bool(np.median(equal) < np.median(strongest) / 10), seeds=self.seeds,
            )  # fmt: skip
        single = stages.descents(measured.test_loss.values) == 1
        yield claim(
            "monotone-loss", "One layer never memorizes on the way: one descent of the test loss in every run",
            source="Section 4.1", measured=share_of(single.ravel()), expected="share = 1",
            holds=bool(single.all()), seeds=self.seeds,
        )  # fmt: skip
        if predicted is not None:
            yield judge_theorem(measured, predicted, self.seeds)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, (plane, first) = panels(2)
        draw_plane(plane, measured, predicted, "mu")
        plane.set_title("Output at the test point, seed 0")
        draw_bulge(first, measured.mu.values[:, 0], bulge(measured), "signal of concept 1, μ₁", self.second_signal)
        first.set_title("Which concept is first")
        return {"signal-order": figure}
