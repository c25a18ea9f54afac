"""The base of the experiments on pictures: a diffusion model learns to paint, and is prompted for combinations that it
never saw.

It paints inside the run, at every recording, and the concepts are read from the pixels (and by a classifier).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

import dynascope as ds
from dynascope.compilation import jit_once
from dynascope.dynamics.ensemble import member_seeds
from dynascope.lab.experiment import Fields, JoinableExperiment, Values
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.concept_labels import ConceptLabels
from dynascope.tasks.diffusion import Terms, VariationalDiffusion
from dynascope.tasks.image_concepts import ImageConcepts
from dynascope.tasks.image_reading import read_concepts

ConceptName = Literal["color", "size", "shape"]
QUICK: dict[str, Any] = {"seeds": 1, "pixels": 8, "blur": 0.25, "channels": (16, 32), "blocks": 1, "dropout": 0.0}
QUICK |= {"per_class": 512, "batch": 32, "learning_rate": 2e-3, "average": 0.98, "steps": 1000, "checkpoints": 14}
QUICK |= {"per_prompt": 12, "sampling_steps": 15, "held_out": 0, "classifier_steps": 0}
GPU: dict[str, Any] = {"compute": "bfloat16", "steps": 3000, "checkpoints": 40, "sampling_steps": 50, "shown": 1}
GPU |= {"classifier_steps": 2000}
"""Parts of presets."""
SIGNAL_PICTURES = 1024
"""Pictures of each class from which the signals are measured."""
LABELED = 2000
"""Fresh pictures on which the classifier is tested."""
CPU_SECONDS = 6.0
"""A step of the paper's network at batch 128 on two CPU cores."""


class Drawing(Fields):
    """The options of `ImageConcepts`, except for the color separation."""

    size_separation: float = Field(0.4, ge=0, le=1)
    shape_separation: float = Field(1.0, ge=0, le=1)
    concepts: tuple[ConceptName, ...] = ("color", "size")
    pixels: PositiveInt = 32
    mean_size: float = Field(0.5, gt=0)
    color_spread: float = Field(0.125, ge=0)
    size_spread: float = Field(0.375, ge=0)
    center: float = Field(0.5, ge=0, le=1)
    background: tuple[float, float] = (0.8, 1.0)
    noise: float = Field(0.001, ge=0)
    blur: float = Field(1.0, ge=0)
    conditioning: Literal["named", "all"] = "named"
    """The condition: size, color (and shape); or the published program's 11 numbers."""


class Network(Fields):
    """The options of `UNet`."""

    channels: tuple[PositiveInt, ...] = (64, 128, 256)
    blocks: PositiveInt = 2
    norm: Literal["group", "layer"] = "group"
    placement: Literal["every", "downsampling"] = "every"
    heads: PositiveInt = 4
    dropout: float = Field(0.1, ge=0, lt=1)
    compute: Literal["float32", "bfloat16"] = "float32"


class Painting(Fields):
    """The options of training and of painting."""

    per_class: PositiveInt = 1740
    """Training pictures of each class: 85 % of 2,048."""
    batch: PositiveInt = 128
    weight_decay: float = Field(0.01, ge=0)
    clip: Literal["network_only", "global"] = "network_only"
    clip_norm: float = Field(1.0, gt=0)
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of the weights' moving average, from which pictures are painted; 0: the weights themselves."""
    per_prompt: PositiveInt = 32
    sampling_steps: PositiveInt = 100
    shown: PositiveInt = 2
    """Pictures of each prompt that are kept at every recording."""
    held_out: NonNegativeInt = 32
    """Pictures of each training class on which the loss is recorded; 0: no loss is recorded."""


class Painter(ds.Member):
    """An ensemble member: a U-Net and its schedule, trained on the training classes of one generating process."""

    drawing: Drawing
    network: Network
    painting: Painting

    def __call__(
        self,
        seed: Array,
        separation: Array,
        learning_rate: Array,
        schedule_rate: Array,
        shuffled: Array,
        classifier: Any = None,
    ) -> ds.Descent:
        init, data, order, paint = jax.random.split(jax.random.key(seed), 4)
        process = ImageConcepts(separation, **dict(self.drawing))
        shape = (process.pixels, process.pixels, 3)
        model = ds.models.Diffusion(ds.models.UNet(shape, process.condition_size, key=init, **dict(self.network)))
        pictures = process.dataset(data, self.painting.per_class)
        mixed_up = pictures.condition[jax.random.permutation(jax.random.fold_in(data, 1), len(pictures.condition))]
        pictures = pictures._replace(condition=jnp.where(shuffled, mixed_up, pictures.condition))
        task = VariationalDiffusion()
        probes = {
            "concepts": self._paintings(process, paint, classifier),
            "schedule": probe(
                lambda snapshot: jnp.stack([snapshot.model.offset, snapshot.model.slope]),
                dims=("number",),
                coords={"number": ["offset", "slope"]},
            ),
        }
        if self.painting.held_out:
            held_out = process.dataset(jax.random.fold_in(data, 2), self.painting.held_out)

            def terms(snapshot: Snapshot) -> Array:
                return jnp.stack(task.terms(self._averaged(snapshot), held_out))

            probes["bits"] = probe(terms, dims=("term",), coords={"term": [*Terms._fields]})
        optimizer = self._optimizer(learning_rate, schedule_rate)
        return ds.Descent(model, task, optimizer, data=pictures, batch=self.painting.batch, key=order, probes=probes)

    def _optimizer(self, learning_rate: Array, schedule_rate: Array) -> optax.GradientTransformation:
        rule = optax.adamw(learning_rate, weight_decay=self.painting.weight_decay)
        if self.painting.clip == "global":
            whole = optax.chain(optax.clip_by_global_norm(self.painting.clip_norm), rule)
        else:
            whole = ds.dynamics.clipped_network(rule, self.painting.clip_norm, schedule=optax.adam(schedule_rate))
        return ds.dynamics.with_average(whole, self.painting.average) if self.painting.average else whole

    def _averaged(self, snapshot: Snapshot) -> Any:
        """The model that paints: with averaged weights if an average is kept."""
        return ds.dynamics.averaged(snapshot) if self.painting.average else snapshot.model

    def _paintings(self, process: ImageConcepts, key: Array, classifier: Any) -> ds.probes.Probe:
        """The concepts of `per_prompt` pictures for each class's prompt, from the same noise at every recording."""
        classes, shape = process.classes, (process.pixels, process.pixels, 3)
        count = len(classes)
        prompts = jnp.repeat(process.prompts(classes), self.painting.per_prompt, axis=0)

        def measure(snapshot: Snapshot) -> dict[str, Array]:
            model = self._averaged(snapshot)
            images = ds.models.generate(model, prompts, shape, key=key, steps=self.painting.sampling_steps)
            images = jnp.clip(jnp.nan_to_num(images), 0, 1)
            read = read_concepts(images, process)
            by_prompt = lambda values: values.reshape(count, self.painting.per_prompt, *values.shape[1:])  # noqa: E731
            found = {
                "value": jnp.mean(by_prompt(read.values), axis=1),
                "level": jnp.mean(by_prompt(read.levels), axis=1),
                "formed": jnp.mean(by_prompt(read.formed), axis=1),
                "pictures": jnp.round(255 * by_prompt(images)[:, : self.painting.shown]).astype(jnp.uint8),
            }
            if classifier is not None:
                found["classified"] = jnp.mean(by_prompt(jax.nn.softmax(jax.vmap(classifier)(images))[..., 1]), axis=1)
            return found

        dims = {
            "value": ("prompt", "concept"),
            "level": ("prompt", "concept"),
            "classified": ("prompt", "concept"),
            "formed": ("prompt",),
            "pictures": ("prompt", "picture", "y", "x", "rgb"),
        }
        names = ["".join(map(str, row)) for row in classes]
        return probe(measure, dims=dims, coords={"prompt": names, "concept": list(process.concepts)})


class Labeler(ds.Member):
    """An ensemble member: the classifier of painted pictures, trained on pictures of all classes."""

    drawing: Drawing
    separations: tuple[float, ...]

    def __call__(self, seed: Array) -> ds.Descent:
        init, order = jax.random.split(jax.random.key(seed))
        pixels = self.drawing.pixels
        model = ds.models.ConceptClassifier((pixels, pixels, 3), len(self.drawing.concepts), key=init)
        nothing = {"at": probe(lambda snapshot: jnp.asarray(snapshot.step))}
        return ds.Descent(model, self._task(), optax.adamw(1e-3), batch=64, key=order, probes=nothing)

    @eqx.filter_jit
    def accuracy(self, model: Any, key: Array) -> Array:
        """The share of fresh pictures in which each concept is recognized."""
        return self._task().accuracy(model, self._task().sample(key, LABELED))

    def _task(self) -> ConceptLabels:
        return ConceptLabels([ImageConcepts(one, **dict(self.drawing)) for one in self.separations])


class DiffusionExperiment(Painting, Network, Drawing, JoinableExperiment):
    """Fields of the experiments on pictures, with the paper's values, and the published network's if it has none."""

    parts: ClassVar[tuple[str, ...]] = ("separations", "seeds", "first_seed")

    separations: Values = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    """Color separations: the distances of red and blue."""
    shuffled: bool = False
    """Give every training picture the condition of another one."""
    learning_rate: float = Field(1e-3, gt=0)
    schedule_rate: float = Field(1e-3, gt=0)
    """The rate of the schedule's two numbers, if they are clipped apart."""
    steps: PositiveInt = 20_000
    checkpoints: int = Field(60, ge=4)
    """The number of recordings with pictures, evenly spaced in the square root of the step."""
    classifier_steps: NonNegativeInt = 10_000
    """Training steps of the classifier; 0: only the pixels are read."""
    seeds: PositiveInt = 5
    first_seed: NonNegativeInt = 0
    """Seeds of one figure can be run apart and joined: seeds `first_seed`, `first_seed` + 1, and so on."""

    @model_validator(mode="after")
    def _separations_and_pixels(self) -> Any:
        if any(not 0 <= one <= 1 for one in self.separations) or list(self.separations) != sorted(
            set(self.separations)
        ):
            raise ValueError(f"separations must be from 0 to 1, increasing; got {self.separations}")
        halved = 2 ** (len(self.channels) - 1)
        if self.pixels % halved:
            levels = len(self.channels)
            raise ValueError(f"pixels must be divisible by {halved} with {levels} levels; got {self.pixels}")
        return self

    @property
    def matmul_precision(self) -> str:
        """TF32 if the device has it: these networks are not compared with theory."""
        return "default"

    def members(self, seed: int) -> Mapping[str, np.ndarray]:
        return self.trainings(seed)

    def trainings(self, seed: int) -> dict[str, np.ndarray]:
        """The separations and seeds of this run's trainings."""
        seeds = member_seeds(seed, self.first_seed + self.seeds, block=1000)[self.first_seed :]
        return {"separation": np.asarray(self.separations, self.precision), "seed": seeds}

    def recorded_steps(self) -> np.ndarray:
        """`checkpoints` steps after the start, evenly spaced in their square root."""
        return np.unique(np.rint(self.steps * np.linspace(0, 1, self.checkpoints + 1) ** 2)).astype(np.int32)[1:]

    def train(self, seed: int) -> xr.Dataset:
        """Train on every separation with every seed, and read the concepts of the painted pictures at each recorded
        step."""
        self._warn_without_an_accelerator()
        member = Painter(Drawing.of(self), Network.of(self), Painting.of(self))
        number = np.dtype(self.precision).type
        fixed: dict[str, Any] = {"learning_rate": number(self.learning_rate), "shuffled": np.asarray(self.shuffled)}
        fixed["schedule_rate"] = number(self.schedule_rate)
        beside = self._signals(seed)
        if self.classifier_steps:
            fixed["classifier"], trained = self._classifier(seed)
            beside |= trained
        trace = ds.ensemble(
            member,
            self.trainings(seed),
            steps=self.steps,
            record=self.recorded_steps(),
            fixed=fixed,
            keep=False,
            width=1,
        ).trace
        return trace.assign(beside)

    def _signals(self, seed: int) -> dict[str, Any]:
        """The signal and the diversity of each concept in pixel space, at each separation."""
        key, found = jax.random.fold_in(jax.random.key(seed), 1), []
        measure = jit_once(lambda sep: ImageConcepts(sep, **dict(Drawing.of(self))).signals(key, SIGNAL_PICTURES))
        for separation in self.separations:
            found.append(jax.tree.map(np.asarray, measure(jnp.asarray(separation, self.precision))))
        signal, spread = (np.stack(part) for part in zip(*found, strict=True))
        dims = ("separation", "concept")
        return {"signal": (dims, signal), "spread": (dims, spread)}

    def _classifier(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """A classifier of all classes, on pictures of the smallest and the largest separation: kept with the run."""
        ends = (min(0.2, *self.separations), max(0.8, *self.separations))
        learner = Labeler(Drawing.of(self), ends)
        seeds = member_seeds(seed, 1, block=1000)
        model = (
            ds.ensemble(learner, {"seed": seeds}, steps=self.classifier_steps, record=[0]).member(seed=seeds[0]).model
        )
        accuracy = learner.accuracy(model, jax.random.fold_in(jax.random.key(seed), 2))
        weights = [np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))]
        return model, {
            "classifier_accuracy": (("concept",), np.asarray(accuracy)),
            "classifier_weights": (("weight",), np.concatenate(weights)),
        }

    def _warn_without_an_accelerator(self) -> None:
        widths = np.prod([self.batch / 128, (self.pixels / 32) ** 2, (self.channels[-1] / 256) ** 2, self.blocks / 2])
        hours = CPU_SECONDS * float(widths) * self.steps * len(self.separations) * self.seeds / 3600
        if jax.default_backend() == "cpu" and hours > 1:
            advice = "take a GPU, or --preset small or quick"
            warnings.warn(f"{type(self).id} takes about {hours:,.0f} hours on two CPU cores: {advice}", stacklevel=2)
