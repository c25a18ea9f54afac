"""What the vision experiments share: the fields, the training of a ViT, and the spectra that are followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.experiments.rank.head_spectra import head_probes, looks, of_heads
from dynascope.experiments.rank.vision_data import Data, vision_data
from dynascope.experiments.seeds import member_seeds
from dynascope.lab.experiment import Experiment
from dynascope.tasks.classification import Classification, Labeled, classification

SHOWN = 512
"""Training images on which the loss is recorded."""


class VisionLearner(eqx.Module):
    """An ensemble member: a ViT trained by Adam or SGD, with linear warm-up and one cosine cycle of the rate."""

    size: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    """Of the ViT: its options by name."""
    classes: int = eqx.field(static=True)
    optimizer: str = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    warmup: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    clip: float | None = eqx.field(static=True)
    """The largest norm of a gradient."""

    def __call__(
        self,
        seed: Array,
        scale: Array,
        rate: Array,
        random: Array,
        task: Classification,
        train: Labeled,
        test: Labeled,
    ) -> ds.Descent:
        init, order, noise = jax.random.split(jax.random.key(seed), 3)
        _, height, width, channels = train.x.shape
        model = ds.models.ViT((height, width, channels), self.classes, key=init, scale=scale, **dict(self.size))
        shape = optax.warmup_cosine_decay_schedule(0.0, 1.0, self.warmup, self.steps)
        rule = {"adam": optax.adam, "sgd": optax.sgd}[self.optimizer](lambda step: rate * shape(step))
        shown = jax.tree.map(lambda leaf: leaf[:SHOWN], train)
        few = np.linspace(0, self.steps, 11).astype(np.int32).tolist()
        probes = head_probes(noise, self.steps, random) | {
            "loss": ds.probes.probe(lambda snapshot: task.loss(snapshot.model, shown), every=few),
            "accuracy": ds.probes.probe(lambda snapshot: task.accuracy(snapshot.model, test), every=few),
        }
        return ds.Descent(model, task, clipped(rule, self.clip), data=train, batch=self.batch, key=order, probes=probes)


def clipped(rule: optax.GradientTransformation, clip: float | None) -> optax.GradientTransformation:
    """The rule, on gradients whose norm is at most `clip`."""
    return rule if clip is None else optax.chain(optax.clip_by_global_norm(clip), rule)


class VisionExperiment(Experiment):
    """Fields of the vision experiments: the paper's ViT on CIFAR-10, and what the paper leaves open."""

    data: Data = "cifar10"
    folder: str = ""
    """For data = folder: one subfolder of pictures for each class."""
    pixels: PositiveInt | None = None
    """For data = folder: pictures of any size are brought to pixels x pixels; none: they must agree in size."""
    images: PositiveInt | None = None
    """How many training images; none: all (of digit pairs 6,000)."""
    augment: bool = True
    """Random crops with a margin of 4 pixels, and mirror images. Digits are never augmented."""
    patch: PositiveInt = 4
    dim: PositiveInt = 512
    depth: PositiveInt = 6
    heads: PositiveInt = 8
    head_dim: PositiveInt = 128
    hidden: PositiveInt = 512
    batch: PositiveInt = 512
    epochs: PositiveInt = 500
    warmup_epochs: float = Field(15, ge=0)
    clip: float | None = Field(None, gt=0)
    """Gradients of a larger norm are scaled down to it; none: left as they are."""
    compute: Literal["float32", "bfloat16"] = "float32"
    """Of matrix products; weights, optimizer and spectra are in float32 in any case."""
    looks: int = Field(200, ge=10)
    """At how many steps, about, the spectra are recorded."""
    perturbation: Literal["trained", "random"] = "trained"
    """Spectra of what training changed, or (the null) of noise of the same size, matrix by matrix."""
    seeds: PositiveInt = 1

    @model_validator(mode="after")
    def _pixels_are_of_a_folder(self) -> Any:
        if self.pixels is not None and self.data != "folder":
            raise ValueError(f"pixels is for data=folder, whose pictures may be of any size; got data={self.data}")
        return self

    @property
    def matmul_precision(self) -> str:
        """No theory is held against these networks: TF32 where the device has it."""
        return "default"

    def train(self, optimizer: str, rate: float, scales: Sequence[float], seed: int) -> xr.Dataset:
        """The spectra of all heads, (scale, seed, step, product, layer, head, singular), and how well it learns."""
        found = vision_data(self.data, self.images, self.folder, self.pixels)
        if self.batch > len(found.x):
            raise ValueError(f"batch must be at most the number of training images, {len(found.x)}; got {self.batch}")
        per_epoch = len(found.x) // self.batch
        steps, changed = self.epochs * per_epoch, self.augment and self.data != "digit-pairs"
        number = np.dtype(self.precision)
        size = {
            name: getattr(self, name) for name in ("patch", "dim", "depth", "heads", "head_dim", "hidden", "compute")
        }
        learner = VisionLearner(
            tuple(size.items()), found.classes, optimizer, steps, round(self.warmup_epochs * per_epoch), self.batch,
            self.clip,
        )  # fmt: skip
        train, test = (
            Labeled(jnp.asarray(x), jnp.asarray(y)) for x, y in ((found.x, found.y), (found.x_test, found.y_test))
        )
        trace = ds.ensemble(
            learner,
            {"scale": np.asarray(scales, number), "seed": member_seeds(seed, self.seeds, block=1000)},
            steps=steps,
            record=looks(steps, per_epoch, self.looks),
            fixed={
                "rate": number.type(rate), "random": self.perturbation == "random", "train": train, "test": test,
                "task": classification(found.x, 4 if changed else 0, changed),
            },
            width=1,
        )  # fmt: skip
        return of_heads(trace, per_epoch).assign_attrs(data=found.name, perturbation=self.perturbation)
