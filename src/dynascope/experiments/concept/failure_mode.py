"""Figure 10: a concept that is not learned, for a while or forever."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from pydantic import PositiveInt

from dynascope.experiments.concept.symmetric_drawing import draw_entries, draw_outputs, draw_test_loss
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment, judge_overlay
from dynascope.experiments.documents import CONCEPTS
from dynascope.experiments.seeds import start_seeds
from dynascope.figures import INK, PALETTE, THEORY, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import About, agrees, below, every, same_shares
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.concept.stage_times import half_steps, plateau_length
from dynascope.theory.concept.staged_path import predicted_runs

SCALES = (0.1, 0.3, 0.5, 1.0)
SPREADS = {0.1: 190, 0.01: 335, 1e-3: 475, 1e-4: 615, 1e-6: 895, 1e-9: 1315}
"""Nearly rank-one starts: their distance ε from rank one, and the reference's median step of w_11 > 1/2."""
LATE = {0.1: 0.0036, 0.3: 0.0011, 0.5: 0.00057, 1.0: 0.00027}
REFERENCE_STARTS = 100_000
"""Shares of so many starts with w_11 < 0.1 after 400 steps in the reference, by size; at τ = 1 a tenth diverge."""


class FailureMode(SymmetricExperiment):
    """Can a concept stay unlearned forever, and how long does it take otherwise?"""

    id = "concept.failure-mode"
    source = Source(CONCEPTS, "Figure 10; Appendix E.3")
    card = ("failure-mode", 1)
    cost = {"quick": 12, "full": 16}
    presets = {"quick": {"starts": 1000, "narrow_starts": 50, "aligned_starts": 100}}
    control = {"narrow_width": 3}
    notes = """The failure lasts only if the rank of the start is too low: with fewer columns of U than concepts the
    weakest is
    never learned, since the rank of U never grows. Any start of full rank learns everything in the end: what the figure
    shows is then a plateau at ½ μ₁², whose length follows from the pivot of the weakest concept. The plateau drawn is
    from a chosen start (NumPy seed 1370); about one Gaussian start in 500 is still on it after 400 steps. The control
    gives the narrow model its third column, and nothing fails."""

    known_failures = {
        "trapped-path": "From a start of full rank the third direction comes in the end: the path only waits there.",
    }

    defaults = {"mu": (0.7, 1.7, 3.0), "sigma": (0.05, 0.05, 0.05), "scale": 0.3, "learning_rate": 0.05}

    steps: PositiveInt = 400
    """The horizon at which the figure stops."""
    shown_seed: int = 1370
    narrow_width: PositiveInt = 2
    """Columns of U in the model that fails forever."""
    narrow_starts: PositiveInt = 200
    narrow_steps: PositiveInt = 8000
    starts: PositiveInt = 4000
    """Random starts, for each size, among which failures are counted."""
    aligned_starts: PositiveInt = 500

    def measure(self, seed: int) -> xr.DataTree:
        shown = np.stack([self.gaussian(self.shown_seed, scale) for scale in (self.scale, 0.1)])
        plateau = self.train(shown, steps=3 * self.steps)
        narrow = self.train(self.gaussian([0], width=self.narrow_width), steps=self.narrow_steps).isel(start=0)
        starts = self.gaussian(start_seeds(seed, self.narrow_starts), width=self.narrow_width)
        lasting = self.scan(starts, steps=self.narrow_steps)
        U = self.gaussian(start_seeds(seed, self.starts), scale=1.0)
        horizons = (self.steps, 2 * self.steps)
        majors = [[self.scan(scale * U, steps=steps).majors.values for steps in horizons] for scale in SCALES]
        random = xr.Dataset({"majors": (("scale", "horizon", "start", "concept"), np.array(majors))})
        near = start_seeds(seed, self.aligned_starts)
        waits = [self.scan(self.aligned(near, 0.5, spread), steps=3000).half_step.values for spread in SPREADS]
        aligned = xr.Dataset({"half_step": (("spread", "start", "concept"), np.array(waits))})
        nodes = {
            "plateau": plateau[["W", "U", "test_loss", "loss"]],
            "narrow": narrow[["W", "U", "test_loss"]],
            "narrow_starts": lasting[["test_loss"]],
            "random": random.assign(U=(("start", "row", "width"), U)).assign_coords(scale=list(SCALES)),
            "aligned": aligned.assign_coords(spread=list(SPREADS)),
        }
        return xr.DataTree.from_dict(nodes)

    def predict(self, measured: xr.DataTree) -> xr.DataTree:
        """The runs with a plateau; when each random start learns the weak concept; and by how many steps the plateau of
        a nearly rank-one start lengthens while ε falls by a factor of e, its pivot by e²."""
        runs = predicted_runs(measured["plateau"].to_dataset(), self.mu, self.sigma, self.learning_rate)
        starts = np.array(SCALES)[:, None, None, None] * measured["random"].U.values
        half = half_steps(starts, self.strengths, self.learning_rate)
        random = xr.Dataset({"half_step": (("scale", "start", "concept"), half)}, {"scale": list(SCALES)})
        longer = plateau_length(jnp.array([-2.0]), jnp.asarray(self.strengths[:1])) / (2 * self.learning_rate)
        nodes = {"plateau": runs, "random": random, "aligned": xr.Dataset({"steps_per_e": float(longer[0])})}
        return xr.DataTree.from_dict(nodes)

    def reduce(self, measured: xr.DataTree, predicted: xr.DataTree) -> xr.DataTree:
        plateau, last = measured["plateau"].to_dataset(), measured["narrow"].to_dataset().isel(step=-1)
        weak, loss = plateau.W.values[:, :, 0, 0], plateau.test_loss.values
        narrow = {
            "off_half_square": np.abs(measured["narrow_starts"].test_loss - self.missing),
            "off_diagonal": float(np.abs(last.W.values - np.diag([0.0, 1, 1])).max()),
            "output": ("concept", last.W.values @ np.asarray(self.mu)),
            "rank": int(np.linalg.matrix_rank(last.U.values)),
        }
        runs = {
            "loss": ("run", loss[:, self.steps]),
            "left": ("run", weak[:, self.steps] / weak[:, : self.steps].max(axis=1)),
            "weak_end": ("run", weak[:, -1]),
            "loss_end": ("run", loss[:, -1]),
            "output_end": ("run", plateau.W.values[:, -1, 0] @ np.asarray(self.mu) / self.mu[0]),
            "rise": float(np.max(np.diff(plateau.loss.values, axis=1))),
            "overlay": ("run", np.abs(predicted["plateau"].W.values - plateau.W.values).max(axis=(1, 2, 3))),
        }
        waits = measured["aligned"].half_step.isel(concept=0)
        slope = float(np.polyfit(np.log(1 / waits.spread.values), waits.median("start").values, 1)[0])
        aligned = {"wait": waits, "slope": slope, "steps_per_e": float(predicted["aligned"].steps_per_e)}
        majors, half = measured["random"].majors.isel(concept=0), predicted["random"].half_step.isel(concept=0)
        random = {"weak_major": majors, "half_step": half}
        nodes = {"narrow": narrow, "plateau": runs, "random": random, "aligned": aligned}
        return xr.DataTree.from_dict({name: xr.Dataset(table) for name, table in nodes.items()})

    @property
    def missing(self) -> float:
        """The test loss without the weakest concept, ½ μ₁²."""
        return 0.5 * self.mu[0] ** 2

    def judge(self, reduced: xr.DataTree) -> Claims:
        narrow = reduced["narrow"].to_dataset()
        seeds, few = narrow.sizes["start"], f"With {self.narrow_width} columns of U for 3 concepts"
        statement = f"{few} the test loss ends at ½ μ₁² = {self.missing:g} in every run (largest difference)"
        yield below("lasting-failure", statement, narrow.off_half_square, 1e-6, seeds=seeds)
        statement = f"{few} W ends at diag(0, 1, 1), the output at (0, μ₂, μ₃) (largest difference of an entry)"
        yield below("missing-concept", statement, narrow.off_diagonal, 1e-6, shown={"output": narrow.output.values})
        statement = "The rank of U is what it was at the start"
        yield agrees("rank-kept", statement, narrow["rank"], self.narrow_width, absolute=0, source="Section 4.2")
        yield from self._judge_plateau(reduced["plateau"].to_dataset())
        yield from self._judge_random(reduced["random"].to_dataset())
        yield from self._judge_aligned(reduced["aligned"].to_dataset())

    def _judge_plateau(self, runs: xr.Dataset) -> Claims:
        chosen = f"The start (NumPy seed {self.shown_seed}; τ = {self.scale:g} and 0.1) was chosen because it shows it"
        statement = f"From the shown start the test loss is near ½ μ₁² after {self.steps} steps"
        yield agrees("plateau", statement, runs.loss, self.missing, relative=0.02, post_hoc=chosen, seeds=2)
        statement = f"There the weak major has fallen: w_11 after {self.steps} steps over its highest value before"
        yield below("weak-major-falls", statement, runs.left, 0.1, post_hoc=chosen, seeds=2)
        statement = "The weak major does not stay at 0: from a start of full rank the plateau ends, and W = I follows "
        statement += "(w_11 in the same runs, three times as long)"
        shown = {"test loss": runs.loss_end.values}
        ends = agrees("plateau-ends", statement, runs.weak_end, 1.0, absolute=0.01, shown=shown, seeds=2)
        printed = "might be suppressed to 0 [...] before it starts to grow, and thus never has chance to grow"
        yield erratum(ends, kind="error", printed=printed, at="Appendix E.3, Figure 10")
        statement = (
            "There the output ends at a point that combines two directions only (the third output over its target)"
        )
        trapped = "trapped at a point that combines only two directions, missing the third direction"
        yield below("trapped-path", statement, runs.output_end, 0.1, printed=trapped, seeds=2)
        statement = "The training loss never rises in these runs (largest rise)"
        yield below("training-monotone", statement, runs.rise, 1e-12, source="Figure 17", seeds=2)
        yield judge_overlay(runs.overlay)

    def _judge_random(self, random: xr.Dataset) -> Claims:
        late, later = (random.weak_major.isel(horizon=k) for k in (0, 1))
        found = {f"τ = {scale:g}": late.sel(scale=scale) < 0.1 for scale in SCALES}
        statement = f"After {self.steps} steps the shares of starts with w_11 < 0.1 are those of an independent program"
        known = {f"τ = {scale:g}": (share, REFERENCE_STARTS) for scale, share in LATE.items()}
        yield same_shares("how-often", statement, found, known, seeds=self.starts)
        statement = (
            f"After {2 * self.steps} steps hardly any has (shares; runs that diverge from large starts do not count)"
        )
        shown = {"diverged at τ = 1": int(np.isnan(later.sel(scale=1.0)).sum())}
        yield below("none-later", statement, (later < 0.1).mean("start"), 0.002, shown=shown, seeds=self.starts)
        small = random.sel(scale=0.1)
        expected, slow = small.half_step > self.steps, ~(late.sel(scale=0.1) >= 0.5)
        clear = np.abs(small.half_step / self.steps - 1) >= 0.05
        statement = "The pivot predicts which small starts (τ = 0.1) have not learned the weak concept by the horizon, "
        statement += "where the predicted time is 5 % or more away from it"
        shown = {"late": int(slow.sum()), "predicted to be late": int(expected.sum())}
        about = About(shown=shown, source="Appendix E.3", seeds=self.starts)
        yield every("foretold", statement, (expected == slow).where(clear), **about)

    def _judge_aligned(self, aligned: xr.Dataset) -> Claims:
        medians, seeds = aligned.wait.median("start"), self.aligned_starts
        statement = (
            "The plateau lengthens by 1/(2 a₁ η) steps while ε, the distance of the start from rank one, falls by e"
        )
        theory = float(aligned.steps_per_e)
        yield agrees(
            "plateau-length", statement, aligned.slope, theory, relative=0.05, source="Appendix E.3", seeds=seeds
        )
        error = 3.29 * 1.2533 * aligned.wait.std("start") * np.sqrt(1 / seeds + 1 / 200)
        off = np.abs(medians - list(SPREADS.values())) / (error + 5)
        statement = "The median lengths are those of an independent program (differences over 99.9 % of sampling)"
        about = About(shown={"medians": medians}, source="Appendix E.3", seeds=seeds)
        yield below("plateau-medians", statement, off, 1, **about)

    def draw(self, measured: xr.DataTree, predicted: xr.DataTree, reduced: xr.DataTree) -> Figures:
        figure, grid = panels(4, 2, size=(4.4, 3.2))
        narrow = measured["narrow"].to_dataset()
        plateau, theory = (tree["plateau"].to_dataset().isel(start=0) for tree in (measured, predicted))
        draw_test_loss(grid[0, 0], narrow, tolerance=self.tolerance)
        grid[0, 0].axhline(self.missing / float(narrow.test_loss[0]), **THEORY, label="½ μ₁²")
        grid[0, 0].legend(loc="upper right")
        grid[0, 0].set_title(f"{self.narrow_width} columns for 3 concepts: forever")
        draw_entries(grid[0, 1], narrow.W.values, 3)
        grid[0, 1].set_title("Jacobian")
        draw_test_loss(grid[1, 0], plateau, theory, tolerance=self.tolerance)
        grid[1, 0].axvline(self.steps, color=INK, linewidth=0.8)
        grid[1, 0].text(self.steps, 0.9, " horizon", fontsize=8)
        grid[1, 0].legend(loc="upper left")
        grid[1, 0].set_title(f"Full rank, seed {self.shown_seed} (chosen): a plateau")
        draw_entries(grid[1, 1], plateau.W.values, 3, predicted=theory)
        grid[1, 1].set_title("Jacobian; vertical: predicted stages")
        for axes, W, title in (
            (grid[0, 2], narrow.W.values, "The path ends at two directions"),
            (grid[1, 2], plateau.W.values, "The path is held up there"),
        ):
            draw_outputs(axes, W, self.mu)
            axes.set_title(title)
        _draw_lengths(grid[0, 3], reduced["aligned"].to_dataset())
        self._draw_late(grid[1, 3], reduced["random"].to_dataset())
        return {"failure-mode": figure}

    def _draw_late(self, axes: Axes, random: xr.Dataset) -> None:
        style = {"markersize": 3, "markeredgewidth": 0, "alpha": 0.5}
        for scale, color in zip(SCALES[:3], PALETTE, strict=False):
            one = random.sel(scale=scale)
            axes.plot(one.half_step, one.weak_major[0], "o", color=color, label=f"τ = {scale:g}", **style)
        axes.axvline(self.steps, **THEORY, label="the horizon")
        axes.set(xlabel="predicted step of w₁₁ = ½", ylabel=f"w₁₁ after {self.steps} steps")
        axes.set_title("Which starts are late")
        axes.legend(loc="lower left")


def _draw_lengths(axes: Axes, aligned: xr.Dataset) -> None:
    singular, medians = 1 / aligned.spread.values, aligned.wait.median("start").values
    low, high = aligned.wait.quantile([0.1, 0.9], "start").values
    axes.fill_between(singular, low, high, color=PALETTE[1], alpha=0.2, label="10 to 90 % of starts")
    axes.plot(singular, medians, "o-", color=PALETTE[1], label="median")
    line = medians[0] + np.log(singular / singular[0]) * float(aligned.steps_per_e)
    axes.plot(singular, line, **THEORY, label="slope 1/(2 a₁ η)")
    axes.set(xscale="log", xlabel="1/ε, how singular the start is", ylabel="step of w₁₁ > ½")
    axes.set_title("Length of the plateau")
    axes.legend(loc="upper left")
