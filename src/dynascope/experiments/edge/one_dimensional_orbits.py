"""Figure B.1 and Theorem 3.1: above 2/f'' gradient descent on one parameter settles on an orbit of period two."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

from dynascope import geometry
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge import example_losses, rate_scans
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.experiments.edge.one_dimensional_orbits_drawing import draw_orbits
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.tasks.scalar_losses import Function, Reals, ScalarLoss, quartic, sine
from dynascope.theory.edge import period_two, quartic_orbit, squared_margins

SHARES = np.array([0.1, 0.5, 1.0])
"""Distances from the minimum, in units of eps, at which a rate of period two is searched for."""
CLOSED = 1e-10


class OneDimensionalOrbits(EdgeExperiment):
    """Does gradient descent on one parameter stay bounded above 2/f'', on an orbit of period two?"""

    id = "edge.one-dimensional-orbits"
    source = Source(SIMPLE_STRUCTURES, "Figure B.1; Theorem 3.1, Lemma 3.2, Proposition 1")
    cost = {"quick": 12, "full": 9}
    presets = {"quick": {}}
    control = {"rate_factor": 0.99}
    notes = """The rate is given in units of the threshold 2/f'' (both losses of the figure have threshold 1). The
    text does not give the starts of the figure; these are our choice. The sign of D = 3 f3² - f'' f4 at the minimum
    decides: fifteen losses with D > 0 oscillate, four with D ≤ 0 do not stay near the minimum. The control is just
    below the threshold, where gradient descent converges. The full setting takes seconds, so `quick` is the same."""

    rate_factor: float = Field(1.01, gt=0)
    """η f''/2."""
    near_factor: float = Field(1.002, gt=0)
    """A second factor, closer to the threshold."""
    quartic_starts: tuple[float, ...] = (0.5, 0.8, 0.9, 1.1, 1.2)
    sine_offsets: tuple[float, ...] = (-0.5, -0.1, 0.1, 0.5)
    offset: float = 0.05
    """Distance from the minimum at which the nineteen other runs start."""
    reach: float = Field(0.05, gt=0)
    """|ε| of Theorem 3.1 and Lemma 3.2."""
    steps: PositiveInt = 3000

    def measure(self, seed: int) -> xr.Dataset:
        figure = {"quartic": quartic(), "sine": sine()}
        thresholds = {name: loss.threshold for name, loss in figure.items()}
        starts = {"quartic": np.array(self.quartic_starts), "sine": -np.pi / 2 + np.array(self.sine_offsets)}

        def both(x: dict[str, Array], factor: Array) -> dict[str, Array]:
            return {name: loss.step(x[name], factor * thresholds[name]) for name, loss in figure.items()}

        shown = rate_scans.run_at_rates(both, starts, [self.rate_factor], self.steps).isel(rate=0, drop=True)
        names = example_losses.oscillating() | example_losses.escaping()
        every = example_losses.LossFamily(names)
        ones, minima = every.each(lambda loss: loss.threshold), every.each(lambda loss: loss.minimum)

        def all_of(x: Array, factor: Array) -> Array:
            return every.step(x, factor * ones)

        factors = np.array([self.near_factor, self.rate_factor])
        runs = rate_scans.run_at_rates(all_of, minima + self.offset, factors, self.steps).state.values
        slopes = [
            np.asarray(geometry.multiplier(lambda x, f=f: all_of(x, jnp.asarray(f)), jnp.asarray(x)))
            for f, x in zip(factors, runs[:, -1], strict=True)
        ]
        models, with_orbit = example_losses.models(), example_losses.with_orbit()
        without = example_losses.without_orbit()
        squared = example_losses.LossFamily({name: names[name] for name in models})
        found, rates, moved, edges = _windows(with_orbit, self.reach)
        return xr.Dataset(
            {
                "quartic": (("step", "quartic_start"), shown.quartic.values),
                "sine": (("step", "sine_start"), shown.sine.values),
                "x": (("factor", "step", "loss"), runs),
                "minimum": ("loss", minima),
                "half_width": (("factor", "loss"), np.abs(runs[:, -1] - runs[:, -2]) / 2),
                "multiplier": (("factor", "loss"), np.stack(slopes)),
                "found": (("with_orbit", "share"), found),
                "orbit_rate": (("with_orbit", "share"), rates),
                "displacement": (("with_orbit", "share", "end"), moved),
                "own_edge": (("with_orbit", "share"), edges),
                "found_without": (("without_orbit", "share"), _windows(without, self.reach)[0]),
                "flip": ("model", squared.each(period_two.flip_quantity)),
                "margin": ("model", _at_minima(squared_margins.margin)),
            },
            {"step": shown.step.values, "factor": factors, "loss": list(names), "model": list(models), "share": SHARES},
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """Half-widths and multipliers to leading order, the orbits of the figure, the rate through a point, and the
        quantities of Proposition 1 in closed form; nan if there is no orbit."""
        every, models = example_losses.LossFamily(example_losses.oscillating()), example_losses.models()
        factors = measured.factor.values
        widths = [every.each(lambda loss, f=f: period_two.half_width(loss, f * loss.threshold)) for f in factors]
        slopes = [every.each(lambda loss, f=f: period_two.multiplier(loss, f * loss.threshold)) for f in factors]
        through, moved = _expansions(example_losses.with_orbit(), self.reach)
        sine_width = period_two.sine_half_width(self.rate_factor)
        return xr.Dataset(
            {
                "half_width": (("factor", "loss"), np.stack(widths)),
                "multiplier": (("factor", "loss"), np.stack(slopes)),
                "quartic": ("point", np.array([float(d) for d in quartic_orbit.normalized_orbit(self.rate_factor)])),
                "sine": ("point", -np.pi / 2 + np.array([-sine_width, sine_width])),
                "orbit_rate": (("with_orbit", "share"), through),
                "displacement": (("with_orbit", "share", "end"), moved),
                "flip": ("model", _at_minima(squared_margins.flip_from_margin)),
                "margin": ("model", [squared_margins.closed_form(name, at) for name, (_, at) in models.items()]),
            },
            {"loss": list(example_losses.oscillating()), "model": list(models)},
        )

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        closing, away, off = [], [], []
        for name, minimum in (("quartic", 1.0), ("sine", -np.pi / 2)):
            tail = measured[name].values[-rate_scans.LATE :]
            closing.append(np.abs(tail[2:] - tail[:-2]).max(0))
            away.append(np.abs(tail - minimum).min(0))
            off.append(np.abs(np.sort(tail[-2:].T) - predicted[name].values).max())
        shown, gone = measured.sel(loss=predicted.loss), measured.sel(loss=list(example_losses.escaping()))
        escaped = np.abs(gone.x - gone.minimum).isel(step=-1, drop=True).fillna(np.inf).min("factor")
        cubic = [name for name, (_, order) in example_losses.with_orbit().items() if order == 3]
        losses = [example_losses.with_orbit()[name][0] for name in cubic]
        ones = xr.DataArray([float(loss.threshold) for loss in losses], dims="with_orbit")
        seen, theory = (run.isel(with_orbit=slice(len(cubic))) for run in (measured, predicted))
        rates = (seen.orbit_rate - ones) / (theory.orbit_rate - ones)
        moved = seen.displacement / theory.displacement
        errors = abs(xr.concat([rates, *moved.transpose("end", ...)], "expansion") - 1)
        return xr.Dataset(
            {
                "closing": ("start", np.concatenate(closing)),
                "away": ("start", np.concatenate(away)),
                "off": ("figure", off),
                "width_ratio": (shown.half_width / predicted.half_width).isel(factor=-1, drop=True),
                "all_closing": np.abs(shown.x[:, -1] - shown.x[:, -3]).max(),
                "multiplier_error": (shown.multiplier - predicted.multiplier).isel(factor=-1, drop=True),
                "escaped": escaped.rename(loss="escaping"),
                "found": measured.found,
                "found_without": measured.found_without,
                "over_own_edge": (seen.orbit_rate / seen.own_edge).rename(with_orbit="cubic"),
                "shrink": (errors.isel(share=0, drop=True) / errors.isel(share=-1, drop=True)).max("with_orbit"),
                "flip_error": np.abs(measured.flip / predicted.flip - 1),
                "margin": measured.margin,
                "margin_error": np.abs(measured.margin / predicted.margin - 1),
            },
            {"figure": ["quartic", "sine"], "expansion": ["rate", "at 2/f''", "at the window's end"]},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = f"At η = {self.rate_factor:g} × 2/f'' every start on the quartic and on 2 sin x ends in an orbit "
        statement += f"of period two, |F(F(x)) - x| < {CLOSED:g}, away from the minimum"
        numbers = {"largest |F(F(x)) - x|": reduced.closing.max(), "least distance": reduced.away.min()}
        settled = (reduced.closing < CLOSED) & (reduced.away > 1e-3)
        yield every("period-two", statement, settled, source="Figure B.1", shown=numbers)
        statement = "They are the closed form (quartic), and minimum ± a with sin(a)/a = 1/η (sine): largest distance"
        yield below("orbit-points", statement, reduced.off, 1e-9, source="Theorem 3.3, Figure B.1")
        nu, place = 2 * self.rate_factor - 2, "Theorem 3.1, extended"
        statement = f"Losses with D > 0 oscillate with half-width √(3 f''² ν/D), ν = η f'' - 2 = {nu:.2g}: ratio to it"
        yield agrees("half-width", statement, reduced.width_ratio, 1.0, absolute=0.01, source=place)
        statement = "All of them end in period two: largest |F(F(x)) - x|"
        yield below("all-period-two", statement, reduced.all_closing, CLOSED, source=place)
        statement = f"The multiplier of two steps is 1 - 4ν + O(ν²) for each of these losses: error, over ν = {nu:.2g}"
        yield agrees("multiplier", statement, reduced.multiplier_error / nu, 0.0, absolute=10 * abs(nu), source=place)
        statement = f"Losses with D ≤ 0 do not oscillate: distance from the minimum at the end, from {self.offset:g}"
        yield above("no-orbit", statement, reduced.escaped, 1.0, source=place)
        place = "Theorem 3.1, Lemma 3.2"
        statement = f"Every x0 tried within ε = {self.reach:g} has a rate of period two in the window of theorem or "
        statement += "lemma"
        yield every("windows", statement, reduced.found, source=place)
        statement = "Where a condition fails there is none"
        yield every("no-windows", statement, ~reduced.found_without.astype(bool), source=place)
        statement = "Where f3 ≠ 0, the rate is below the edge 2/f''(x0) of the point itself: ratio"
        printed = "it holds η < 2/f''(x_0) … Hence, η upper bounded by the EoS at one point in the period-2 orbit"
        yield below(
            "below-own-edge",
            statement,
            reduced.over_own_edge,
            1.0,
            source="Remark 1 after Theorem 3.1",
            printed=printed,
        )
        statement = "η(x0) = 2/f'' + D (x0 - x̄)²/(3 f''³) and the two displacements of the proof hold to leading "
        statement += "order: the relative error at ε/10 over that at ε"
        yield below("expansions", statement, reduced.shrink, 0.2, source="Theorem 3.1, proof")
        place = "Proposition 1 and its corollaries"
        statement = "For squared losses D = 16 g'² (6 g''² - g' g'''): largest relative error"
        yield below("flip-identity", statement, reduced.flip_error.max(), CLOSED, source=place)
        statement = "The margins 6 g''² - g' g''' of the corollaries are as in closed form: largest relative error"
        yield below("margins", statement, reduced.margin_error.dropna("model").max(), CLOSED, source=place)
        statement = "They are positive"
        yield above("positive-margins", statement, reduced.margin, 0.0, source=place)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        return {"one-dimensional-orbits": draw_orbits(measured, predicted, self.rate_factor)}


def _windows(losses: Mapping[str, tuple[ScalarLoss, int]], reach: float) -> tuple[np.ndarray, ...]:
    """Whether a rate in the window gives x0 period two, that rate, and (x2 - x0)/eta at both ends of the window; for
    |eps| = `reach` and shares of it. A window that would lie below the threshold is mirrored to above it."""

    @eqx.filter_jit
    def search(losses: list[ScalarLoss], orders: tuple[int, ...]) -> tuple[Array, ...]:
        rows = []
        for loss, order in zip(losses, orders, strict=True):
            eps = period_two.reach_of(loss, reach, order)
            start, ends = loss.minimum - eps * SHARES, period_two.window(loss, eps * SHARES, order)
            low, high = period_two.window(loss, eps, order)
            result = period_two.orbit_rate(loss, start, period_two.Window(low, low + jnp.abs(high - low)))
            moved = [(loss.step(loss.step(start, rate), rate) - start) / rate for rate in ends]
            edge = 2 / jax.vmap(jax.grad(jax.grad(loss)))(start)
            rows.append((result.found, result.rate, jnp.stack(jnp.broadcast_arrays(*moved), axis=-1), edge))
        return tuple(jnp.stack(column) for column in zip(*rows, strict=True))

    found = search([loss for loss, _ in losses.values()], tuple(order for _, order in losses.values()))
    return tuple(np.asarray(column) for column in found)


def _expansions(losses: Mapping[str, tuple[ScalarLoss, int]], reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The rate and the displacements of `_windows`, to leading order (for k = 3)."""

    def both(loss: ScalarLoss) -> Array:
        eps = period_two.reach_of(loss, reach, 3) * SHARES
        ends = period_two.displacement_at_threshold(loss, eps), period_two.displacement_at_end(loss, eps)
        return jnp.stack([period_two.rate_through(loss, loss.minimum - eps), *ends])

    found = example_losses.LossFamily({name: loss for name, (loss, _) in losses.items()}).each(both)
    return found[:, 0], np.moveaxis(found[:, 1:], 1, -1)


def _at_minima(function: Callable[[Function, Reals], Array]) -> np.ndarray:
    """`function(g, x)` for every scalar model, at its point."""
    points = list(example_losses.models().values())
    return np.asarray(eqx.filter_jit(lambda: jnp.stack([function(g, at) for g, at in points]))())
