"""Figure 4.14: at a fixed budget of parameters, bigrams are learned better with a larger share in feed-forward maps."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float, Int, PRNGKeyArray
from pydantic import Field, PositiveInt

from dynascope.compilation import jit_once
from dynascope.dynamics import Descent, ensemble
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.figures import FAINT, THEORY, panels, settings_colors
from dynascope.lab.criteria import above, agrees, every, falling
from dynascope.lab.experiment import Claims, Experiment, Figures, Source, Values
from dynascope.models import BudgetSplit
from dynascope.probes import probe
from dynascope.tasks import NoisyRecall, RecallBatch, SampledTask
from dynascope.tasks.data.text import Frequencies, character_frequencies
from dynascope.theory.recall.bigrams import least_losses

TEXT = "tiny_shakespeare"
TESTS = 256
"""Sequences on which the loss is measured."""


class Budget(Experiment):
    """At a fixed budget of parameters, do feed-forward maps learn bigrams better than attention?"""

    id = "recall.budget"
    source = Source(SIMPLE_STRUCTURES, "Figure 4.14")
    card = ("budget", 1)
    cost = {"quick": 30, "full": 100_000}
    presets = {
        "quick": {"budgets": (2**14,), "shares": (0.1, 0.5, 0.9), "rates": (0.003, 0.01, 0.03, 0.1)}
        | {"dim": 32, "length": 24, "batch": 32},
        "small": {"dim": 64, "length": 64, "batch": 128},
    }
    control = {"predicted": "previous"}
    notes = """Two blocks of attention and MLP share a budget of parameters. They are trained by Adam for 100 steps on
    the next character away from triggers, which depends on the last character alone, each with the best of several
    learning rates, chosen by the mean over seeds. The document states neither budgets nor widths nor the optimizer. In
    the control the target is the previous character, which only attention can see. The full cost on a CPU is an
    estimate; the full setting is for a GPU."""

    budgets: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (2**15, 2**17, 2**19)
    shares: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(min_length=2)] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Shares of the parameters in feed-forward maps."""
    rates: Values = (0.001, 0.003, 0.01, 0.03)
    dim: PositiveInt = 256
    length: Annotated[int, Field(ge=4)] = 256
    batch: PositiveInt = 512
    alpha: float = Field(0.5, ge=0, le=1)
    steps: Annotated[int, Field(ge=10)] = 100
    seeds: PositiveInt = 2
    predicted: Literal["next", "previous"] = "next"
    """The token to predict at a position: the next, or (the control) the one before."""

    def data_sets(self) -> tuple[str, ...]:
        return (TEXT,)

    @property
    def matmul_precision(self) -> str:
        """TF32 if the device has it: these networks are not compared with theory to many digits."""
        return "default"

    def task(self) -> AwayFromTriggers:
        """The task that is trained on."""
        found = character_frequencies(TEXT)
        recall = NoisyRecall(found.first, found.following, length=self.length, alpha=self.alpha)
        return AwayFromTriggers(recall, previous=self.predicted == "previous")

    def measure(self, seed: int) -> xr.Dataset:
        task = self.task()
        tests = jit_once(lambda key: task.sample(key, TESTS))(jax.random.key(1))
        rows = [xr.concat([self._train(task, tests, seed, b, s) for s in self.shares], "share") for b in self.budgets]
        found = xr.concat(rows, xr.IndexVariable("budget", list(self.budgets)))
        entropy = task.entropy(np.asarray(tests.tokens), character_frequencies(TEXT))
        return found.assign_coords(share=list(self.shares)).assign(entropy=entropy)

    def _train(self, task: AwayFromTriggers, tests: RecallBatch, seed: int, budget: int, share: float) -> xr.Dataset:
        seen = probe(lambda snapshot: task.loss(snapshot.model, tests))

        def member(seed: Any, rate: Any) -> Descent:
            init, order = jax.random.split(jax.random.key(seed))
            model = BudgetSplit(task.recall.vocabulary, self.length, budget, share, key=init, dim=self.dim)
            return Descent(model, task, optax.adam(rate), batch=self.batch, key=order, probes={"loss": seen})

        over = {"rate": np.array(self.rates, self.precision), "seed": member_seeds(seed, self.seeds)}
        record = sorted({int(step) for step in np.linspace(0, self.steps, 11).round()})
        trace = ensemble(member, over, steps=self.steps, record=record, keep=False).trace
        return trace[["loss"]].assign_coords(rate=list(self.rates))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The least losses of a model that sees the last token, and of one without any input."""
        text = character_frequencies(TEXT)
        trigger = int(np.argmax(text.first))
        return xr.Dataset(least_losses(text.first, text.following, self.alpha, trigger, self.length)._asdict())

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        """Each split of the budget at its best rate."""
        ends = measured.loss.isel(step=-1, drop=True).fillna(np.inf)
        best = ends.mean("seed").argmin("rate")
        return xr.Dataset(
            {
                "loss": ends.isel(rate=best).drop_vars("rate"),
                "place": best,
                "curve": measured.loss.isel(rate=best).drop_vars("rate"),
                "entropy": measured.entropy,
                **predicted.data_vars,
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        statement = "At a fixed budget the loss falls with the share of parameters in MLPs (mean over seeds)"
        yield falling("falls-with-share", statement, reduced.loss.mean("seed"), along="share")
        gain = reduced.loss.isel(share=0) - reduced.loss.isel(share=-1)
        statement = "and from the smallest share to the largest in every training (nats)"
        yield above("in-every-training", statement, gain, 0)
        statement = "What is learned of the bigrams: the fall from the least loss without any context, over the most "
        statement += "that bigrams allow, at the largest share"
        most = reduced.unigram - reduced.bigram
        learned = (reduced.unigram - reduced.loss) / most
        yield above("learns-bigrams", statement, learned.isel(share=-1), 0)
        statement = "No model is better than the entropy of the bigrams (nats above it)"
        yield above("entropy-is-the-floor", statement, reduced.loss - reduced.bigram, 0)
        statement = "The exact chain gives the entropy of bigrams in the test sequences"
        yield agrees("entropy", statement, reduced.entropy, float(reduced.bigram), relative=0.02)
        statement = "The best learning rate is inside the grid"
        inside = (reduced.place > 0) & (reduced.place < len(self.rates) - 1)
        yield every("rate-inside", statement, inside)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (ends, curves) = panels(2)
        for color, budget in zip(settings_colors(len(self.budgets)), self.budgets, strict=True):
            here = reduced.loss.sel(budget=budget)
            ends.plot(here.share, here.mean("seed"), "o-", color=color, label=f"{budget:,} parameters")
            ends.plot(here.share, here.transpose("share", "seed"), ".", color=color, alpha=0.6)
        for axes in (ends, curves):
            axes.axhline(float(reduced.bigram), **THEORY)
            axes.axhline(float(reduced.unigram), color=FAINT, linestyle=":")
        ends.annotate("entropy of bigrams", (0.02, float(reduced.bigram)), (0, 3), textcoords="offset points")
        ends.set(xlabel="share of parameters in MLPs", ylabel="loss of the next character", xlim=(0, 1))
        ends.set_title(f"After {self.steps} steps, at the best rate")
        ends.legend()
        budget = self.budgets[0]
        for color, share in zip(settings_colors(len(self.shares)), self.shares, strict=True):
            curve = reduced.curve.sel(budget=budget, share=share).mean("seed")
            curves.plot(curve.step, curve, color=color, label=f"{share:.0%} in MLPs")
        curves.set(xlabel="step", ylabel="loss of the next character", title=f"{budget:,} parameters")
        curves.legend()
        return {"budget": figure}


class AwayFromTriggers(SampledTask):
    """The mean cross-entropy of the next token after tokens other than triggers; with `previous`, of the one before."""

    recall: NoisyRecall
    previous: bool = False

    def sample(self, key: PRNGKeyArray, count: int) -> RecallBatch:
        """`count` sequences of noisy recall."""
        return self.recall.sample(key, count)

    def loss(self, model: Any, batch: RecallBatch) -> Float[Array, ""]:
        """The loss; the token before the last, which was set and not drawn, is not predicted."""
        scores = jax.nn.log_softmax(jax.vmap(model)(batch.tokens))
        place = jnp.arange(self.recall.length)
        asked = (place > 0) if self.previous else (place != self.recall.length - 2)
        asked &= jnp.all(batch.tokens[..., None] != jnp.array(self.recall.triggers), axis=-1)
        labels = jnp.roll(batch.tokens, 1, axis=1) if self.previous else batch.labels
        picked = jnp.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
        return -jnp.sum(jnp.where(asked, picked, 0)) / jnp.sum(asked).astype(picked.dtype)

    def entropy(self, tokens: Int[np.ndarray, "count length"], text: Frequencies) -> float:
        """The mean entropy of the next token, at the positions that count."""
        tokens = tokens[:, : self.recall.length - 2]
        rows = np.vstack([text.following, text.first])
        found = -np.sum(rows * np.log(np.where(rows > 0, rows, 1)), axis=1)
        return float(found[tokens[~np.isin(tokens, self.recall.triggers)]].mean())
