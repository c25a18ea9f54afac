"""The phases of training over learning rate and width, of a quadratic model and of a ReLU network."""

from __future__ import annotations

from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, PositiveFloat, PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.catapult import two_layer_models as two_layers
from dynascope.experiments.catapult.regimes import OneExample
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.figures import PALETTE, THEORY, panels, phase_map, phase_shares
from dynascope.lab.criteria import agrees, below, share
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.catapult import quadratic_model
from dynascope.theory.catapult.quadratic_model import CRITICAL, LARGEST, State

PHASES = ("lazy", "catapult", "divergent", "dead")
"""The names of the outcomes of `two_layer_models.regime`, and of one more: all units are off, for good."""
DEAD = 3
COLORS = (PALETTE[1], PALETTE[2], PALETTE[0], PALETTE[3])
ACTIVATED = 12.0
"""Up to this multiple of 1/λ₀ the ReLU networks of Lewkowycz et al. (2020) train."""
WIDE = 64
"""The width from which the first line is judged: its distance from 2, of order 1/m, is below the spacing of the map."""


class MapPoint(ds.Member):
    """An ensemble member: one example, a network or a model of it, and descent at eta lambda_0 = `rate`."""

    example: OneExample
    steps: int

    def __call__(self, rate: Array, width: Array, seed: Array) -> ds.Descent:
        model, output, label, curvature = self.example.start(seed, width)
        kernel = two_layers.squared_gradient(model, output)
        start = {"residual": output(model) - label, "kernel": kernel, "label": label, "curvature": curvature}
        probes = {
            "loss": ds.probes.loss(),
            "end": ds.probes.probe(lambda snap: two_layers.squared_gradient(snap.model, output), every=(self.steps,)),
            "start": ds.probes.probe(lambda snapshot: jnp.stack([*start.values()]), every=(0,), dims=("quantity",)),
        }
        return ds.Descent(
            model, lambda model: (output(model) - label) ** 2 / 2, optax.sgd(rate / kernel), probes=probes
        )


class CatapultMap(Experiment):
    """Over rate and width: where is training lazy, where does it catapult, and where does it diverge?"""

    id = "catapult.map"
    source = Source(OVER_PARAMETERIZED, "Figure 3.1; Theorems 3.3.1, B.7.1")
    cost = {"quick": 8, "full": 60}
    presets = {"quick": {"rates": tuple(0.5 * 2 ** (k / 5) for k in range(26)), "widths": (64, 256), "seeds": 4}}
    control = {"models": ("linear",)}
    known_failures = {
        "network-to-twelve": "Beyond 4/λ₀ a step turns all units off at most starts: with one example a unit that is "
        "off has no gradient, and never comes back. The networks of that paper are deeper and see many examples.",
    }
    notes = """One example x ~ N(0, I), label N(0, 1), loss (g - y)²/2, two ReLU layers. Rates are given as ηλ₀, with λ₀
    the kernel of the run's own start. A run is lazy if its loss never rises, a catapult if it rises and ends below its
    start, divergent otherwise; it is dead if its gradient is zero at the end, since all its units are off. The theorems
    are about the quadratic model; the gates of the ReLU network beside it may open and close. That ReLU networks train
    up to about 12/λ₀ is a finding of Lewkowycz et al. (2020, arXiv:2003.02218). The control is the linearized network,
    which has no catapult. All cells start from the same seeds."""

    defaults = {"precision": "float64"}

    models: Annotated[tuple[two_layers.Kind, ...], Field(min_length=1)] = ("quadratic", "network")
    """What is trained; the main claim is about the first."""
    rates: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = tuple(0.5 * 2 ** (k / 10) for k in range(51))
    """Learning rates, as multiples of 1/λ₀."""
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (16, 32, 64, 128, 256, 512, 1024, 2048)
    dim: PositiveInt = 5
    steps: Annotated[int, Field(ge=20)] = 300
    seeds: PositiveInt = 8

    def measure(self, seed: int) -> xr.Dataset:
        number = np.dtype(self.precision)
        over: dict[str, Any] = {
            "width": np.array(self.widths, np.int32),
            "rate": np.array(self.rates, number),
            "seed": member_seeds(seed, self.seeds),
        }
        members = [MapPoint(OneExample(self.dim, max(self.widths), kind), self.steps) for kind in self.models]
        traces = [ds.ensemble(member, over, steps=self.steps, record=1, keep=False).trace for member in members]
        return xr.concat(traces, "model").assign_coords(model=list(self.models))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The phase in which the exact map (3.11-3.12) ends from each run's own start, by the rules for the runs."""
        dims = ("width", "rate", "seed")
        start = measured.start.isel(start_step=0, model=0, drop=True).transpose(*dims, "quantity").values
        residual, kernel, label, curvature = (jnp.asarray(start[..., k]) for k in range(4))
        curvature = curvature * (0.0 if self.models[0] == "linear" else 1.0)
        rate = jnp.asarray(measured.rate.values)[:, None] / kernel
        path = quadratic_model.path(State(residual, kernel), rate, label, curvature, self.steps)
        phase = two_layers.regime(np.moveaxis(np.asarray(path.residual**2 / 2), 0, -1))
        return xr.Dataset({"phase": (dims, phase)}, {name: measured[name] for name in dims})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        loss = measured.loss.transpose("model", "width", "rate", "seed", "step")
        phase = loss.isel(step=0, drop=True).copy(data=two_layers.regime(loss))
        dead = (measured.end.isel(end_step=0, drop=True) == 0) & np.isfinite(loss.isel(step=-1, drop=True))
        phase = phase.where(~dead, DEAD).astype(int)
        reduced = xr.Dataset({"phase": phase, "by_the_map": predicted.phase})
        middles = np.sqrt(phase.rate.values[1:] * phase.rate.values[:-1])
        for name, left in (("first_line", phase > two_layers.MONOTONE), ("second_line", phase >= two_layers.DIVERGENT)):
            half = (left.mean("seed") >= 0.5).transpose("model", "width", "rate")
            reduced[name] = ("model", "width"), first_change(half.values, middles)
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        phase, rate, width = reduced.phase.isel(model=0), reduced.rate, reduced.width
        order = np.log(width) / np.sqrt(width)
        lines = xr.where(rate < CRITICAL, 0, xr.where(rate < LARGEST, 1, 2))
        clear = (np.abs(rate - CRITICAL) > order) & (np.abs(rate - LARGEST) > order)
        right = (phase == lines).where(clear)
        statement = "Farther than log m/√m from ηλ₀ = 2 and 4 a run is in the phase of the theorems: lazy below 2, a "
        statement += "catapult from there to 4, divergent beyond"
        about: dict[str, Any] = {"source": "Theorems 3.3.1, B.7.1", "seeds": reduced.sizes["seed"]}
        by_width = right.mean(("rate", "seed"))
        yield share("three-phases", statement, right, 0.95, shown={"by width": by_width}, **about)
        if self.models[0] != "network":
            statement = "The map (3.11-3.12) from the run's own start gives its phase, at every rate and width"
            yield share("map-gives-phase", statement, phase == reduced.by_the_map, 0.99, source="(3.11), (3.12)")
        if reduced.sizes["rate"] > 1 and max(self.widths) >= WIDE:
            yield from self._judge_lines(reduced.sel(width=width >= WIDE), about)

    def _judge_lines(self, wide: xr.Dataset, about: Any) -> Claims:
        rates, order = wide.rate.values, np.log(wide.width) / np.sqrt(wide.width)
        spacing = float((rates[1:] / rates[:-1]).max()) - 1
        statement = f"From width {WIDE} on half of the seeds leave the lazy phase at ηλ₀ = 2, to the spacing of the map"
        yield agrees("first-line", statement, wide.first_line.isel(model=0), CRITICAL, relative=spacing, **about)
        away = np.abs(wide.second_line.isel(model=0) - LARGEST)
        statement = "Half of them diverge within log m/√m of ηλ₀ = 4: the distance over that and the spacing of the map"
        ratio = away / (order + LARGEST * spacing)
        yield below("second-line", statement, ratio, 1, shown={"at": wide.second_line.isel(model=0)}, **about)
        if "network" in self.models:
            net = wide.sel(model="network")
            statement = f"A ReLU network has the same first line: from width {WIDE} on half of the seeds leave at 2"
            yield agrees("network-first-line", statement, net.first_line, CRITICAL, relative=spacing)
            beyond = net.phase.where(net.rate > LARGEST * (1 + spacing))
            statement = f"It trains up to {ACTIVATED:g}/λ₀: share of its runs beyond one spacing above 4, up to there"
            train = (beyond < two_layers.DIVERGENT).where(beyond.notnull() & (net.rate <= ACTIVATED))
            post_hoc = "A first reading, half of the seeds train one spacing above 4, failed at one width of three."
            source = "Lewkowycz et al. (2020)"
            yield share("network-to-twelve", statement, train, 0.5, source=source, post_hoc=post_hoc)
            lost = beyond.where(beyond >= two_layers.DIVERGENT)
            statement = "Beyond the second line the loss of a ReLU network does not grow without bound: what ends the "
            statement += "training is that all its units turn off (share of the runs that do not train)"
            post_hoc = "That units die was seen in the first map."
            flags = (lost == DEAD).where(lost.notnull())
            yield share("network-dies", statement, flags, 0.5, post_hoc=post_hoc)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, all_axes = panels(len(self.models), size=(5, 4.2), squeeze=False)
        widths = np.geomspace(min(self.widths) / 2, max(self.widths) * 2, 200)
        for axes, kind in zip(all_axes[0], self.models, strict=True):
            shares = phase_shares(reduced.phase.sel(model=kind), PHASES)
            phase_map(axes, shares, COLORS, x="rate", y="width", log="xy")
            order = np.log(widths) / np.sqrt(widths)
            for line in (CRITICAL, LARGEST):
                axes.plot(np.full(2, line), widths[[0, -1]], **THEORY)
            for side in (LARGEST - order, LARGEST + order):
                axes.plot(np.where(side > CRITICAL, side, np.nan), widths, **{**THEORY, "linestyle": ":"})
            axes.set(title=two_layers.NAMES[kind], xlabel="learning rate, ηλ₀", ylabel="width m")
            axes.set_xticks([0.5, 1, 2, 4, 8, 16], ["0.5", "1", "2", "4", "8", "16"])
            axes.minorticks_off()
        return {"map": figure}


def first_change(flags: np.ndarray, middles: Float[np.ndarray, " gap"]) -> Float[np.ndarray, " ..."]:
    """The middle before the first true flag of each row; NaN if none or the very first is true."""
    first = flags.argmax(-1)
    inside = flags.any(-1) & (first > 0)
    return np.where(inside, middles[np.maximum(first - 1, 0)], np.nan)
