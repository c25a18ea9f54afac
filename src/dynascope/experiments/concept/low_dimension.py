"""Figures 13 and 14: three layers in three dimensions also memorize on the way, sooner with stronger signals."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.concept import transients
from dynascope.experiments.concept.sim_experiment import PUBLISHED, Signals, SimExperiment
from dynascope.experiments.concept.transients import ReferenceShare, Turn
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import panels
from dynascope.lab.claims import Claim, share_of
from dynascope.lab.criteria import About, above, agrees, every, rising, same_shares, share
from dynascope.lab.experiment import Claims, Figures, Source

SHARES = {"μ = (1, 2)": ReferenceShare(0.30, 400), "μ = (2, 4)": ReferenceShare(0.25, 400)}
"""Shares with two descents or more, population gradient, recorded every fifth step, by an independent program."""
TURNS = {
    (230, 1.0): Turn(0.079, 10, 0.333, 58),
    (230, 2.0): Turn(0.090, 2, 0.342, 15),
    (248, 1.0): Turn(0.058, 16, 0.286, 106),
    (248, 2.0): Turn(0.061, 4, 0.283, 25),
}
"""By NumPy start and μ₁: the first minimum over the start and its step, the maximum and its step."""


class LowDimension(SimExperiment):
    """Do three layers in three dimensions memorize on the way, and sooner with a stronger signal?"""

    id = "concept.low-dimension"
    source = Source(CONCEPTS, "Figures 13 and 14")
    cost = {"quick": 12, "full": 60}
    presets = {
        "quick": {"population_seeds": 100, "slow_seeds": 50, "sum_seeds": 50},
        "code": PUBLISHED | {"learning_rate": 0.01, "sigma": (0.2236, 0.2236), "population_seeds": 0, "chosen": ()},
    }
    control = {"depth": 1}
    notes = """How often: 3 of 10 random starts; the two drawn alone were chosen for the depth of their detour. In
    gradient flow the signals only set the clock, and the same starts memorize for both. With the paper's learning
    rate the large signals show it more often, because their first steps are so large that the loss overshoots; recorded
    at every fifth step only, as by the independent program, many of these turns are missed. Preset `code` is what the
    authors' published program runs: learning rate 0.01, a third cluster at the origin, σ read as a variance, biases,
    one shuffle, a test cluster. With its smaller steps the large signals lose their surplus."""

    defaults = {"dim": 3, "depth": 3, "rotate": False, "seeds": 100}

    mu: tuple[float, float] = (1.0, 2.0)
    factor: float = Field(2.0, gt=1)
    """The ratio of the large signals to the small ones."""
    sigma: tuple[float, float] = (0.05, 0.05)
    population_seeds: int = Field(400, ge=0)
    """Starts in each share of the population gradient; 0 leaves these out."""
    slow_seeds: PositiveInt = 200
    """Number of these starts that are run again with steps ten times smaller."""
    sum_seeds: PositiveInt = 400
    """Starts descended with the loss summed over coordinates, as eq. (2.1) is printed."""
    chosen: tuple[int, ...] = (230, 248)
    """Seeds of NumPy's generator, chosen because their transient is deep."""

    def signals(self) -> Signals:
        return [(self.mu, self.sigma), (tuple(self.factor * m for m in self.mu), self.sigma)]

    def names(self) -> list[str]:
        return [f"μ = ({mu[0]:g}, {mu[1]:g})" for mu, _ in self.signals()]

    def measure(self, seed: int) -> xr.DataTree:
        record = ds.log_steps(self.steps(2), 600)
        traces = {"sgd": self.train(self.signals(), seed, record=record).drop_dims("start_step")}
        if self.population_seeds:
            traces["shares"] = self._population(seed)
        if self.chosen:
            traces["chosen"] = transients.from_starts(self, self.signals(), self.chosen)
        return xr.DataTree.from_dict(traces)

    def _population(self, seed: int) -> xr.Dataset:
        """Population gradient: which starts memorize (by every step, every fifth, with small steps), when each has
        settled, and how far the test loss still swings over the last 200 steps, for both normalizations."""

        def losses(**changes: Any) -> np.ndarray:
            trace = self.train(self.signals(), seed, **{"record": 1, "samples": None, **changes})
            return trace.test_loss.transpose("signal", "seed", "step").values

        def swing(loss: np.ndarray) -> np.ndarray:
            return np.ptp(loss[..., -200:], axis=-1) / loss[..., 0]

        loss = losses(seeds=self.population_seeds)
        summed = losses(seeds=self.sum_seeds, norm="sum")
        steps = 10 * self.steps(2) // 3
        rate, record = self.learning_rate / 10, ds.log_steps(steps, 1500)
        slow = losses(seeds=self.slow_seeds, learning_rate=rate, steps=steps, record=record)
        open_ = loss > 0.01 * loss[..., :1]
        table = {
            "every_step": (("signal", "seed"), transients.memorizes(loss)),
            "every_fifth": (("signal", "seed"), transients.memorizes(loss[..., ::5])),
            "slow": (("signal", "slow_seed"), transients.memorizes(slow)),
            "settled": (("signal", "seed"), loss.shape[-1] - np.argmax(open_[..., ::-1], axis=-1)),
            "swing_mean": (("signal", "seed"), swing(loss)),
            "swing_sum": (("signal", "sum_seed"), swing(summed)),
            "sum_loss": (("signal", "step"), summed[:, 0]),
        }
        return xr.Dataset(table)

    def predict(self, measured: xr.DataTree) -> xr.Dataset | None:
        """Gradient flow from the chosen starts: in it, μ only sets the clock."""
        return transients.nearly_flow(self, self.signals(), self.chosen) if self.chosen else None

    def reduce(self, measured: xr.DataTree, predicted: xr.Dataset | None) -> xr.DataTree:
        signals = {"signal": self.names()}
        sgd = measured["sgd"].to_dataset().assign_coords(signals)
        tree = {"sgd": xr.Dataset({"descents": transients.count_descents(sgd.test_loss)})}
        if self.population_seeds:
            tree["shares"] = measured["shares"].to_dataset().drop_vars("sum_loss").assign_coords(signals)
        if predicted is not None:
            turns, flow = (transients.first_turns(runs) for runs in (measured["chosen"].to_dataset(), predicted))
            descents = transients.count_descents(predicted.test_loss)
            tree["chosen"] = xr.Dataset({"turn": turns, "flow_turn": flow, "flow_descents": descents})
        return xr.DataTree.from_dict(tree)

    def judge(self, reduced: xr.DataTree) -> Claims:
        twice = (reduced["sgd"].descents >= 2).transpose("signal", "seed")
        statement = "SGD shows transient memorization for both signals, in more starts than one layer does (0.01)"
        shares = dict(zip(self.names(), map(share_of, twice.values), strict=True))
        yield above("both-signals", statement, twice.mean("seed"), 0.1, shown=shares)
        if self.population_seeds:
            yield from self._judge_population(reduced["shares"].to_dataset())
        if self.chosen:
            chosen = reduced["chosen"].to_dataset()
            yield transients.judge_flow(chosen.flow_descents)
            small, large = (chosen.flow_turn.isel(signal=k).sel(reading=["minimum", "maximum"]) for k in (0, 1))
            statement = "In gradient flow the signals only set the clock: the loss turns at the same levels for both"
            yield agrees("flow-clock", statement, large, small, absolute=0.01, seeds=len(self.chosen))
            if self.as_reference():
                cases = {
                    (start, mu[0]): (k, start) for k, (mu, _) in enumerate(self.signals()) for start in self.chosen
                }
                turns = {case: chosen.turn.isel(signal=k).sel(start=start).values for case, (k, start) in cases.items()}
                yield transients.judge_turns(turns, {case: TURNS[case] for case in turns if case in TURNS})

    def as_reference(self) -> bool:
        """Whether the setting is the one in which the reference numbers were measured."""
        setting = ("mu", "factor", "sigma", "dim", "depth", "width", "norm", "init_scale", "origin", "bias", "rotate")
        return self.has_defaults(*setting, "learning_rate", "epochs", "batch", "activation")

    def _judge_population(self, shares: xr.Dataset) -> Claims:
        about: About = {"source": "Figure 14", "seeds": self.population_seeds}
        if self.as_reference():
            statement = "Population gradient: the shares are those of an independent program, every fifth step recorded"
            fifth = {name: shares.every_fifth.sel(signal=name) for name in self.names()}
            yield same_shares("shares", statement, fifth, SHARES, seeds=self.population_seeds)
        missed = (shares.every_step & ~shares.every_fifth).mean("seed")
        statement = "Recording every fifth step only misses turns, more of them where learning is faster: shares"
        yield rising("coarse-recording", statement, missed, along="signal", **about)
        same = shares.slow.isel(signal=0) == shares.slow.isel(signal=1)
        statement = "With steps ten times smaller the same starts memorize for both signals: the surplus is the step's"
        yield share("signal-sets-the-clock", statement, same, 0.95, source="Figure 13", seeds=self.slow_seeds)
        a = self.strengths(self.signals())
        ratio = (shares.settled.isel(signal=0) / shares.settled.isel(signal=1)).median("seed")
        statement = "Learning takes a time proportional to 1/μ²: ratio of the steps to a test loss of 1 % (median)"
        yield agrees("faster", statement, ratio, a[1, 0] / a[0, 0], relative=0.1, **about)
        if self.norm == "mean":
            yield self._judge_norms(shares, a.max(axis=1))

    def _judge_norms(self, shares: xr.Dataset, strongest: np.ndarray) -> Claim:
        curvature, right = self.depth * xr.DataArray(strongest, dims="signal"), []
        for norm, rate in (("sum", self.learning_rate), ("mean", self.learning_rate * 2 / self.dim)):
            unstable = rate * curvature > 2
            right.append(((shares[f"swing_{norm}"] > 1e-3) == unstable).values.ravel())
        statement = "Summed over coordinates (eq. 2.1) the loss swings forever exactly where rate × L max a exceeds 2"
        return every("sum-oscillates", statement, np.concatenate(right), source="Equation 2.1", seeds=self.sum_seeds)

    def draw(self, measured: xr.DataTree, predicted: xr.Dataset | None, reduced: xr.DataTree) -> Figures:
        figures = {}
        if predicted is not None:
            figures["low-dimension"] = self._draw_chosen(measured["chosen"].to_dataset(), predicted)
        sgd = measured["sgd"].to_dataset()
        figure, columns = panels(2 + bool(self.population_seeds))
        for k, (axes, name) in enumerate(zip(columns, self.names(), strict=False)):
            transients.draw_losses(axes, sgd.isel(signal=k), name)
            axes.legend(loc="upper right")
        if self.population_seeds:
            colors = (transients.SECOND, transients.MEMORIZING)
            for curve, name, color in zip(measured["shares"].sum_loss.values, self.names(), colors, strict=True):
                columns[2].plot(curve / curve[0], color=color, label=name, linewidth=0.9)
            transients.loss_axes(columns[2])
            columns[2].set_title("The loss summed over coordinates")
            columns[2].legend(loc="upper right")
        figures["sgd"] = figure
        return figures

    def _draw_chosen(self, chosen: xr.Dataset, flow: xr.Dataset) -> Figure:
        figure, grid = panels(2, 2)
        for k, ((mu, _), name) in enumerate(zip(self.signals(), self.names(), strict=True)):
            plane, losses = grid[:, k]
            transients.draw_chosen(plane, losses, chosen.isel(signal=k), flow.isel(signal=k), mu)
            plane.set_title(f"{name}, output at the test point")
            losses.set_title(f"{name}, test loss")
        return figure
