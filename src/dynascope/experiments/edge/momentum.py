"""Gradient descent with momentum at its edge of stability, and what a change of its learning rate does."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveFloat, PositiveInt

import dynascope as ds
from dynascope.experiments.documents import EDGE_OF_STABILITY
from dynascope.experiments.edge.optimizer_drawing import COLORS, draw_edges, draw_seeds
from dynascope.experiments.edge.ten_digits import MOST, NEAR, Momenta, Rates, TenDigits, network
from dynascope.figures import THEORY, panels
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import above, agrees, below, falling, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.edge import optimizer_edges

FALL = 0.05
"""A fall of the sharpness: by this part of its largest value so far."""
TURN = (1.0, 1.4)
"""The sharpness from which it first falls, over the edge."""
STATISTIC = (
    "The statistic and the upper limit: chosen after 600 other runs, in which the largest sharpness was 1.03 to "
    "1.35 of the edge."
)
RATES = (
    "The learning rates: at each of them trial runs came to the edge. The tolerance was set after seed 0, the "
    "share after ten seeds."
)
NAMES = ("optimizer", "rate", "momentum", "factor")


class MomentumDescent(ds.Member):
    """An ensemble member: heavy ball or Nesterov, whose rate is multiplied by a factor at some step."""

    optimizer: str
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
    cost = {"quick": 25, "full": 80}
    presets = {"quick": {"seeds": 10}}
    known_failures = {
        "ends-at-the-edge": "Heavy ball with β = 0.8 and 0.9 does not hover: the sharpness overshoots, the oscillation "
        "bursts and throws it to 0.7 to 0.9 of the edge, and it climbs back more and more slowly as the loss falls. "
        "In 100 other runs of each momentum 81 and 31 % end within 10 %, 100 % with β = 0 and 0.5. It is not that the "
        "digits are fitted: gradient descent with the edge of β = 0.9, for as much time η t/(1 - β), is "
        "within 10 % in 10 of 10 runs down to a loss of 0.005, and in 8 of 10 at 0.003.",
        "full/sharpens": "One of 240 runs, of gradient descent, starts at 0.51 of its edge.",
        "loss-falls": "Without momentum, and with Nesterov at β = 0.5, the edge is reached late: after 1,500 steps the "
        "loss of most runs is at 0.6 to 0.8 of its largest value there.",
    }
    control = {"heavy_ball_rates": (0.02, 0.02, 0.02, 0.02), "nesterov_rates": (0.02, 0.02), "scheduled_rate": 0.02}
    pairs = {"heavy_ball_momenta": "heavy_ball_rates", "nesterov_momenta": "nesterov_rates"}
    notes = """A tanh network learns ten digits from small images, full batch, mean squared error. Heavy ball with β = 0
    is gradient descent. A fall is by 5 % of the largest sharpness so far, once that is above half of the edge; where a
    run ends is its median over the second half; with a schedule, over its last quarter. A schedule multiplies the rate
    of heavy ball by a factor in the middle of the run. In the control the rates are so small that the weights hardly
    move, and the edge is far above."""

    heavy_ball_momenta: Momenta = (0.0, 0.5, 0.8, 0.9)
    heavy_ball_rates: Rates = (1.0, 1.2, 1.0, 1.0)
    """The learning rate for each momentum."""
    nesterov_momenta: Momenta = (0.5, 0.9)
    nesterov_rates: Rates = (0.6, 0.4)
    """The learning rate for each momentum."""
    scheduled_momentum: float = Field(0.5, ge=0, lt=1)
    """The momentum of the heavy ball with a schedule."""
    scheduled_rate: float = Field(1.2, gt=0)
    """The rate before it is changed."""
    factors: tuple[PositiveFloat, PositiveFloat] = (1.5, 0.75)
    """The rate after the middle of the run over that before: raised and lowered."""
    seeds: PositiveInt = 40

    def measure(self, seed: int) -> xr.Dataset:
        heavy, nesterov, changed = len(self.heavy_ball_rates), len(self.nesterov_rates), len(self.factors)
        optimizers = ["heavy-ball"] * (heavy + changed) + ["nesterov"] * nesterov
        columns = {
            "rate": (*self.heavy_ball_rates, *[self.scheduled_rate] * changed, *self.nesterov_rates),
            "momentum": (*self.heavy_ball_momenta, *[self.scheduled_momentum] * changed, *self.nesterov_momenta),
            "factor": (*[1.0] * heavy, *self.factors, *[1.0] * nesterov),
        }
        return self.train(optimizers, columns, seed, {"change": np.int32(self.steps // 2)})

    def member(self, optimizer: str) -> MomentumDescent:
        return MomentumDescent(optimizer, self.width, self.depth)

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
        late = ratio.where(ratio.step >= self.steps / 2)
        last = end * predicted.edge / predicted.last_edge
        of_each = xr.Dataset(
            {
                "turn": first_turn(ratio),
                "hover": self.late(ratio),
                "above": (late >= 1).sum("step") / late.count("step"),
                "early": ratio.where(ratio.step <= self.steps / 10).min("step"),
                "fall": measured.loss.isel(step=-1) / measured.loss.where(reached).max("step"),
            }
        )
        return of_each.isel(setting=constant).assign(
            over_first=end.isel(setting=changed).drop_vars(NAMES).rename(setting="schedule"),
            over_last=last.isel(setting=changed).drop_vars(NAMES).rename(setting="schedule"),
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "The sharpness comes to the edge, (2 + 2 β)/η for heavy ball and (2 + 2 β)/(η (1 + 2 β)) for "
        statement += (
            f"Nesterov, and turns back: it first falls by {FALL:.0%} from {TURN[0]:g} to {TURN[1]:g} of the edge "
        )
        turned = (reduced.turn >= TURN[0]) & (reduced.turn <= TURN[1])
        shown = {"smallest": reduced.turn.min(), "median": reduced.turn.median(), "largest": reduced.turn.max()}
        yield _share("at-the-edge", statement, turned, STATISTIC, shown)
        near = np.abs(reduced.hover - 1) <= NEAR
        yield _share("ends-at-the-edge", f"It ends at the edge, to {NEAR:.0%} ", near, RATES, {})
        heavy = reduced.above.isel(setting=reduced.optimizer.values == "heavy-ball").sortby("momentum").mean("seed")
        statement = "The more momentum heavy ball has, the less of the second half is above the edge: mean share"
        shown = {f"β = {float(each.momentum):g}": float(each) for each in heavy}
        post_hoc = "That this is judged: after 400 other runs, with means of 0.94, 0.82, 0.21 and 0.02."
        yield falling("bursts-with-momentum", statement, heavy.values, post_hoc=post_hoc, shown=shown)
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
        figure, ((*edges,), (bursts, schedules)) = panels(2, 2, size=(5.4, 3.5))
        constant, names = measured.factor.values == 1, {"heavy-ball": "heavy ball, β = {momentum:g}"}
        names |= {"nesterov": "Nesterov, β = {momentum:g}"}
        of, limit = measured.sharpness.isel(setting=constant), predicted.edge.isel(setting=constant)
        names_of = measured.optimizer.values
        draw_edges(edges, of, limit, names, ("sharpness", "Top eigenvalue of the Hessian"))
        ratio = (measured.sharpness / predicted.edge).isel(setting=constant & (names_of == "heavy-ball"))
        for index, color in enumerate(COLORS[: ratio.sizes["setting"]]):
            one = ratio.isel(setting=index, seed=0)
            bursts.plot(one.step, one, color=color, linewidth=1.1, label=f"β = {float(one.momentum):g}")
        bursts.axhline(1, **THEORY)
        bursts.set(xlabel="step", ylabel="over the edge", title="Heavy ball, the first seed: bursts", ylim=(0.5, 1.4))
        bursts.legend(loc="upper right")
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


def first_turn(ratio: xr.DataArray) -> xr.DataArray:
    """The largest value so far when the ratio first falls by `FALL` of it, once it is above a half; NaN if it never
    does."""
    values = ratio.transpose(..., "step").values
    largest = np.fmax.accumulate(values, axis=-1)
    fell = (largest > 0.5) & (values < (1 - FALL) * largest)
    first = fell.argmax(axis=-1)[..., None]
    turn = np.where(fell.any(axis=-1), np.take_along_axis(largest, first, axis=-1)[..., 0], np.nan)
    return xr.full_like(ratio.transpose(..., "step").isel(step=0, drop=True), np.nan).copy(data=turn)


def _share(id: str, statement: str, flags: xr.DataArray, post_hoc: str, shown: Mapping[str, object]) -> Claim:
    """The share of runs at the momentum at which it is smallest, beside those at all."""
    shares = flags.mean("seed")
    names = [f"{o} β = {m:g}" for o, m in zip(shares.optimizer.values, shares.momentum.values, strict=True)]
    statement += "(share of runs, at the momentum with the smallest share)"
    every = dict(zip(names, shares.values.tolist(), strict=True))
    return share(id, statement, flags[int(np.argmin(shares.values))], MOST, post_hoc=post_hoc, shown={**every, **shown})
