"""Figure 20: a GPT that learns to continue a text gains rank gradually."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.experiments.rank import rank_claims, rank_drawing
from dynascope.experiments.rank.head_spectra import head_probes, looks, of_heads
from dynascope.experiments.seeds import member_seeds
from dynascope.figures.forms import INK, panels
from dynascope.lab.claims import Claim
from dynascope.lab.experiment import Experiment, Source
from dynascope.tasks.data.byte_pairs import pieces
from dynascope.tasks.data.files import DataNotFoundError
from dynascope.tasks.data.text import encoded, read_text
from dynascope.tasks.next_token import NextToken

STAND_IN, LONG = "tiny_shakespeare", 1000


class LanguageLearner(eqx.Module):
    """An ensemble member: a GPT trained by Adam on windows of a text."""

    size: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    warmup: int = eqx.field(static=True)
    decay: bool = eqx.field(static=True)
    batch: int = eqx.field(static=True)

    def __call__(self, seed: Array, rate: Array, random: Array, task: NextToken) -> ds.Descent:
        init, order, noise = jax.random.split(jax.random.key(seed), 3)
        model = ds.models.GPT(self.vocabulary, task.context, key=init, **dict(self.size))
        end = 0.0 if self.decay else 1.0
        shape = optax.join_schedules(
            [optax.linear_schedule(1 / max(self.warmup, 1), 1.0, self.warmup),
             optax.linear_schedule(1.0, end, self.steps - self.warmup)], [self.warmup],
        )  # fmt: skip
        probes = head_probes(noise, self.steps, random) | {"loss": ds.probes.loss()}
        rule = optax.adam(lambda step: rate * shape(step))
        return ds.Descent(model, task, rule, batch=self.batch, key=order, probes=probes)


class Language(Experiment):
    """Does a language model's attention gain rank gradually?"""

    id = "rank.language"
    source = Source("Transformers learn through gradual rank increase", "Figures 4, 20")
    cost = {"quick": 9, "full": 10000000}
    presets = {
        "quick": {
            "dim": 64, "depth": 2, "heads": 2, "hidden": 128, "context": 32, "batch": 16, "learning_rate": 2e-3,
            "warmup": 20, "decay": False, "steps": 300, "since": 30, "looks": 30, "seeds": 1,
        },
        "small": {
            "dim": 96, "depth": 3, "heads": 4, "hidden": 384, "context": 64, "batch": 32, "learning_rate": 1e-3,
            "warmup": 50, "decay": False, "steps": 2000, "since": 200, "looks": 60, "seeds": 3,
        },
        "mid": {
            "text": "wikitext103", "vocabulary": 8192, "compute": "bfloat16", "dim": 384, "depth": 6, "heads": 6,
            "hidden": 1536, "steps": 2441, "since": 244, "looks": 60,
        },
        "gpu": {"text": "wikitext103", "vocabulary": 50_257, "compute": "bfloat16"},
    }  # fmt: skip
    control = {"perturbation": "random"}
    notes = """The paper trains GPT-2 on Wikitext-103 (three epochs of blocks of 256 tokens, batch 16, Adam 3e-4 with
    linear decay); the defaults are those, from random weights and without dropout, but on characters, or on
    `vocabulary` byte-pair tokens learned from the text itself, not on GPT-2's own. The preset gpu is that on
    Wikitext-103 with a vocabulary of GPT-2's size, mid half as deep and wide over 10 million tokens; neither has been
    run, and learning 50,257 pieces of so long a text takes hours by itself. `text` is a name in $DYNASCOPE_DATA or the
    path of a UTF-8 file; where tiny_shakespeare is not to be had, sentences of a toy grammar take its place and the
    claims say so. Keys and queries of the first layer do not gain rank (they fall to about 1 and stay), which is why
    that claim begins with layer 2; it is asked of runs of at least 1,000 steps, since in the others keys and queries
    fall too until step 200 or so and grow only after. In the control noise of the same size takes the place of what
    training changed; it is the contrast with noise that the main claim asks for, since noise of this size would pass
    for low rank beside the start (0.98 of it). The full cost on a CPU is an estimate."""

    text: str = STAND_IN
    vocabulary: PositiveInt | None = None
    """Byte-pair tokens, learned from the text, so many of them; or its characters."""
    dim: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    hidden: PositiveInt = 3072
    context: PositiveInt = 256
    batch: PositiveInt = 16
    learning_rate: float = Field(3e-4, gt=0)
    warmup: int = Field(0, ge=0)
    """Steps of linear warm-up."""
    decay: bool = True
    """Linearly to zero, or a constant rate after the warm-up."""
    steps: PositiveInt = 86_000
    since: PositiveInt = 8_600
    """Growth is asked for from this step on: the first steps of Adam are sign-like and of higher rank."""
    compute: Literal["float32", "bfloat16"] = "float32"
    looks: int = Field(200, ge=10)
    perturbation: Literal["trained", "random"] = "trained"
    seeds: PositiveInt = 1

    @model_validator(mode="after")
    def _there_is_time_to_grow(self) -> Any:
        if self.since >= self.steps:
            raise ValueError(f"since must be less than steps; got since={self.since}, steps={self.steps}")
        return self

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> Any:
        if self.dim % self.heads:
            raise ValueError(f"dim must be a multiple of heads; got dim={self.dim}, heads={self.heads}")
        return self

    @property
    def matmul_precision(self) -> str:
        """No theory is held against these networks: TF32 where the device has it."""
        return "default"

    def measure(self, seed: int) -> xr.Dataset:
        try:
            written, name = read_text(self.text), self.text
        except DataNotFoundError:
            if self.text != STAND_IN:
                raise
            written, name = toy_text(), "a toy grammar, a substitute for Shakespeare"
        text = encoded(written) if self.vocabulary is None else pieces(written, self.vocabulary)
        unit = "characters" if self.vocabulary is None else "byte-pair tokens"
        names = ("dim", "depth", "heads", "hidden", "compute")
        learner = LanguageLearner(
            tuple((field, getattr(self, field)) for field in names), len(text.alphabet), self.steps, self.warmup,
            self.decay, self.batch,
        )  # fmt: skip
        fixed = {
            "rate": np.dtype(self.precision).type(self.learning_rate), "random": self.perturbation == "random",
            "task": NextToken(jnp.asarray(text.tokens), self.context),
        }  # fmt: skip
        over = {"seed": member_seeds(seed, self.seeds, block=1000)}
        record = np.union1d(looks(self.steps, self.since, self.looks), [self.since])
        trace = ds.ensemble(learner, over, steps=self.steps, record=record, fixed=fixed, width=1)
        return of_heads(trace, self.since).assign_attrs(
            data=f"{len(text.tokens)} {unit} of {name}", perturbation=self.perturbation
        )

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        yield rank_claims.unlike_noise(measured, "Figure 20")
        yield rank_claims.low_rank(measured, "Figure 20", "key-query", 1.0)
        yield rank_claims.low_rank(measured, "Figure 20", "value-output", 1.0)
        yield rank_claims.net_growth(measured, "Figures 4, 20", "value-output", 1)
        if self.depth > 1 and self.steps >= LONG:
            yield rank_claims.net_growth(measured, "Figures 4, 20", "key-query", 2)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        steps = measured.assign_coords(epoch=measured.step)
        figure, axes = panels(1, size=(4.4, 3.0))
        axes.plot(measured.step, measured.loss.T, color=INK, alpha=0.7)
        axes.set(xlabel="step", ylabel="loss of the next token", title=measured.attrs["data"])
        return {"stable-rank": rank_drawing.per_layer(steps, measured.attrs["data"], clock="step"), "loss": figure}


def toy_text(sentences: int = 6000) -> str:
    """Sentences of a small grammar, always the same."""
    draw = np.random.default_rng(0)
    nouns = ("king", "queen", "night", "moon", "sword", "garden", "letter", "storm", "river", "fool")
    verbs = ("loves", "fears", "seeks", "forgets", "breaks", "follows", "hides", "sings of")
    parts = [
        f"The {draw.choice(nouns)} {draw.choice(verbs)} the {draw.choice(nouns)}{draw.choice(list('.!?;'))}\n"
        for _ in range(sentences)
    ]
    return "".join(parts)
