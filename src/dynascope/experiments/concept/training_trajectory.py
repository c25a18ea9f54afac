"""Figures 17, 18: the training loss falls at every step while the test loss rises and falls."""

from __future__ import annotations

import numpy as np
import xarray as xr
from pydantic import PositiveInt

from dynascope.curves import stages
from dynascope.experiments.concept.symmetric_drawing import curve, draw_test_loss, mark_stages, step_axis
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment
from dynascope.experiments.documents import CONCEPTS
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import FAINT, INK, PALETTE, legend_beside, panels
from dynascope.lab.criteria import About, above, agrees, below, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.concept.staged_path import predicted_runs


class TrainingTrajectory(SymmetricExperiment):
    """Does the training loss show any sign of the detour that the test loss takes?"""

    id = "concept.training-trajectory"
    source = Source(CONCEPTS, "Figures 17, 18")
    cost = {"quick": 5, "full": 6}
    presets = {"quick": {"starts": 200}}
    control = {"scale": 0.001}
    notes = """The start is the one of concept.jacobian-stages (NumPy seed 3, chosen, since it shows two descents). The
    outputs at the training means leave their axes together, by the one minor entry they share, while they grow along
    their axes at different times. The closed forms of the stages neglect the noise term, whose size is that of the
    start: they are judged from the same start made ten times smaller. In the control the start is so small that the
    test loss falls at every step too."""

    shown_seed: int = 3
    """NumPy seed of the start that is drawn; chosen."""
    starts: PositiveInt = 2000
    """Random starts whose training and test losses are compared."""

    known_failures = {
        "irregular-at-different-stages": "One entry, w₁₂, takes both outputs off their axes, so both are farthest "
        "off at the same step. They differ in when they grow along the axes.",
    }

    def measure(self, seed: int) -> xr.Dataset:
        shown = [self.gaussian([self.shown_seed], scale) for scale in (self.scale, self.scale / 10)]
        run = self.train(np.concatenate(shown)).assign_coords(start=["shown", "small"])
        scanned = self.scan(self.gaussian(start_seeds(seed, self.starts)))
        return run[["W", "U", "test_loss", "loss"]].assign(
            rise=("random_start", scanned.rise.values),
            descents=("random_start", scanned.descents.values[0].astype(np.int32)),
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        predicted = predicted_runs(measured, self.mu, self.sigma, self.learning_rate)
        return predicted.assign_coords(start=measured.start)

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        shown, concepts = measured.sel(start="shown"), len(self.mu)
        outputs = self.outputs(measured)
        along = np.stack([outputs[p, :, p] / self.mu[p] for p in range(concepts)])
        off = np.stack([np.linalg.norm(np.delete(outputs[p], p, axis=-1), axis=-1) for p in range(concepts)])
        majors = np.diagonal(measured.W.transpose("start", "step", "row", "column"), axis1=2, axis2=3)
        return measured[["rise", "descents"]].assign(
            test_rise=stages.memorization_depth(shown.test_loss),
            training_rise=np.diff(shown.loss).max() / shown.loss[0],
            height=("concept", stages.peak(off).value),
            peak_step=("concept", stages.peak(off).time),
            half_step=("concept", stages.first_crossing(along, 0.5).time),
            error=np.abs(measured.W - predicted.W).max(("step", "row", "column")),
            stage=(("start", "concept"), stages.first_crossing(np.swapaxes(majors, 1, 2), 0.5).time),
            predicted_stage=predicted.half_step,
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = f"From the shown start (seed {self.shown_seed}, chosen) the test loss rises (share of its start)"
        yield above("training-falls-test-rises", statement, reduced.test_rise, self.tolerance, source="Figure 17")
        statement = "The training loss never rises, from the shown start and from random ones (share of its start)"
        rises = np.append(reduced.rise, reduced.training_rise)
        yield below("training-monotone", statement, rises, 1e-12, source="Figure 17", seeds=self.starts)
        statement = "From some random starts the test loss falls twice (about 0.27 in concept.initialization-breakdown)"
        yield share("test-turns", statement, reduced.descents > 1, 0.15, source="Figure 17", seeds=self.starts)
        statement = "Outputs at the training means leave their axes by μ_p |w₁₂|, at most by 0.36 and 0.71"
        known, steps = xr.DataArray([0.356, 0.711], dims="concept"), {"steps": reduced.peak_step}
        yield agrees("common-peak", statement, reduced.height, known, relative=0.01, source="Figure 18", shown=steps)
        statement = "The outputs at the two means leave their axes the farthest at different steps (steps between)"
        apart, printed = abs(reduced.peak_step.diff("concept")), "at different stages of the training"
        about = About(source="Figure 18", shown=steps, printed=printed)
        yield above("irregular-at-different-stages", statement, apart, 1, **about)
        statement = "They grow along their axes at different times: concept 1 is at half after 400 steps, 2 after 79"
        known = xr.DataArray([400.0, 79.0], dims="concept")
        yield agrees("different-stages", statement, reduced.half_step, known, absolute=1.0, source="Figure 18")
        small, shown = reduced.sel(start="small"), {"from the shown start": reduced.error[0]}
        statement = "From a start ten times smaller the closed forms of the stages give every entry of W at every step"
        yield below("staged-path", statement, small.error, 0.03, source="Section 4.2", shown=shown)
        statement = "There each major reaches 1/2 at the step predicted from its pivot"
        yield agrees("stage-times", statement, small.stage, small.predicted_stage, relative=0.02, source="Section 4.2")

    def outputs(self, measured: xr.Dataset) -> np.ndarray:
        """From the shown start, outputs at the training means, μ_p W 1_p, of axes (cluster, step, coordinate)."""
        W = measured.W.values[0]
        return np.stack([self.mu[p] * W[:, :, p] for p in range(len(self.mu))])

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        half, outputs = reduced.predicted_stage.values[0], self.outputs(measured)
        figure, (left, middle, right) = panels(3, size=(4.7, 3.8))
        first = measured.isel(start=0), predicted.isel(start=0)
        draw_test_loss(left, *first, training=True, tolerance=self.tolerance)
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
