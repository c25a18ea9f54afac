"""When the noise is learned and when attention takes over, over the noise level and the length of contexts."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves.stages import first_crossing
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.recall.phases import Shuffled, look
from dynascope.figures import PALETTE, THEORY, panels, phase_map, phase_shares
from dynascope.lab.criteria import agrees, share, within
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.recall.long_contexts import population_path

PHASES = ("nothing", "noise", "attention")
"""A model has learned neither, to predict the noise, or to attend to the target."""
COLORS = ("#ece7de", PALETTE[0], PALETTE[1])
NOISE_LEARNED = 0.8
"""The share of alpha that the probability of the noise reaches, as in `recall.phases`."""
TAKEN_OVER = 0.5
"""The attention on targets, as there."""
CLOSE = 0.25
"""How far a median time may be from the predicted one."""
NAMES = ("noise", "on_target")
Levels = Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=1)]


class RecallRun(ds.Member):
    """An ensemble member: the one-layer model from zero, trained by SGD on fresh contexts."""

    tokens: int
    length: int
    batch: int
    learning_rate: float
    shuffled: bool

    def __call__(self, alpha: Array, seed: Array) -> ds.Descent:
        task = ds.tasks.NoisyRecall.uniform(self.tokens, length=self.length, alpha=alpha)

        def seen(snapshot: Any) -> dict[str, Array]:
            found = look(task, snapshot.model, task.sample(jax.random.key(1), 128))
            return {name: found[name] for name in NAMES}

        model, key = ds.models.OneLayerRecall(task.vocabulary), jax.random.key(seed)
        trained = Shuffled(task) if self.shuffled else task
        probes = {"seen": ds.probes.probe(seen)}
        return ds.Descent(model, trained, optax.sgd(self.learning_rate), batch=self.batch, key=key, probes=probes)


class RecallMap(Experiment):
    """Over noise and length: when is the noise learned, and when does attention take over?"""

    id = "recall.phase-map"
    source = Source(SIMPLE_STRUCTURES, "Theorem 4.2, Section 4.4.4.3")
    cost = {"quick": 15, "full": 60}
    presets = {"quick": {"alphas": (0.1, 0.3, 0.5), "ratios": (1, 4, 16), "steps": 300, "seeds": 3}}
    control = {"shuffled": True}
    notes = """The model of Eq. 4.2 from zero, SGD at rate 1 with fresh contexts at every step. The noise is learned
    when its probability reaches 0.8 alpha; attention has taken over when its mean on targets after triggers, over
    contexts that show one, is one half. The prediction is gradient descent on the population of long contexts, without
    a sample (theory.recall.long_contexts): it does not depend on T. In a short context the trigger comes rarely or
    never: the number of its occurrences has the mean T/N. The control gives each context the label of another one, so
    that attention has no reason to look back."""

    tokens: Annotated[int, Field(ge=5, le=60)] = 12
    """N."""
    alphas: Levels = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    ratios: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (1, 2, 4, 8, 16)
    """T/N."""
    learning_rate: float = Field(1.0, gt=0)
    batch: PositiveInt = 64
    steps: Annotated[int, Field(ge=20)] = 600
    seeds: PositiveInt = 3
    shuffled: bool = False
    """Whether labels are those of other contexts."""

    def measure(self, seed: int) -> xr.Dataset:
        alphas = np.array(self.alphas, np.float32)
        seeds = member_seeds(seed, self.seeds * len(self.ratios)).reshape(len(self.ratios), self.seeds)
        steps = [int(step) for step in ds.log_steps(self.steps, 120)]
        members = [
            RecallRun(self.tokens, ratio * self.tokens, self.batch, self.learning_rate, self.shuffled)
            for ratio in self.ratios
        ]
        traces = [
            ds.ensemble(member, {"alpha": alphas, "seed": own}, steps=self.steps, record=steps, keep=False).trace
            for member, own in zip(members, seeds, strict=True)
        ]
        seen = [trace[[f"seen_{name}" for name in NAMES]].drop_vars("seed") for trace in traces]
        return xr.concat(seen, "ratio").assign_coords(ratio=list(self.ratios), alpha=list(self.alphas))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The path on the population of long contexts, at every noise level."""
        paths = [population_path(self.tokens, alpha, self.learning_rate, self.steps) for alpha in self.alphas]
        return xr.concat(paths, "alpha").assign_coords(alpha=list(self.alphas))

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        order = ("ratio", "alpha", "seed", "step")
        runs = {name: measured[f"seen_{name}"].transpose(*order) for name in NAMES}
        reduced = {"noise_time": runs["noise"], "attention_time": runs["on_target"]}
        reduced |= {f"{name}_predicted": predicted[path] for name, path in zip(reduced, NAMES, strict=True)}
        found = xr.Dataset({name: self.times(curve, "noise" in name) for name, curve in reduced.items()})
        step = runs["noise"].step
        phase = xr.where(step >= found.attention_time, 2, xr.where(step >= found.noise_time, 1, 0))
        return found.assign(phase=phase.transpose(*order))

    def times(self, curve: xr.DataArray, noise: bool) -> xr.DataArray:
        """The step at which each curve reaches its level; NaN if it does not."""
        values = (curve / curve.alpha if noise else curve).transpose(..., "step")
        level = NOISE_LEARNED if noise else TAKEN_OVER
        crossed = first_crossing(values.values, level, values.step.values).time
        return values.isel(step=0, drop=True).copy(data=crossed)

    def judge(self, reduced: xr.Dataset) -> Claims:
        about: dict[str, Any] = {"seeds": reduced.sizes["seed"]}
        attention = reduced.attention_time.median("seed", skipna=False) / reduced.attention_time_predicted
        known = reduced.attention_time_predicted.notnull()
        longest = attention.sel(ratio=max(self.ratios)).where(known, drop=True)
        statement = f"In contexts of {max(self.ratios)} N tokens attention takes over at the predicted step, at every "
        statement += "noise level (median over seeds, over the prediction)"
        yield agrees("attention-time", statement, longest, 1, relative=CLOSE, **about)
        clear = NOISE_LEARNED * reduced.alpha >= 2 / (self.tokens + 1)
        noise = reduced.noise_time.median(("ratio", "seed")) / reduced.noise_time_predicted
        statement = "The noise is learned at the predicted step, where that is at twice its first probability or more "
        statement += "(median over seeds and lengths)"
        post_hoc = "The restriction, and the lengths in the median: at α = 0.1 the noise begins 4 % below its level."
        near = noise.where(clear, drop=True)
        yield agrees("noise-time", statement, near, 1, relative=CLOSE, post_hoc=post_hoc, **about)
        first = reduced.noise_time < reduced.attention_time.fillna(np.inf)
        statement = "The noise is learned before attention takes over (share of runs)"
        yield share("noise-first", statement, first, 0.95, **about)
        if len(self.ratios) > 2 and not self.shuffled:
            excess = (attention - 1).dropna("alpha").sortby("ratio").median("alpha")
            statement = "The shorter the contexts, the later attention takes over: the delay beyond the prediction "
            statement += "falls as a power of T/N near -1, as the variance of the number of triggers does (exponent)"
            yield within("delay", statement, power(excess), -1.5, -0.5, shown={"by T/N": excess}, **about)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, all_axes = panels(len(self.ratios), size=(3.1, 3.6), squeeze=False)
        shown = reduced.phase.sel(step=reduced.step > 0)
        for number, (axes, ratio) in enumerate(zip(all_axes[0], self.ratios, strict=True)):
            shares = phase_shares(shown.sel(ratio=ratio), PHASES)
            phase_map(axes, shares, COLORS, x="alpha", y="step", log="y", legend=number == len(self.ratios) - 1)
            for name in ("noise_time_predicted", "attention_time_predicted"):
                axes.plot(reduced.alpha, reduced[name], **THEORY)
            axes.set(title=f"T = {ratio} N", xlabel="noise α", ylabel="step" if number == 0 else "")
        return {"phase-map": figure}


def power(values: xr.DataArray) -> float:
    """The exponent of a positive function of `ratio`, by least squares in the logarithms; NaN if a value is not."""
    return float(np.polyfit(np.log(values.ratio.values), np.log(values.values), 1)[0]) if (values > 0).all() else np.nan
