"""Figure 20: the attention of a language model gains rank gradually."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import GRADUAL_RANK
from dynascope.experiments.language_model import Size
from dynascope.experiments.rank import attention_figures
from dynascope.experiments.rank.attention_ranks import (
    NAMES,
    grows,
    head_probes,
    low_rank,
    read_ranks,
    record_steps,
    unlike_noise,
    with_epochs,
)
from dynascope.figures import INK, panels
from dynascope.lab.criteria import above, below
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.tasks.data.byte_pairs import pieces
from dynascope.tasks.data.text import encode, read_text
from dynascope.tasks.next_token import NextToken

LONG = 1000
"""The least number of steps of a run in which keys and queries must grow."""
THROUGHOUT = {"key-query": "small-throughout-key-query", "value-output": "small-throughout-value-output"}
INCREASES = "Stable rank of the perturbation increases gradually"
LATER = "From layer 2 on and in long runs only: in the first layer the rank falls to about 1, in others until step 200."


class LanguageMember(ds.Member):
    """A member of the ensemble: a GPT trained by Adam on windows of a text."""

    size: Size
    vocabulary: int
    steps: int
    warmup: int
    decay: bool
    batch: int

    def __call__(self, seed: Array, rate: Array, random: Array, task: NextToken) -> ds.Descent:
        init, order, noise = jax.random.split(jax.random.key(seed), 3)
        model = ds.models.GPT(self.vocabulary, task.context, key=init, **dict(self.size))
        end = 0.0 if self.decay else 1.0
        rise = optax.linear_schedule(1 / max(self.warmup, 1), 1.0, self.warmup)
        fall = optax.linear_schedule(1.0, end, self.steps - self.warmup)
        shape = optax.join_schedules([rise, fall], [self.warmup])
        probes = head_probes(noise, self.steps, random) | {"loss": ds.probes.loss()}
        rule = optax.adam(lambda step: rate * shape(step))
        return ds.Descent(model, task, rule, batch=self.batch, key=order, probes=probes)


class Language(Size, Experiment):
    """Does the attention of a language model gain rank gradually?"""

    id = "rank.language"
    source = Source(GRADUAL_RANK, "Figures 4, 20")
    cost = {"quick": 9, "full": 10000000}
    presets = {
        "quick": {"dim": 64, "depth": 2, "heads": 2, "hidden": 128, "context": 32, "batch": 16, "learning_rate": 2e-3}
        | {"warmup": 20, "decay": False, "steps": 300, "since": 30, "recorded": 30},
        "small": {"dim": 96, "depth": 3, "heads": 4, "hidden": 384, "context": 64, "batch": 32, "learning_rate": 1e-3}
        | {"warmup": 50, "decay": False, "steps": 2000, "since": 200, "recorded": 60, "seeds": 3},
        "mid": {"text": "wikitext103", "vocabulary": 8192, "compute": "bfloat16", "dim": 384, "depth": 6, "heads": 6}
        | {"hidden": 1536, "steps": 2441, "since": 244, "recorded": 60},
        "gpu": {"text": "wikitext103", "vocabulary": 50_257, "compute": "bfloat16"},
    }
    control = {"perturbation": "random"}
    notes = """The paper trains GPT-2 on Wikitext-103 (three epochs of blocks of 256 tokens, batch 16, Adam 3e-4 with
    linear decay). The defaults are the same, from random weights and without dropout, but on characters, or on
    `vocabulary` byte-pair tokens learned from the text itself instead of GPT-2's own. The preset gpu trains that model
    on Wikitext-103 with a vocabulary of GPT-2's size, mid one half as deep and wide on 10 million tokens; neither has
    been run, and learning 50,257 tokens from such a long text takes hours. `text` is a name in $DYNASCOPE_DATA or the
    path of a UTF-8 file. In the control, noise of the same size replaces the change in training. The main claim is the
    contrast with noise, since noise of this size has a stable rank just below that at initialization (0.98 of it). The
    full cost on a CPU is an estimate."""

    known_failures = {
        "quick/increases-key-query": "In 300 steps the gain of keys and queries only falls toward rank 1, from the "
        "higher rank of Adam's first steps; from layer 2 on it grows after step 200."
    }

    text: str = "tiny_shakespeare"
    vocabulary: PositiveInt | None = None
    """The number of byte-pair tokens, learned from the text; none: its characters."""
    context: PositiveInt = 256
    batch: PositiveInt = 16
    learning_rate: float = Field(3e-4, gt=0)
    warmup: int = Field(0, ge=0)
    """Steps of linear warm-up."""
    decay: bool = True
    """Whether the rate decays linearly to zero after the warm-up, or stays constant."""
    steps: PositiveInt = 86_000
    since: PositiveInt = 8_600
    """The step from which growth is measured: the first steps of Adam resemble sign descent and have higher rank."""
    recorded: int = Field(200, ge=10)
    """The approximate number of recorded steps."""
    perturbation: Literal["trained", "random"] = "trained"
    """Record the change of each matrix in training, or (the control) noise of the same size instead."""
    seeds: PositiveInt = 1

    @model_validator(mode="after")
    def _fits_together(self) -> Any:
        if self.since >= self.steps:
            raise ValueError(f"since must be less than steps; got since={self.since}, steps={self.steps}")
        if self.dim % self.heads:
            raise ValueError(f"dim must be a multiple of heads; got dim={self.dim}, heads={self.heads}")
        return self

    @property
    def matmul_precision(self) -> str:
        """TF32 if the device has it: these networks are not compared with theory."""
        return "default"

    def measure(self, seed: int) -> xr.Dataset:
        written = read_text(self.text)
        text = encode(written) if self.vocabulary is None else pieces(written, self.vocabulary)
        unit = "characters" if self.vocabulary is None else "byte-pair tokens"
        member = LanguageMember(Size.of(self), len(text.alphabet), self.steps, self.warmup, self.decay, self.batch)
        rate, task = (
            np.dtype(self.precision).type(self.learning_rate),
            NextToken(jnp.asarray(text.tokens), self.context),
        )
        fixed = {"rate": rate, "random": self.perturbation == "random", "task": task}
        over = {"seed": member_seeds(seed, self.seeds, block=1000)}
        record = np.union1d(record_steps(self.steps, self.since, self.recorded), [self.since])
        trace = ds.ensemble(member, over, steps=self.steps, record=record, fixed=fixed, width=1).trace
        return with_epochs(trace, self.since).assign_attrs(
            data=f"{len(text.tokens)} {unit} of {self.text}", perturbation=self.perturbation
        )

    def data_sets(self) -> tuple[str, ...]:
        return (self.text,)

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        return read_ranks(measured, since=f"step {self.since}")

    def judge(self, reduced: xr.Dataset) -> Claims:
        yield unlike_noise(reduced, source="Figure 20")
        for product, name in NAMES.items():
            yield low_rank(reduced, product, 1.0, source="Figure 20")
            one = reduced.sel(product=product)
            statement = (
                f"The stable rank of the gain of {name} stays below half of the product's own at the start at every "
            )
            statement += f"step from {self.since} on (every layer, mean over heads)"
            ratio = (one.gained.where(one.step >= self.since) / one.initial).max("step")
            printed = "but remains small throughout training"
            yield below(THROUGHOUT[product], statement, ratio, 0.5, source="Figure 20", printed=printed)
        yield grows(reduced, "value-output", printed=INCREASES)
        statement = "So does that of W_K W_Qᵀ: factor in each seed, mean over layers and heads"
        late, early = (reduced[when].sel(product="key-query").mean("layer") for when in ("late", "early"))
        yield above("increases-key-query", statement, late / early, 1.0, source="Figure 20", printed=INCREASES)
        if self.depth > 1 and self.steps >= LONG:
            yield grows(reduced, "key-query", from_layer=2, post_hoc=LATER)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        steps = measured.assign_coords(epoch=measured.step)
        figure, axes = panels(1, size=(4.4, 3.0))
        axes.plot(measured.step, measured.loss.T, color=INK, alpha=0.7)
        axes.set(xlabel="step", ylabel="loss of the next token", title=measured.attrs["data"])
        return {"stable-rank": attention_figures.per_layer(steps, measured.attrs["data"], clock="step"), "loss": figure}
