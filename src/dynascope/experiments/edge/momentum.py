"""Gradient descent with momentum at its edge of stability, and what a change of its learning rate does."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveFloat

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import EDGE_OF_STABILITY
from dynascope.experiments.edge.optimizer_drawing import COLORS, draw_edges, draw_seeds
from dynascope.experiments.edge.ten_digits import CHOSEN, MOST, NEAR, TenDigits, network, with_settings
from dynascope.figures import THEORY, panels
from dynascope.lab.criteria import above, agrees, below, share
from dynascope.lab.experiment import Claims, Figures, Source, Values
from dynascope.theory.edge import optimizer_edges

RATES = (
    CHOSEN
    + " Nesterov with β = 0.5 came to it late in two runs at the rate 0.45. Heavy ball with β = 0.9 fell back to "
    "0.83 of its edge once the digits were fitted, and is left out."
)


class MomentumDescent(ds.Member):
    """An ensemble member: heavy ball or Nesterov, whose rate is multiplied by a factor at some step."""

    optimizer: Literal["heavy-ball", "nesterov"]
    width: int
    depth: int

    def __call__(
        self, setting: tuple[Array, Array, Array], seed: Array, change: Array, x: Array, y: Array
    ) -> ds.Descent:
        rate, momentum, factor = setting
        schedule = lambda step: jnp.where(step < change, rate, rate * factor)  # noqa: E731
        optimizer = optax.sgd(schedule, momentum=momentum, nesterov=self.optimizer == "nesterov")
        probes = {"loss": ds.probes.loss(), "sharpness": ds.probes.sharpness()}
        model = network(seed, self.width, self.depth, x.shape[1])
        return ds.Descent(model, ds.tasks.Supervised("mse"), optimizer, data=(x, y), probes=probes)


class Momentum(TenDigits):
    """Does momentum move the edge of stability to where it loses stability on a quadratic?"""

    id = "edge.momentum"
    source = Source(EDGE_OF_STABILITY, "Section 2")
    cost = {"quick": 15, "full": 20}
    presets = {"quick": {"seeds": 2}}
    known_failures = {
        "loss-falls": "Without momentum, and with Nesterov at β = 0.5, the edge is reached late: after 1,500 steps the "
        "loss of most runs is at 0.6 to 0.77 of its largest value there.",
    }
    control = {"heavy_ball_rates": (0.02, 0.02, 0.02), "nesterov_rates": (0.02, 0.02), "scheduled_rate": 0.02}
    notes = """A tanh network learns ten digits from small images, full batch, mean squared error. Heavy ball with β = 0
    is gradient descent. Numbers are medians over the second half of the run; with a schedule, over its last quarter. A
    schedule multiplies the rate of heavy ball by a factor in the middle of the run. In the control the rates are so
    small that the weights hardly move, and the edge is far above."""

    heavy_ball_momenta: Values = (0.0, 0.5, 0.8)
    heavy_ball_rates: Values = (1.0, 1.2, 1.0)
    """The learning rate for each momentum."""
    nesterov_momenta: Values = (0.5, 0.9)
    nesterov_rates: Values = (0.6, 0.4)
    """The learning rate for each momentum."""
    scheduled_momentum: float = Field(0.5, ge=0, lt=1)
    """The momentum of the heavy ball with a schedule."""
    scheduled_rate: float = Field(1.2, gt=0)
    """The rate before it is changed."""
    factors: tuple[PositiveFloat, PositiveFloat] = (1.5, 0.75)
    """The rate after the middle of the run over that before: raised and lowered."""

    def measure(self, seed: int) -> xr.Dataset:
        changed = len(self.factors)
        rates = [*self.heavy_ball_rates, *[self.scheduled_rate] * changed]
        momenta = [*self.heavy_ball_momenta, *[self.scheduled_momentum] * changed]
        factors = [*[1.0] * len(self.heavy_ball_rates), *self.factors]
        heavy_ball = self._train("heavy-ball", rates, momenta, factors, seed)
        kept = [1.0] * len(self.nesterov_rates)
        nesterov = self._train("nesterov", self.nesterov_rates, self.nesterov_momenta, kept, seed)
        return xr.concat([heavy_ball, nesterov], "setting")

    def _train(self, name: Any, rates: Any, momenta: Any, factors: Any, seed: int) -> xr.Dataset:
        settings = tuple(np.asarray(values, self.precision) for values in (rates, momenta, factors))
        over = {"setting": settings, "seed": member_seeds(seed, self.seeds)}
        fixed = {**self.examples(), "change": np.int32(self.steps // 2)}
        member = MomentumDescent(name, self.width, self.depth)
        trace = ds.ensemble(member, over, steps=self.steps, record=self.record, fixed=fixed).trace
        named = with_settings(trace, [name] * len(rates), rates, momenta)
        return named.assign_coords(factor=("setting", list(factors)))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The edge of each setting, with the rate before and after it changes."""
        rate, momentum = measured.rate.values, measured.momentum.values
        heavy, nesterov = optimizer_edges.heavy_ball(rate, momentum), optimizer_edges.nesterov(rate, momentum)
        edge = np.where(measured.optimizer.values == "nesterov", nesterov, heavy)
        return xr.Dataset({"edge": ("setting", edge), "last_edge": ("setting", edge / measured.factor.values)})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        ratio = measured.sharpness / predicted.edge
        end = ratio.where(ratio.step >= 3 * self.steps / 4).median("step")
        constant, changed = measured.factor.values == 1, measured.factor.values != 1
        reached = (ratio >= 1).cumsum("step") > 0
        fall = measured.loss.isel(step=-1) / measured.loss.where(reached).max("step")
        last = end * predicted.edge / predicted.last_edge
        return xr.Dataset(
            {
                "hover": self.late(ratio).isel(setting=constant),
                "early": ratio.where(ratio.step <= self.steps / 10).min("step").isel(setting=constant),
                "fall": fall.isel(setting=constant),
            }
        ).assign(
            over_first=end.isel(setting=changed).rename(setting="schedule"),
            over_last=last.isel(setting=changed).rename(setting="schedule"),
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "Heavy ball ends with the sharpness (2 + 2 β)/η, Nesterov with (2 + 2 β)/(η (1 + 2 β)), "
        statement += f"to {NEAR:.0%} (share of runs)"
        shown = {"smallest": float(reduced.hover.min()), "largest": float(reduced.hover.max())}
        yield share("at-the-edge", statement, np.abs(reduced.hover - 1) <= NEAR, MOST, post_hoc=RATES, shown=shown)
        statement = "It comes from below: in the first tenth of the run its least value is under half of the edge"
        yield below("sharpens", statement, reduced.early, 0.5)
        statement = (
            "At the edge training goes on: the loss at the end, over its largest value since the edge was reached"
        )
        yield below("loss-falls", statement, reduced.fall, 0.5)
        raised, lowered = (factor > 1 for factor in self.factors), (factor < 1 for factor in self.factors)
        ends = reduced.over_last[list(raised)]
        shown = {"share that diverges": float(ends.isnull().mean())}
        post_hoc = "That the runs which diverge at the change are left out: one of ten does."
        statement = (
            "When the rate is raised, the sharpness falls to the new edge, unless the run diverges: ratio at the end"
        )
        ends = ends.dropna("seed", how="all")
        yield agrees("falls-to-a-new-edge", statement, ends, 1.0, relative=0.1, post_hoc=post_hoc, shown=shown)
        statement = "When the rate is lowered, it rises again: at the end, over the edge before"
        yield above("rises-again", statement, reduced.over_first[list(lowered)], 1.1)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (*edges, schedules) = panels(3, size=(4.8, 3.7))
        constant, names = measured.factor.values == 1, {"heavy-ball": "heavy ball, β = {momentum:g}"}
        names |= {"nesterov": "Nesterov, β = {momentum:g}"}
        of, limit = measured.sharpness.isel(setting=constant), predicted.edge.isel(setting=constant)
        draw_edges(edges, of, limit, names, ("sharpness", "Top eigenvalue of the Hessian"))
        middle = self.steps // 2
        for color, setting in zip(COLORS, np.flatnonzero(~constant), strict=False):
            of, theory = measured.sharpness.isel(setting=setting), predicted.isel(setting=setting)
            draw_seeds(schedules, of, color, f"rate × {float(of.factor):g}")
            steps, limits = (
                (0, middle, middle, self.steps),
                (theory.edge, theory.edge, theory.last_edge, theory.last_edge),
            )
            schedules.plot(steps, [float(each) for each in limits], **THEORY)
        schedules.set(xlabel="step", ylabel="sharpness", title="The rate changes in the middle of the run")
        schedules.set_ylim(0, 1.4 * float(predicted.last_edge.isel(setting=~constant).max()))
        schedules.legend(loc="upper left")
        return {"momentum": figure}
