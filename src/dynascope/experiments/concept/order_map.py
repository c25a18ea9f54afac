"""Which concept is learned first, over both signals and both diversities, by the number of layers."""

from __future__ import annotations

import zlib
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Array, Float, Int32
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves.stages import first_crossing
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.concept.sim_experiment import ConceptLearner, Training
from dynascope.experiments.documents import CONCEPTS
from dynascope.figures import PALETTE, THEORY, panels, phase_map, phase_shares
from dynascope.lab.criteria import above, below, rising, share, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source, Values
from dynascope.theory.concept.one_layer import predicted_outputs, strengths

PHASES = ("concept 1 first", "concept 2 first")
APART = 1.1
"""The ratio from which on strengths count as different: 10 %, as in `concept.diversity-order`."""
COARSE = (0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0)
WEIGHTS = np.geomspace(0.2, 1.25, 101)
"""Weights w of σ² + w μ² among which the best is searched: 1/s, with s = 2 concepts, is the middle."""
NEAR = (0.5**1.5, 0.5**0.5)
"""The weights that are nearer to 1/2 than to 1 or to 1/4, by the logarithm."""
STEEPNESS = np.geomspace(1, 300, 40)
"""Slopes of the logistic curve with which it is searched; the last is a step for strengths 2 % apart."""
Spread = tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]]


class MapRun(ds.Member):
    """An ensemble member with the signals, the diversities and the seed of one run as one setting."""

    learner: ConceptLearner

    def __call__(self, run: tuple[Array, Array, Array], learning_rate: Array, init_scale: Array) -> ds.Descent:
        mu, sigma, seed = run
        return self.learner(seed, (mu, sigma), learning_rate, init_scale)


class OrderMap(Experiment):
    """Over two signals and two diversities: which concept is learned first?"""

    id = "concept.order-map"
    source = Source(CONCEPTS, "Theorem 4.1, Section 4.1")
    cost = {"quick": 10, "full": 45}
    presets = {"quick": {"first_signals": COARSE, "second_signals": COARSE, "depths": (1, 2), "seeds": 3}}
    control = {"start_size": 1.0}
    notes = """Linear networks, SGD on the structured identity task, half the squared error summed over coordinates. A
    concept is learned when its coordinate of the output at the test point first reaches half of its target. Strengths
    are σ² + μ²/2. Weights are normal, of a size that gives the entries of the whole product the standard deviation
    `start_size` at every depth. In the control that is 1: then the noise of the start, the second term of Theorem 4.1,
    decides which concept is first. Each cell has starts of its own, which its signals and diversities determine."""

    dim: Annotated[int, Field(ge=2)] = 4
    depths: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1, 2, 3)
    """Numbers of layers; the theorem is about the first if that is 1."""
    first_signals: Values = tuple(0.6 + 0.24 * k for k in range(11))
    second_signals: Values = tuple(0.6 + 0.24 * k for k in range(11))
    spreads: Annotated[tuple[Spread, ...], Field(min_length=1)] = ((0.05, 0.05), (1.0, 0.05), (0.05, 1.0), (1.0, 1.0))
    """Pairs of diversities (σ₁, σ₂), one for each panel."""
    start_size: float = Field(0.05, gt=0)
    learning_rate: float = Field(0.03, gt=0)
    samples: PositiveInt = 500
    """Training points per cluster."""
    batch: PositiveInt = 32
    steps: Annotated[int, Field(ge=20)] = 1200
    seeds: PositiveInt = 3

    def cells(self) -> list[tuple[tuple[float, float], Spread]]:
        """(μ, σ) of every cell, panel by panel."""
        return [((one, two), pair) for pair, one, two in product(self.spreads, self.first_signals, self.second_signals)]

    def measure(self, seed: int) -> xr.Dataset:
        number, cells = np.dtype(self.precision), self.cells()
        mu, sigma = (np.asarray(each, number) for each in zip(*cells, strict=True))
        seeds = np.stack([cell_seeds(seed, cell, self.seeds) for cell in cells])
        runs = (*(np.repeat(each, self.seeds, axis=0) for each in (mu, sigma)), seeds.ravel())
        index = pd.MultiIndex.from_product([range(len(cells)), range(self.seeds)], names=("signal", "seed"))
        how: dict[str, Any] = {"steps": self.steps, "record": ds.log_steps(self.steps, 150), "keep": False}
        traces = []
        for depth in self.depths:
            size: dict[str, Any] = {"dim": self.dim, "depth": depth, "samples": self.samples, "batch": self.batch}
            learner = ConceptLearner(Training(**size, norm="sum", rotate=False))
            scale = (self.start_size / self.dim ** ((depth - 1) / 2)) ** (1 / depth)
            fixed = {"learning_rate": number.type(self.learning_rate), "init_scale": number.type(scale)}
            trace = ds.ensemble(MapRun(learner), {"run": runs}, fixed=fixed, **how).trace[["output", "start"]]
            traces.append(trace.drop_vars("run").assign_coords(xr.Coordinates.from_pandas_multiindex(index, "run")))
        joined = xr.concat(traces, "depth").assign_coords(depth=list(self.depths)).unstack("run")
        return joined.assign(mu=(("signal", "concept"), mu), sigma=(("signal", "concept"), sigma))

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        """The path of Theorem 4.1 from each run's own start, for one layer."""
        if 1 not in self.depths:
            return None
        return predicted_outputs(measured.sel(depth=1), self.learning_rate, False)[["output"]]

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> xr.Dataset:
        found = half_times(measured)
        table = {"time": found, "first": first_of(found)}
        if predicted is not None:
            path = predicted.assign(mu=measured.mu)
            table |= {"theorem_time": half_times(path), "theorem_first": first_of(half_times(path))}
        shape = {"spread": len(self.spreads), "one": len(self.first_signals), "two": len(self.second_signals)}
        axes = {"spread": range(len(self.spreads)), "one": list(self.first_signals), "two": list(self.second_signals)}
        reduced = xr.Dataset({name: _unfold(values, shape) for name, values in table.items()}).assign_coords(axes)
        mu, sigma = (_unfold(measured[name], shape).assign_coords(axes) for name in ("mu", "sigma"))
        reduced["strength"] = mu.dims, strengths(mu.transpose(..., "concept").values, sigma.values)
        runs = reduced["first"].transpose("depth", *mu.dims[:-1], "seed").values
        reduced["weight"] = "depth", [best_weight(each, mu.values, sigma.values) for each in runs]
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        strong, weak = reduced.strength.max("concept"), reduced.strength.min("concept")
        apart = strong / weak >= APART * (1 - 1e-9)
        stronger = reduced.strength.argmax("concept")
        right = (reduced["first"] == stronger).where(apart & reduced["first"].notnull())
        shallow = int(min(self.depths))
        about: dict[str, Any] = {"source": "Theorem 4.1", "seeds": reduced.sizes["seed"]}
        statement = f"With {shallow} layer{'s' * (shallow > 1)} the stronger concept is first, by a = σ² + μ²/s, in "
        statement += "every cell whose strengths are 10 % apart"
        yield share("by-strength", statement, right.sel(depth=shallow), 0.95, **about)
        informed = bool((np.diff(np.array(self.spreads), axis=1) != 0).any())
        if informed and min(len(self.first_signals), len(self.second_signals)) > 1:
            yield from self._judge_weights(reduced.weight)
        if "theorem_time" in reduced:
            yield from self._judge_theorem(reduced)
        one, two = right.one, right.two
        by_signal = (reduced["first"] == (two > one)).where((one != two) & right.notnull())
        over = [name for name in right.dims if name != "depth"]
        gain = right.where(by_signal.notnull()).mean(over) - by_signal.mean(over)
        if informed:
            statement = "Strengths order more of the runs than signals alone do, at every depth (difference of shares)"
            post_hoc = "The claim was added after the first maps."
            yield above("better-than-signals", statement, gain, 0, seeds=reduced.sizes["seed"], post_hoc=post_hoc)
        if len(self.depths) > 1:
            wrong = 1 - right.mean(over).sortby("depth")
            statement = "The deeper the network, the more its start matters: the share of runs out of that order rises"
            yield rising("start-matters", statement, wrong, along="depth")

    def _judge_weights(self, weight: xr.DataArray) -> Claims:
        statement = "The line σ₁² + w μ₁² = σ₂² + w μ₂² that parts the runs of one layer best has w = 1/s = 1/2: w is "
        statement += "nearer to it than to 1 (the strengths of the submission) or to 1/4, by the logarithm"
        if 1 in self.depths:
            post_hoc = "The range, and that each cell has starts of its own: 15 % around 1/2 was the original one."
            yield within("weight", statement, weight.sel(depth=1), *NEAR, source="Theorem 4.1", post_hoc=post_hoc)
        deep = weight.where(weight.depth > 1, drop=True)
        if deep.size:
            post_hoc = (
                "Starts of its own for each cell: with two that all cells share, w was 0.71 at three layers, and 0.33 "
            )
            post_hoc += "with three."
            statement = "So it is for more layers (w by depth)"
            yield within("weight-of-depth", statement, deep, *NEAR, post_hoc=post_hoc)

    def _judge_theorem(self, reduced: xr.Dataset) -> Claims:
        one = reduced.sel(depth=1)
        same = (one["first"] == one.theorem_first).where(one["first"].notnull())
        statement = "Theorem 4.1 from the run's own start says which concept is first, in cells of equal strengths too"
        post_hoc = "The batch and the number of samples: with 16 of 250 it is 94.4 %."
        yield share("theorem-order", statement, same, 0.95, source="Theorem 4.1", post_hoc=post_hoc)
        error = np.abs(one.time / one.theorem_time - 1).where(one.theorem_time > 10)
        statement = "and when a concept is learned (relative error of the step, median over runs)"
        yield below("theorem-time", statement, float(error.median()), 0.05, source="Theorem 4.1")

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None, reduced: xr.Dataset) -> Figures:
        rows, columns = len(self.depths), len(self.spreads)
        figure, grid = panels(columns, rows, size=(3.2, 3.1), squeeze=False)
        for (row, depth), (column, pair) in product(enumerate(self.depths), enumerate(self.spreads)):
            axes, last = grid.reshape(rows, columns)[row, column], row == rows - 1
            shares = phase_shares(reduced["first"].sel(depth=depth, spread=column), PHASES)
            phase_map(axes, shares, (PALETTE[0], PALETTE[1]), x="one", y="two", legend=last)
            low, high = axes.get_xlim()
            x = np.linspace(low, high, 400)
            square = x**2 + 2 * (pair[0] ** 2 - pair[1] ** 2)
            axes.plot(x, np.where(square > 0, np.sqrt(np.maximum(square, 0)), np.nan), **THEORY)
            axes.plot(x, x, color="white", linewidth=0.8, alpha=0.8)
            layers = f"{depth} layer{'s' * (depth > 1)}"
            axes.set(title=f"{layers}, σ = ({pair[0]:g}, {pair[1]:g})", xlabel="signal μ₁" if last else "", ylabel="")
            if column == 0:
                axes.set_ylabel("signal μ₂")
        return {"order-map": figure}


def cell_seeds(seed: int, cell: object, count: int) -> Int32[np.ndarray, " count"]:
    """Seeds of a cell's own starts: the same ones in every map that has the cell."""
    return member_seeds(seed, 100_000)[zlib.crc32(repr(cell).encode()) % (100_000 - count) :][:count]


def half_times(trace: xr.Dataset) -> xr.DataArray:
    """The step at which each concept's output first reaches half of its target; NaN if it never does."""
    curve = (trace.output / trace.mu).transpose(..., "step")
    times = first_crossing(curve.values, 0.5, trace.step.values).time
    return curve.isel(step=0, drop=True).copy(data=times)


def first_of(times: xr.DataArray) -> xr.DataArray:
    """The concept that is learned first, 0 or 1; NaN if neither is learned or both at one step."""
    one, two = (times.isel(concept=k, drop=True).fillna(np.inf) for k in (0, 1))
    return xr.where(one == two, np.nan, (two < one).astype(float))


def best_weight(
    first: Float[np.ndarray, "*cell seed"], mu: Float[np.ndarray, "*cell two"], sigma: Float[np.ndarray, "*cell two"]
) -> float:
    """The weight w for which log(a_2/a_1), a = σ² + w μ², says best which concept is first: of the logistic curves
    through zero in it, of any steepness, the one that makes the outcomes most likely."""
    second, known = (first == 1).sum(-1), (~np.isnan(first)).sum(-1)
    strength = sigma[..., None, :] ** 2 + WEIGHTS[:, None] * mu[..., None, :] ** 2
    logit = STEEPNESS * np.log(strength[..., 1] / strength[..., 0])[..., None]
    likelihood = second[..., None, None] * logit - known[..., None, None] * np.logaddexp(0, logit)
    cells = tuple(range(first.ndim - 1))
    return float(WEIGHTS[likelihood.sum(cells).max(-1).argmax()])


def _unfold(values: xr.DataArray, shape: dict[str, int]) -> xr.DataArray:
    """The cells along the dimension `signal` as a grid of panels and two signals."""
    rest = [name for name in values.dims if name != "signal"]
    cells = values.transpose("signal", *rest)
    grid = cells.values.reshape(*shape.values(), *cells.shape[1:])
    coords = {name: values[name] for name in rest if name in values.coords}
    return xr.DataArray(grid, dims=(*shape, *rest), coords=coords)
