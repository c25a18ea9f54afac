"""Theorem 4.1 along a ladder of scales: plateaus, times, order and log-scale weights against Algorithm 1."""

from __future__ import annotations

import numpy as np
import xarray as xr
from pydantic import Field

from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.rank.diagonal_head import HeadExperiment, Scales, activations, against_stages, record_times
from dynascope.figures import FAINT, INK, THEORY, panels, settings_colors
from dynascope.lab.criteria import agrees, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.diagonal import exit_and_return
from dynascope.theory.rank.diagonal_flow import reduced_flow
from dynascope.theory.rank.greedy_ranks import LAG, Stage, greedy_stages, resolved_plateaus, staircase

FLOOR = 1e-4
"""Errors of beta below this count as zero: they come from interpolation and the tolerance of the integrator."""
LINEAR_POINTS = 2001
"""The number of recorded times of the linear example, whose first transition lags by only 0.2/log(1/alpha)."""

SLOW = (
    "Medians and looser limits: in one head of ten a coordinate grows at nearly the rate of the winner, and its stage "
    "is 12 units late."
)


class StageTimes(HeadExperiment):
    """As the initial scale decreases, does the flow approach the plateaus, times and order of Algorithm 1?"""

    id = "rank.stage-times"
    source = Source(GRADUAL_RANK, "Theorem 4.1, Algorithm 1")
    card = ("stage-times", 1)
    cost = {"quick": 17, "full": 95}
    presets = {"quick": {"scales": (1e-16, 1e-32, 1e-64), "points": 500, "horizon": 4.5}}
    control = {"scales": (0.5, 0.4, 0.3)}
    notes = """Two examples: a linear network of four coordinates, one of which is learned, leaves the support and
    returns with the opposite sign; and a head of size 6. Only resolved plateaus are judged, as in rank.weights. The
    control starts large: nothing is resolved."""

    defaults = {"dim": 6, "tokens": 5, "samples": 500, "kept": None, "horizon": 9.0, "points": 2000}

    scales: Scales = (1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128)
    linear_horizon: float = Field(9.0, gt=0)

    def measure(self, seed: int) -> xr.DataTree:
        example = exit_and_return()
        task = example.loss()
        times = record_times(self.linear_horizon, LINEAR_POINTS, [greedy_stages(task, 4)])
        linear = reduced_flow(task, example.u, example.v, self.scales, times, tolerance=1e-8)
        return xr.DataTree.from_dict({"linear": linear, "head": self.flow(seed, self.scales)})

    def paths(self, measured: xr.DataTree) -> dict[str, tuple[xr.Dataset, list[Stage], float]]:
        """The flow of each system, its stages by Algorithm 1, and its horizon."""
        linear, heads = (measured[name].to_dataset() for name in ("linear", "head"))
        return {"linear": (linear, greedy_stages(exit_and_return().loss(), 4), self.linear_horizon)} | {
            f"head {number}": (heads.sel(seed=number, drop=True), self.stages_of(number, self.horizon), self.horizon)
            for number in heads.seed.values.tolist()
        }

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        found = {name: self._compare(*path) for name, path in self.paths(measured).items()}
        return xr.concat(list(found.values()), xr.DataArray(list(found), dims="system", name="system"), join="outer")

    def _compare(self, path: xr.Dataset, stages: list[Stage], until: float) -> xr.Dataset:
        """Along the ladder: errors, lags and errors of b of resolved stages; the mean distance of the loss; and the
        number of activations at the smallest scale that are not as expected."""
        smallest = min(self.scales)
        rows: list[xr.Dataset] = []
        chosen = resolved_plateaus(stages, smallest, until)
        for scale in self.scales:
            one, now = path.sel(scale=scale), resolved_plateaus(stages, scale, until)
            found = against_stages(one["product"], stages, chosen, scale, until)
            begun = [k for k in now if k - 1 in now]
            log_weight = np.full(len(stages), np.nan)
            for k in [k for k in chosen if k - 1 in chosen]:
                log_weight[k] = np.abs(one.log_weight.interp(time=stages[k].time) - stages[k].log_weight).max()
            found["lag"] = found.lag.where(found.stage.isin(begun))
            rows.append(found.assign(log_weight_error=("stage", log_weight)))
        joined = xr.concat(rows, xr.DataArray(list(self.scales), dims="scale", name="scale"))
        limit = staircase(stages, path.time.values)
        size = stages[0].loss - min(stage.loss for stage in stages)
        gap = np.abs(path.loss - limit.loss).integrate("time") / (until * size)
        learned, expected = _order(path.sel(scale=smallest), stages, chosen, until)
        wrong = sum(one != other for one, other in zip(learned, expected, strict=False))
        wrong += abs(len(learned) - len(expected))
        return joined.assign(gap=gap, misplaced=wrong, placed=len(expected))

    def judge(self, reduced: xr.Dataset) -> Claims:
        paces = -np.log(reduced.scale)
        rows = np.maximum(reduced.error, FLOOR).stack(plateau=("system", "stage")).dropna("plateau", how="all")
        statement = "In the middle of every resolved plateau the error of beta falls with the scale (or is below 1e-4)"
        yield every("plateaus", statement, (rows.diff("scale") <= 0).all("scale"), cases=4)
        last = reduced.error.isel(scale=-1).values
        statement = "At the smallest scale it is small (largest over the plateaus)"
        yield below("sizes", statement, last[np.isfinite(last)], 0.3, median=0.01, post_hoc=SLOW)
        lag = reduced.lag.values[reduced.lag.notnull().values]
        statement = "At every scale winners reach half their size at T_k, up to a few units of 1/(rate log(1/alpha))"
        about = {"source": "Lemma C.10", "post_hoc": SLOW, "shown": {"lags": lag}}
        yield below("lags", statement, np.abs(lag), 2 * LAG, median=LAG / 2, **about)
        scaled = (reduced.log_weight_error * paces).max(("system", "stage"))
        statement = "The error of b at T_k is of order 1/log(1/alpha): their ratio is the same at the last two scales"
        about = {"source": "Theorem 4.1 (18) to (20)", "post_hoc": SLOW, "shown": {"all scales": scaled}}
        last = scaled.isel(scale=slice(-2, None))
        yield agrees("log-weights", statement, last, float(last[0]), relative=0.1, **about)
        statement = "At the smallest scale resolved coordinates become active in the order and with the signs predicted"
        flags = (reduced.misplaced == 0).where(reduced.placed > 0)
        yield every("order", statement, flags, shown={"judged": reduced.placed})
        if len(self.scales) > 1:
            last, before = reduced.gap.isel(scale=-1), reduced.gap.isel(scale=-2)
            statement = "The mean distance of the loss from the staircase falls as 1/log(1/alpha) (last two scales)"
            ratio = float(paces[-2] / paces[-1])
            yield agrees("halves", statement, last / before.values, ratio, relative=0.2, shown={"gap": reduced.gap})

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, grid = panels(2, 2, size=(5.4, 3.2))
        systems = list(self.paths(measured).values())
        titles = ("A linear network: one coordinate leaves and returns", "An attention head")
        for column, (title, (path, stages, until)) in enumerate(zip(titles, systems, strict=False)):
            limit = staircase(stages, path.time.values)
            loss, weight = grid[:, column]
            for scale, color in zip(self.scales, settings_colors(len(self.scales)), strict=True):
                loss.plot(path.time, path.loss.sel(scale=scale), color=color, linewidth=1.4, label=f"α = {scale:g}")
            loss.plot(path.time, limit.loss, drawstyle="steps-post", **THEORY)
            for stage in stages[1:]:
                if stage.time < until:
                    loss.axvline(stage.time, color=FAINT, linewidth=0.6)
            smallest = path.log_weight.sel(scale=min(self.scales))
            for i in range(path.sizes["coordinate"]):
                weight.plot(path.time, smallest.values[:, i], linewidth=1.3)
                weight.plot(path.time, limit.log_weight.values[:, i], **{**THEORY, "linewidth": 0.7})
            for edge in (0, 2):
                weight.axhline(edge, color=INK, linewidth=0.8)
            loss.set(title=title, ylabel="loss")
            weight.set(xlabel="rescaled time", ylabel=f"b at α = {min(self.scales):g}", ylim=(-0.15, 2.15))
        grid[0, 1].legend()
        return {"stage-times": figure}


Names = list[tuple[int, int]]


def _order(path: xr.Dataset, stages: list[Stage], chosen: list[int], until: float) -> tuple[Names, Names]:
    """Coordinates with their signs in the order in which they become active in the flow, and as expected. Those of
    other stages than the `chosen` ones, or that begin after the middle of the last of these, are left out."""
    names = [(stage.winner, stage.sign) for stage in stages]
    end = stages[chosen[-1]].middle(until) if chosen else 0.0
    clear = [k for k in chosen if stages[k].entered and k - 1 in chosen]
    others = {names[k] for k in range(1, len(stages)) if k not in clear}
    found = activations(path["product"].values, path.time.values)
    learned = [(one.coordinate, one.sign) for one in found if one.time < end]
    return [name for name in learned if name not in others], [names[k] for k in clear if names[k] not in others]
