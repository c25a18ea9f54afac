"""Statements of the paper's theory that do not hold as printed, each with a counter-example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from dynascope.curves.stages import first_crossing
from dynascope.experiments.rank.diagonal_head import Scale, regression
from dynascope.experiments.rank.paper import PAPER
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, erratum
from dynascope.lab.criteria import above, agrees, every
from dynascope.lab.experiment import Experiment, Source
from dynascope.tasks.diagonal import exit_and_return, toy_head
from dynascope.theory.rank import errata
from dynascope.theory.rank.diagonal_flow import plain_flow, reduced_flow
from dynascope.theory.rank.greedy_ranks import greedy_stages, staircase

MINIMUM = {"half_printed": True, "half_meant": False, "plateau_printed": False, "plateau_meant": True}
"""Where Assumption 4.4 holds as printed and as meant: see `errata.printed_minimum`."""
RETURNING = 2
"""The coordinate of the linear example that leaves the support and returns."""


class RankErrata(Experiment):
    """Which statements about greedy incremental learning do not hold as printed?"""

    id = "rank.errata"
    source = Source(PAPER, "Algorithm 1, Assumption 4.4, Appendices A and C")
    cost = {"quick": 4, "full": 180}
    presets = {"quick": {"scale": 1e-16, "teachers": 0}}
    control = {"printed_start": 1.0}
    notes = """The theorem holds; what is wrong in print is slips that the paper repairs elsewhere. That several heads
    of one layer tie, which is more than a slip, is an erratum of rank.diagonal-transformer. All numbers are from one
    linear example in four coordinates, except the exits of attention heads. Two things are needed to carry out
    Algorithm 1 on a computer that the paper need not say: coordinates of the support do not race in (10), since their
    force is not exactly 0; and the flow must be integrated in reduced coordinates. Misprints without consequence for a
    number: indices in (13) and Assumption 4.3; R^p for R^2p; in Lemma C.5 nondecreasing for nonincreasing, z^k for u^k,
    4 rho K for about 10 rho K, and Assumption 4.4 used where weights are balanced up to alpha^2; in C.6 an upper bound
    without the bar over its g; in C.7 the hypothesis, which should be t_(k+1) > T_(k+1) + epsilon; in C.8 the interval,
    which should be (c/2, 2 - c/2); in C.9 w for log_alpha w; in D.7 u u for u v and K_R for R; in Appendix A a reversed
    set difference. The control starts Algorithm 1 at b = 1, as it should."""

    precision: Literal["float32", "float64"] = "float64"
    scale: Scale = 1e-32
    printed_start: float = Field(0.0, ge=0, le=2)
    """The initial b, as printed in line 1 of Algorithm 1."""
    horizon: float = Field(8.9, gt=0)
    dim: PositiveInt = 50
    tokens: PositiveInt = 10
    samples: PositiveInt = 1000
    kept: PositiveInt = 5
    """Nonzero coordinates of each product of a sparse teacher."""
    teachers: int = Field(1, ge=0)
    """The number of dense and of sparse teachers whose students are tested for coordinates that leave the support."""
    stages: PositiveInt = 7
    """The number of stages that are followed."""

    def measure(self, seed: int) -> xr.DataTree:
        example = exit_and_return()
        task, times = example.loss(), np.linspace(0, self.horizon, 400)
        exact = reduced_flow(task, example.u, example.v, [self.scale], times)["product"].values[0]
        u, v = (jnp.asarray(self.scale * part) for part in (example.u, example.v))
        plain = np.asarray(plain_flow(task, u, v, jnp.asarray(-np.log(self.scale) * times)))
        dims = ("time", "coordinate")
        flow = xr.Dataset({"product": (dims, exact), "plain_product": (dims, plain)}, {"time": times})
        if self.teachers:
            exits = [[self.exits(number, kept) for number in range(self.teachers)] for kept in (None, self.kept)]
            flow["exits"] = (("kind", "teacher", "stage_number"), exits)
            flow = flow.assign_coords(kind=["dense", "sparse"])
        return xr.DataTree.from_dict({"flow": flow})

    def exits(self, number: int, kept: int | None) -> list[int]:
        """The number of coordinates that leave the support in each of the first stages of a head."""
        task = regression(toy_head(number, self.dim, self.tokens, self.samples, kept))
        found = greedy_stages(task, 2 * self.dim, most=self.stages + 1)[1:]
        return [len(stage.left) for stage in found] + [0] * (self.stages - len(found))

    def predict(self, measured: xr.DataTree) -> xr.DataTree:
        """The limit of the flow, when the coordinate leaves and returns in it, and the numbers of the errata."""
        stages = greedy_stages(exit_and_return().loss(), 4)
        leaves = [stage.time for stage in stages if RETURNING in stage.left]
        returns = [stage.time for stage in stages[1:] if stage.winner == RETURNING and stage.sign > 0]
        limit = staircase(stages, measured["flow"].time.values).assign(leaves=leaves[0], returns=returns[0])
        numbers: dict[str, Any] = {
            "printed_start": errata.first_times(self.printed_start),
            "right_start": errata.first_times(1.0),
            "strict_minimum": errata.printed_minimum(),
            "sign_convention": errata.sign_convention(),
        }
        return xr.DataTree.from_dict({"limit": limit} | {name: xr.Dataset(found) for name, found in numbers.items()})

    def reduce(self, measured: xr.DataTree, predicted: xr.DataTree) -> xr.DataTree:
        flow, limit = measured["flow"].to_dataset(), predicted["limit"]
        back = {
            name: float(first_crossing(flow[name].values[:, RETURNING], 0.25, flow.time.values).time)
            for name in ("product", "plain_product")
        }
        times = xr.Dataset({"back": back["product"], "back_plain": back["plain_product"], "returns": limit.returns})
        if "exits" in flow:
            times["exits"] = flow.exits.sum("stage_number")
        numbers = {name: node for name, node in predicted.children.items() if name != "limit"}
        return xr.DataTree.from_dict({"times": times} | {name: node.to_dataset() for name, node in numbers.items()})

    def judge(self, reduced: xr.DataTree) -> Iterable[Claim]:
        zero, one = (
            {name: float(value) for name, value in reduced[key].data_vars.items()}
            for key in ("printed_start", "right_start")
        )
        statement = (
            "b starts at 1, as in Appendix C. From 0 every coordinate with a positive force is learned at time 0"
        )
        at_once = every("starts-at-one", statement, [time == 0 for time in zero.values()], shown=zero | {"from 1": one})
        yield erratum(at_once, kind="misprint", printed="b^0, θ^0 ← 0 ∈ R^p, T_0 ← 0", at="Algorithm 1, line 1")
        minimum = {name: bool(value) for name, value in reduced["strict_minimum"].data_vars.items()}
        refuted = [minimum[name] == expected for name, expected in MINIMUM.items()]
        statement = (
            "The right side lacks L(θ^k), which Lemma C.5 uses. As printed, half of the first plateau satisfies the "
            "assumption, which is no minimum, and the plateau itself does not if a constant is taken off the loss"
        )
        printed = "L(ũ, s^k ⊙ ũ) ≥ c_k ||u^k - ũ||²"
        counter = every("strict-minimum", statement, refuted, shown=minimum)
        yield erratum(counter, kind="misprint", printed=printed, at="Assumption 4.4")
        loss = {name: float(value) for name, value in reduced["sign_convention"].data_vars.items()}
        statement = "Both are multiplied by sgn(u); as printed, the product and the loss change where u v < 0"
        changed = [not np.isclose(loss["printed"], loss["own"]), np.isclose(loss["both"], loss["own"])]
        printed = "ũ_α(0) = sgn(u_α(0)) u_α(0) and ṽ_α(0) = sgn(v_α(0)) v_α(0)"
        counter = every("sign-convention", statement, changed, shown=loss)
        yield erratum(counter, kind="misprint", printed=printed, at="Appendix C.3")
        times = reduced["times"]
        statement = "A coordinate that leaves the support can return: in the linear example the third does, with the "
        statement += "opposite sign, at the time of Algorithm 1 (the paper's own run has no exits)"
        kinds = times.kind.values.tolist() if "exits" in times else []
        shown = {f"exits of {kind} teachers": times.exits.sel(kind=kind).values for kind in kinds}
        yield agrees("supports-shrink", statement, times.back, float(times.returns), absolute=0.1, shown=shown)
        statement = "Integrated in u and v themselves, in float64, it does not return then: u - v, of order alpha², is "
        statement += "lost to rounding once u v is not small (difference of the times; nan: never)"
        late = np.nan_to_num(abs(float(times.back_plain - times.returns)), nan=np.inf)
        yield above("float64-loses-exits", statement, late, 0.5, source="Appendix A")

    def draw(self, measured: xr.DataTree, predicted: xr.DataTree, reduced: xr.DataTree) -> Mapping[str, Figure]:
        flow, limit = measured["flow"], predicted["limit"]
        figure, both = panels(2, size=(5.6, 3.8), sharey=True)
        titles = {"product": "Reduced coordinates", "plain_product": "u and v themselves, in float64"}
        for axes, (name, title) in zip(both, titles.items(), strict=True):
            for i in range(4):
                axes.plot(flow.time, flow[name].values[:, i], color=PALETTE[i], label=f"coordinate {i}")
                path = limit["product"].values[:, i]
                axes.plot(flow.time, path, drawstyle="steps-post", **{**THEORY, "linewidth": 0.7})
            axes.set(xlabel="rescaled time", title=f"{title}, α = {self.scale:g}")
        both[0].set_ylabel("β = u v; α → 0 (dashed)")
        both[0].legend(loc="center", bbox_to_anchor=(0.5, 0.56), ncols=2, fontsize=8)
        return {"errata": figure}
