"""Figures 17, 18: the training loss falls at every step while the test loss rises and falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.curves import stages
from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.experiments.concept.symmetric_drawing import curve, draw_test_loss, mark_stages, step_axis
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import FAINT, INK, PALETTE, legend_beside, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.theory.concept.staged_path import predicted_runs


class TrainingTrajectory(SymmetricExperiment):
    """Does the training loss show any sign of the detour that the test loss takes?"""

    id = "concept.training-trajectory"
    source = Source(PAPER, "Figures 17, 18")
    cost = {"quick": 5, "full": 6}
    presets = {"quick": {"starts": 200}}
    control = {"scale": 0.001}
    notes = """The start is the one of concept.jacobian-stages (NumPy seed 3, chosen, since it shows two descents). The
    outputs at the training means leave their axes together, by the one minor entry they share, while they grow along
    their axes at different times. In the control the start is so small that the test loss falls at every step too."""

    shown_seed: int = 3
    """NumPy seed of the start that is drawn; chosen."""
    starts: PositiveInt = 2000
    """Random starts whose training and test losses are compared."""

    def measure(self, seed: int) -> xr.Dataset:
        run = self.train(self.gaussian([self.shown_seed]))
        scanned = self.scan(self.gaussian(start_seeds(seed, self.starts)))
        return run[["W", "U", "test_loss", "loss"]].assign(
            rise=("random_start", scanned.rise.values),
            descents=("random_start", scanned.descents.values[0].astype(np.int32)),
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        return predicted_runs(measured, self.mu, self.sigma, self.learning_rate)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        loss, test = measured.loss.values[0], measured.test_loss.values[0]
        falls, depth = bool(np.all(np.diff(loss) <= 1e-12 * loss[0])), float(stages.memorization_depth(test))
        yield claim(
            "training-falls-test-rises",
            f"From the shown start (seed {self.shown_seed}, chosen) the training loss falls at every step, while the "
            "test loss rises by more than 1 % of its first value on the way", source="Figure 17",
            measured={"training falls": falls, "rise of the test loss": depth}, expected="> 0.01",
            holds=falls and depth > self.tolerance,
        )  # fmt: skip
        monotone, twice = measured.rise.values <= 1e-12, measured.descents.values > 1
        yield claim(
            "training-monotone", "Over random starts: the training loss never rises, the test loss of some does",
            source="Figure 17", measured={"training monotone": share_of(monotone), "test not": share_of(twice)},
            expected="training: share = 1; test: > 0", holds=bool(monotone.all() and twice.any()), seeds=len(twice),
        )  # fmt: skip
        outputs = self.outputs(measured)
        off = [np.abs(outputs[p, :, 1 - p]) for p in (0, 1)]
        peaks = [stages.peak(curve) for curve in off]
        heights, times = [float(peak.value) for peak in peaks], [float(peak.time) for peak in peaks]
        yield claim(
            "common-peak",
            "Outputs at the training means leave their axes by μ_p |w₁₂|: farthest at the same step, by 0.36 and 0.71",
            source="Figure 18", measured={"steps": times, "heights": heights},
            expected={"steps": "equal", "heights": [0.356, 0.711], "within": 0.01},
            holds=times[0] == times[1] and bool(np.all(np.abs(np.array(heights) / [0.356, 0.711] - 1) < 0.01)),
        )  # fmt: skip
        half = [float(stages.first_crossing(outputs[p, :, p] / self.mu[p], 0.5).time) for p in (0, 1)]
        yield claim(
            "different-stages",
            "Along their axes they grow at different times: concept 2 is at half its mean after 79 steps, "
            "concept 1 after 400", source="Figure 18", measured={"concept 1": half[0], "concept 2": half[1]},
            expected={"concept 1": 400, "concept 2": 79, "within": "1 step"},
            holds=abs(half[0] - 400) <= 1 and abs(half[1] - 79) <= 1,
        )  # fmt: skip

    def outputs(self, measured: xr.Dataset) -> np.ndarray:
        """Outputs at the training means, μ_p W 1_p, of axes (cluster, step, coordinate)."""
        W = measured.W.values[0]
        return np.stack([self.mu[p] * W[:, :, p] for p in range(len(self.mu))])

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        half, outputs = predicted.half_step.values[0], self.outputs(measured)
        figure, (left, middle, right) = panels(3, size=(4.7, 3.8))
        draw_test_loss(
            left, measured.test_loss.values[0],
            training=measured.loss.values[0], half_steps=half, tolerance=self.tolerance,
        )  # fmt: skip
        left.set_title(f"Losses; seed {self.shown_seed}, τ = {self.scale:g} (chosen)")
        for p, color in enumerate(PALETTE[:2]):
            curve(middle, outputs[p, :, p] / self.mu[p], color=color, label=f"mean {p + 1}: along its axis")
            curve(middle, outputs[p, :, 1 - p] / self.mu[p], color=color, alpha=0.5, linestyle=":", label=None)
        middle.plot([], [], color=INK, linestyle=":", label="off it (both the same)")
        mark_stages(middle, half)
        step_axis(middle, measured.sizes["step"] - 1, half)
        middle.set(ylabel="output / distance of the mean", title="Outputs at the training means")
        middle.legend(loc="upper left")
        for p, color in enumerate(PALETTE[:2]):
            right.plot(*outputs[p].T, color=color, label=f"at training mean {p + 1}")
        right.plot(*(measured.W.values[0] @ np.asarray(self.mu)).T, color=INK, label="at the test point")
        right.plot([0, self.mu[0]], [self.mu[1], 0], "o", color=FAINT, markersize=7, label="training means")
        right.plot([self.mu[0]], [self.mu[1]], "*", color=INK, markersize=12, label="test point")
        right.set(xlabel="output, concept 1", ylabel="output, concept 2", title="Paths of the outputs")
        legend_beside(right)
        return {"training-trajectory": figure}
