"""Statements of the paper's theory that do not hold as printed, each with a counter-example."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.curves.stages import first_crossing
from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import Scale
from dynascope.figures import PALETTE, THEORY, panels
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, agrees, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.diagonal import exit_and_return
from dynascope.theory.rank import errata
from dynascope.theory.rank.diagonal_flow import plain_flow, reduced_flow
from dynascope.theory.rank.greedy_ranks import greedy_stages, staircase

MINIMUM = {"half_printed": True, "half_meant": False, "plateau_printed": False, "plateau_meant": True}
"""Whether Assumption 4.4 holds as printed and as meant: see `errata.printed_minimum`."""
RETURNING = 2
"""The coordinate of the linear example that leaves the support and returns."""


class RankErrata(Experiment):
    """Which statements about greedy incremental learning do not hold as printed?"""

    id = "rank.errata"
    source = Source(GRADUAL_RANK, "Algorithm 1, Assumption 4.4, Appendices A and C")
    cost = {"quick": 4, "full": 5}
    presets = {"quick": {"scale": 1e-16}}
    control = {"printed_start": 1.0}
    notes = """The theorem holds, and the paper itself repairs the slips elsewhere. The tie of several heads in one
    layer, which is more than a slip, is an erratum of rank.diagonal-transformer. All numbers are from one linear
    example in four coordinates. To run Algorithm 1 on a computer, two things are needed that the paper does not have to
    state: coordinates of the support do not race in (10), since their force is not exactly 0; and the flow must be
    integrated in reduced coordinates. Misprints without consequence for a number: indices in (13) and Assumption 4.3;
    R^p for R^2p; in Lemma C.5 nondecreasing for nonincreasing, z^k for u^k, 4 rho K for about 10 rho K, and Assumption
    4.4 used where weights are balanced up to alpha^2; in C.6 an upper bound without the bar over its g; in C.7 the
    hypothesis, which should be t_(k+1) > T_(k+1) + epsilon; in C.8 the interval, which should be (c/2, 2 - c/2); in C.9
    w for log_alpha w; in D.7 u u for u v and K_R for R; in Appendix A a reversed set difference. The control starts
    Algorithm 1 at b = 1, as it should."""

    defaults = {"precision": "float64"}

    scale: Scale = 1e-32
    printed_start: float = Field(0.0, ge=0, le=2)
    """The initial b, as printed in line 1 of Algorithm 1."""
    horizon: float = Field(8.9, gt=0)

    def measure(self, seed: int) -> xr.Dataset:
        example = exit_and_return()
        task, times = example.loss(), np.linspace(0, self.horizon, 400)
        exact = reduced_flow(task, example.u, example.v, [self.scale], times)["product"].values[0]
        u, v = (jnp.asarray(self.scale * part) for part in (example.u, example.v))
        plain = np.asarray(plain_flow(task, u, v, jnp.asarray(-np.log(self.scale) * times)))
        dims = ("time", "coordinate")
        return xr.Dataset({"product": (dims, exact), "plain_product": (dims, plain)}, {"time": times})

    def predict(self, measured: xr.Dataset) -> xr.DataTree:
        """The limit of the flow, when the coordinate that left returns in it, and the numbers of the errata."""
        stages = greedy_stages(exit_and_return().loss(), 4)
        returns = (stage.time for stage in stages[1:] if stage.winner == RETURNING and stage.sign > 0)
        limit = staircase(stages, measured.time.values).assign(returns=next(returns, np.nan))
        numbers: dict[str, Any] = {
            "printed_start": errata.first_times(self.printed_start),
            "right_start": errata.first_times(1.0),
            "strict_minimum": errata.printed_minimum(),
            "sign_convention": errata.sign_convention(),
        }
        return xr.DataTree.from_dict({"limit": limit} | {name: xr.Dataset(found) for name, found in numbers.items()})

    def reduce(self, measured: xr.Dataset, predicted: xr.DataTree) -> xr.DataTree:
        paths = (measured[name].values[:, RETURNING] for name in ("product", "plain_product"))
        back, plain = (float(first_crossing(path, 0.25, measured.time.values).time) for path in paths)
        times = xr.Dataset({"back": back, "back_plain": plain, "returns": predicted["limit"].returns})
        numbers = {name: node for name, node in predicted.children.items() if name != "limit"}
        return xr.DataTree.from_dict({"times": times} | {name: node.to_dataset() for name, node in numbers.items()})

    def judge(self, reduced: xr.DataTree) -> Claims:
        zero, one = (_numbers(reduced, name) for name in ("printed_start", "right_start"))
        statement = "b starts at 1, as in Appendix C; from 0 all that is pushed up is learned at time 0"
        at_once = every("starts-at-one", statement, [time == 0 for time in zero.values()], shown=zero | {"from 1": one})
        yield erratum(at_once, kind="misprint", printed="b^0, θ^0 ← 0 ∈ R^p, T_0 ← 0", at="Algorithm 1, line 1")
        minimum = {name: bool(value) for name, value in _numbers(reduced, "strict_minimum").items()}
        refuted = [minimum[name] == expected for name, expected in MINIMUM.items()]
        statement = (
            "The right side lacks L(θ^k), which Lemma C.5 uses. As printed, half of the first plateau satisfies the "
            "assumption, which is no minimum, and the plateau itself does not if a constant is taken off the loss"
        )
        printed = "L(ũ, s^k ⊙ ũ) ≥ c_k ||u^k - ũ||²"
        counter = every("strict-minimum", statement, refuted, shown=minimum)
        yield erratum(counter, kind="misprint", printed=printed, at="Assumption 4.4")
        loss = _numbers(reduced, "sign_convention")
        statement = "Both are multiplied by sgn(u); as printed, the product and the loss change where u v < 0"
        changed = [not np.isclose(loss["printed"], loss["own"]), np.isclose(loss["both"], loss["own"])]
        printed = "ũ_α(0) = sgn(u_α(0)) u_α(0) and ṽ_α(0) = sgn(v_α(0)) v_α(0)"
        counter = every("sign-convention", statement, changed, shown=loss)
        yield erratum(counter, kind="misprint", printed=printed, at="Appendix C.3")
        times = reduced["times"]
        statement = "A coordinate that leaves the support can return: in the linear example the third does, with the "
        statement += "opposite sign, at the time of Algorithm 1 (the paper's own run has no exits)"
        yield agrees("supports-shrink", statement, times.back, float(times.returns), absolute=0.1)
        statement = "Integrated in u and v themselves, in float64, it does not return then: u - v, of order alpha², is "
        statement += "lost to rounding once u v is not small (difference of the times; nan: never)"
        late = np.nan_to_num(abs(float(times.back_plain - times.returns)), nan=np.inf)
        yield above("float64-loses-exits", statement, late, 0.5, source="Appendix A")

    def draw(self, measured: xr.Dataset, predicted: xr.DataTree, reduced: xr.DataTree) -> Figures:
        limit = predicted["limit"].to_dataset()
        figure, both = panels(2, size=(5.6, 3.8), sharey=True)
        titles = {"product": "Reduced coordinates", "plain_product": "u and v themselves, in float64"}
        for axes, (name, title) in zip(both, titles.items(), strict=True):
            for i in range(4):
                axes.plot(measured.time, measured[name].values[:, i], color=PALETTE[i], label=f"coordinate {i}")
                path = limit["product"].values[:, i]
                axes.plot(measured.time, path, drawstyle="steps-post", **{**THEORY, "linewidth": 0.7})
            axes.set(xlabel="rescaled time", title=f"{title}, α = {self.scale:g}")
        both[0].set_ylabel("β = u v; α → 0 (dashed)")
        both[0].legend(loc="center", bbox_to_anchor=(0.5, 0.56), ncols=2, fontsize=8)
        return {"errata": figure}


def _numbers(reduced: xr.DataTree, name: str) -> dict[str, float]:
    return {str(key): float(value) for key, value in reduced[name].data_vars.items()}
