"""Section 3.2: learning slows exponentially at its end, at a rate that the data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import equinox as eqx
import jax
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.concept.sim_experiment import (
    PAPER,
    Optimizer,
    SimExperiment,
    member_seeds,
    named,
    part_of,
    signal_label,
)
from dynascope.experiments.concept.terminal_speed import draw_speed, rate_between, settled_step, speeds
from dynascope.figures.forms import THEORY, legend_beside, panels, settings_colors
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.probe import probe

MODELS = {"one layer": "population", "symmetric model": "symmetric", "one layer, SGD": "sgd"}
"""The models, and the names of their parts in the measurement."""
Signal = tuple[tuple[float, float], tuple[float, float]]


class SymmetricDescent(eqx.Module):
    """An ensemble member: U U^T x on the population, from a Gaussian U."""

    optimizer: Optimizer = eqx.field(static=True)

    def __call__(self, seed: Array, signal: tuple[Array, Array], learning_rate: Array, init_scale: Array) -> ds.Descent:
        mu, sigma = signal
        dim = mu.shape[0]
        task = ds.tasks.StructuredIdentity(mu, sigma, dim, norm="sum")
        model = ds.models.Symmetric(init_scale * jax.random.normal(jax.random.key(seed), (dim, dim), mu.dtype))
        probes = {
            "output": probe(lambda moment: moment.model(task.test_point), dims=("concept",)),
            "test_loss": probe(lambda moment: task.test_loss(moment.model)),
        }
        optimizer = {"sgd": optax.sgd, "adam": optax.adam}[self.optimizer](learning_rate)
        return ds.Descent(model, task, optimizer, probes=probes)


class TerminalSlowdown(SimExperiment):
    """Does learning slow exponentially at its end, at the rate of the weakest strength?"""

    id = "concept.terminal-slowdown"
    source = Source(PAPER, "Section 3.2")
    cost = {"quick": 12, "full": 55}
    presets = {"quick": {"seeds": 2, "population_steps": 4000}}
    control = {"optimizer": "adam"}
    notes = """Three descents: the one-layer model on the population and on samples, and the symmetric model U Uᵀ x on
    the population. The speed of the output is followed from the step at which, by the theory, the fastest exponential
    still there is down to 5 % of the slowest. Theory: per step the log speed falls by η min a for one layer, with η
    the learning rate times 2/d, and by 4 η min a for the symmetric model; gradient descent replaces these by
    -log(1 - η a) and -log(1 - 4 η a). The control trains with Adam, whose
    end is set by its own memory of gradients (in the symmetric model the same slope for all data), not by the data."""

    precision: Literal["float32", "float64"] = "float64"
    signals: tuple[Signal, ...] = (
        ((1.0, 2.0), (0.05, 0.05)),
        ((1.0, 2.0), (0.5, 0.05)),
        ((1.0, 2.0), (2.0, 0.05)),
        ((2.0, 4.0), (0.05, 0.05)),
    )
    population_steps: PositiveInt = 12000
    symmetric_rate: float = Field(0.01, gt=0)
    """Learning rate of the symmetric model, on the loss of eq. (4.1)."""
    symmetric_steps: PositiveInt = 3000
    symmetric_scale: float = Field(0.1, gt=0)

    def measure(self, seed: int) -> xr.Dataset:
        one_layer = self.train(self.signals, seed, samples=None, steps=self.population_steps, record=10)
        sgd = self.train(self.signals, seed)
        mu, sigma = (np.asarray([signal[i] for signal in self.signals], self.precision) for i in (0, 1))
        number = np.dtype(self.precision).type
        symmetric = ds.ensemble(
            SymmetricDescent(self.optimizer),
            {"signal": (mu, sigma), "seed": member_seeds(seed, self.seeds)},
            steps=self.symmetric_steps,
            record=2,
            fixed={"learning_rate": number(self.symmetric_rate), "init_scale": number(self.symmetric_scale)},
        )
        traces = zip(MODELS.values(), (one_layer, symmetric, sgd), strict=True)
        parts = [named(name, trace[["output", "test_loss"]]) for name, trace in traces]
        return xr.merge([*parts, one_layer[["mu", "sigma"]]], combine_attrs="drop")

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """Slopes of the log speed per step: of the flow, and of gradient descent with its finite steps."""
        weakest = (measured.sigma**2 + measured.mu**2 / 2).min("concept").values
        per_step = [self.step_size * weakest, 4 * self.symmetric_rate * weakest, self.step_size * weakest]
        rates = {"flow": -np.stack(per_step), "descent": np.log1p(-np.stack(per_step))}
        return xr.Dataset({name: (("model", "signal"), rate) for name, rate in rates.items()}, {"model": list(MODELS)})

    @property
    def step_size(self) -> float:
        """The step of the one-layer model on the loss of eq. (2.1)."""
        return self.learning_rate * (2 / self.dim if self.norm == "mean" else 1)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        assert predicted is not None
        models = {name: part_of(measured, part) for name, part in MODELS.items()}
        rates = {name: rate_between(trace) for name, trace in models.items()}
        ratio = {name: rate.slope / predicted.flow.sel(model=name).values[:, None] for name, rate in rates.items()}
        population = list(MODELS)[:2]
        straight = np.stack([rates[name].r_squared > 0.98 for name in population])
        right = np.stack([np.abs(ratio[name] - 1) < 0.1 for name in population])
        yield claim(
            "exponential", "On the population the log speed ends as a straight line (R² > 0.98) with the predicted "
            "slope within 10 %, in every run of the one-layer and the symmetric model", source="Section 3.2",
            measured=share_of((straight & right).ravel()) | {
                "smallest R²": np.min([rates[name].r_squared for name in population]),
                "measured / predicted": {name: np.median(ratio[name], axis=1) for name in population}},
            expected="share = 1", holds=bool(np.all(straight & right)), seeds=self.seeds,
        )  # fmt: skip
        slope = np.median(rate_between(models["symmetric model"], 1e-5, speed_share=1e-9).slope, axis=1)
        exact = predicted.descent.sel(model="symmetric model").values
        yield claim(
            "symmetric-rate", "The symmetric model slows at -4 η min a per step, to be exact at log(1 - 4 η min a): "
            "within 1 % once the loss is below 1e-5 of its first value", source="Section 4.2",
            measured=slope, expected={"flow": predicted.flow.sel(model="symmetric model").values, "descent": exact},
            holds=bool(np.all(np.abs(slope / exact - 1) < 0.01)), seeds=self.seeds,
        )  # fmt: skip
        bands = self._bands(models["one layer"])
        off = np.abs(bands / predicted.descent.sel(model="one layer").values[:, None] - 1)
        known = np.isfinite(off)
        yield claim(
            "not-distance", "Data and time set the slowing, not the distance to the target: while the loss falls by "
            "100, and by the next 100, the slope of a setting stays log(1 - η min a)", source="Section 3.2 (arXiv)",
            measured={"deviation, largest": off[known].max(initial=0), "bands": int(known.sum()),
                      "slope of each setting": bands[:, 0]},
            expected="deviation ≤ 0.02", holds=bool(known.sum(axis=1).min() >= 2 and np.all(off[known] <= 0.02)),
            seeds=self.seeds,
        )  # fmt: skip
        sgd, flow = (self._bands(models["one layer, SGD"], 1)[:, 0], predicted.flow.sel(model="one layer, SGD").values)
        yield claim(
            "sgd-rate",
            "SGD on samples slows at the same rate, -lr (2/d) min a per step (median over seeds, within 2 %)",
            source="Section 3.2", measured=sgd, expected=flow, holds=bool(np.all(np.abs(sgd / flow - 1) < 0.02)),
            seeds=self.seeds,
        )  # fmt: skip

    def _bands(self, trace: xr.Dataset, count: int = 4) -> np.ndarray:
        """Median slope (signal, band) while the loss falls by a factor of 100, and the next, from where one
        exponential is left; with one band, over the whole rest of the run."""
        rows = []
        for k, (mu, sigma) in enumerate(self.signals):
            a = np.array(sigma) ** 2 + np.array(mu) ** 2 / 2
            late = trace.isel(signal=k).sel(step=slice(settled_step(a, np.array(mu), self.step_size), None))
            edges = [(1.0, 0.0)] if count == 1 else [(10.0 ** (-2 * b), 10.0 ** (-2 * b - 2)) for b in range(count)]
            rows.append([np.median(rate_between(late, *edge).slope) for edge in edges])
        return np.array(rows)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        figure, axes = panels(3, size=(3.9, 3.6))
        for panel, (name, part) in zip(axes, MODELS.items(), strict=True):
            trace = part_of(measured, part).isel(seed=0)
            middle, values = speeds(trace)
            for k, color in enumerate(settings_colors(len(self.signals))):
                label = f"{signal_label(measured, 'mu', k)}, {signal_label(measured, 'sigma', k)}"
                style = {"color": color, "label": label, "linewidth": 1.2}
                rate = float(predicted.descent.sel(model=name)[k])
                draw_speed(panel, middle, values[k], rate, 1e-6, **style)
            panel.set(xlabel="step", title=name[0].upper() + name[1:])
        axes[0].set_ylabel("speed of the output per step")
        axes[-1].plot([], [], **THEORY, label="predicted slope")
        legend_beside(axes[-1])
        return {"terminal-slowdown": figure}
