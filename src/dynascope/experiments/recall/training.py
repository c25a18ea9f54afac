"""The training that these experiments share: a two-layer transformer on noisy in-context recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

from dynascope.compilation import jit_once
from dynascope.dynamics import Descent, Trajectory, ensemble
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.recall.readings import (
    DROPPED,
    MAPS,
    SCORES,
    SEEN,
    maps,
    on_random_directions,
    scores,
    seen,
    without,
)
from dynascope.experiments.recall.shuffled_targets import ShuffledTargets
from dynascope.lab.experiment import Fields, Measurement
from dynascope.models import RecallTransformer
from dynascope.probes import Probe, probe, truncations
from dynascope.tasks import NoisyRecall, RecallBatch
from dynascope.tasks.data.text import character_frequencies
from dynascope.tasks.noisy_recall import LossAt, most_frequent

Feed = Literal["mlp", "linear", "none"]
Ranks = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
CONTEXT_NOISE = 0.5
"""The noise in the contexts on which attention is read, whatever the training had."""


class Training(Fields):
    """The model and the task of a training."""

    tokens: Annotated[int, Field(ge=3, le=65)] = 65
    """Number of the text's most frequent characters that are tokens; the noise token is one more."""
    length: Annotated[int, Field(ge=8)] = 256
    dim: Annotated[int, Field(ge=4)] = 256
    hidden: PositiveInt = 1024
    """The width of MLPs."""
    batch: PositiveInt = 512
    steps: Annotated[int, Field(ge=10)] = 2000
    learning_rate: float = Field(0.03, gt=0)
    """The learning rate of SGD with momentum 0.9 and weight decay 1e-4."""
    alpha: float = Field(0.5, ge=0, lt=1)
    """The probability of noise after a trigger."""
    seeds: PositiveInt = 3
    tests: PositiveInt = 512
    """Sequences on which the model is tested, without noise, and attention is read, with noise."""
    shuffled: bool = False
    """Whether targets are those of other sequences, so that attention to earlier tokens does not help."""
    loss_at: LossAt = "triggers"
    """The positions of the loss: the last one alone, as in the document, or all triggers seen before, as in the
    authors' program, which learns much faster."""
    ranks: Ranks = (25, 51)
    """Ranks to which W_in of the second MLP is cut."""


class RecallTraining(Training, Measurement):
    """One training by SGD with momentum 0.9, with all measured quantities recorded along it."""

    triggers: PositiveInt = 1
    feeds: tuple[Feed, Feed] = ("mlp", "mlp")
    clean_first: bool = False
    """Whether as many steps without noise come before, at `clean_rate`."""
    clean_rate: float = Field(0.03, gt=0)

    def data_sets(self) -> tuple[str, ...]:
        return ("tiny_shakespeare",)

    def task(self, alpha: float) -> NoisyRecall:
        """Noisy recall with the statistics of the most frequent characters of the text."""
        text = character_frequencies()
        chosen = list(most_frequent(text.first, self.tokens))
        first, following = text.first[chosen], text.following[np.ix_(chosen, chosen)]
        first = first / first.sum()
        following = following / following.sum(1, keepdims=True)
        triggers = most_frequent(first, self.triggers)
        return NoisyRecall(first, following, length=self.length, alpha=alpha, triggers=triggers, loss_at=self.loss_at)

    def measure(self, seed: int) -> xr.Dataset:
        keys, seeds = jax.random.split(jax.random.key(seed), 2), member_seeds(seed, self.seeds)
        task = self.task(CONTEXT_NOISE)
        clean = self.task(0.0)
        tests = jit_once(lambda keys: (clean.sample(keys[0], self.tests), task.sample(keys[1], self.tests)))(keys)
        probes = self.probes(task, *tests)

        def start(number: Any) -> RecallTransformer:
            sizes = {"dim": self.dim, "hidden": self.hidden, "feeds": self.feeds}
            return RecallTransformer(task.vocabulary, self.length, key=jax.random.key(number), **sizes)

        def member(seed: Any, alpha: Any, rate: Any, shuffled: Any) -> Descent:
            number, leaves = seed
            learned = ShuffledTargets(eqx.tree_at(lambda each: each.alpha, task, alpha), shuffled)
            key = jax.random.fold_in(jax.random.key(number), 1)
            model = jax.tree.unflatten(structure, leaves)
            return Descent(model, learned, sgd(rate), batch=self.batch, key=key, probes=probes)

        def train(models: RecallTransformer, **fixed: Any) -> Trajectory:
            over, more = {"seed": (seeds, tuple(jax.tree.leaves(models)))}, {"shuffled": self.shuffled}
            return ensemble(member, over, steps=self.steps, record=recorded(self.steps), fixed=fixed | more)

        models = jit_once(jax.vmap(start))(seeds)
        structure = jax.tree.structure(models)
        if self.clean_first:
            before = train(models, alpha=0.0, rate=self.clean_rate)
            models = jax.tree.map(
                lambda *each: jnp.stack(each), *(before.member(seed=i).model for i in range(len(seeds)))
            )
        trace = train(models, alpha=self.alpha, rate=self.learning_rate).trace
        example = {"example_tokens": ("position", np.asarray(tests[1].tokens[0])), "example_target": tests[1].target[0]}
        return trace.assign_coords(seed=seeds).assign(example).assign_attrs(triggers=list(task.triggers))

    def probes(self, task: NoisyRecall, clean: RecallBatch, noisy: RecallBatch) -> dict[str, Probe]:
        """`without` (scores), `seen` (attention and predictions), `maps` at the end, and `cut`, `random` (ranks)."""
        dropped: Mapping[str, tuple[str, ...]] = dict.fromkeys(SCORES, ("dropped",))
        ranks: Mapping[str, tuple[str, ...]] = dict.fromkeys(SCORES, ("rank",))
        found = {
            "without": probe(lambda now: without(task, now.model, clean), dropped, coords={"dropped": DROPPED}),
            "seen": probe(lambda now: seen(task, now.model, noisy), SEEN),
            "maps": probe(lambda now: maps(now.model, noisy), MAPS, every=[self.steps]),
        }

        def measured(model: RecallTransformer) -> dict[str, Array]:
            return scores(task, model, clean)

        if self.feeds == ("mlp", "mlp"):
            weights = {"W_in of the second layer": lambda model: model.blocks[1].feed.into}
            found["cut"] = truncations(weights, self.ranks, measured)
        if self.feeds == ("none", "none"):
            weights = {"W_O of the first layer": lambda model: model.blocks[0].output}
            found["cut"] = truncations(weights, self.ranks, measured)
            found["random"] = probe(lambda now: on_random_directions(task, now.model, clean, self.ranks), ranks)
        return found


def recorded(steps: int) -> list[int]:
    """The recorded steps of a training: dense at first, then further and further apart."""
    return sorted({0, 1, 2, 3, 4, 5, 7, *(int(step) for step in np.geomspace(10, steps, 22).round())})


def sgd(learning_rate: Any) -> optax.GradientTransformation:
    """The optimizer of these trainings."""
    return optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(learning_rate, momentum=0.9))
