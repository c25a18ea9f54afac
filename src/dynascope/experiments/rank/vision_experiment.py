"""The base of the vision experiments: the image sets, the fields, and the training of a ViT with recorded spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Int, Shaped
from pydantic import Field, PositiveInt, model_validator

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.rank.attention_ranks import head_probes, read_ranks, record_steps, with_epochs
from dynascope.lab.experiment import Experiment, Fields
from dynascope.tasks.classification import Classification, Labeled, classification
from dynascope.tasks.data import images
from dynascope.tasks.data.digit_pairs import digit_pairs
from dynascope.tasks.data.image_folder import image_folder

NO_FOLDER = "data=folder needs folder=, the path of a folder with one subfolder of pictures per class"
BODY = {"data": "digit-pairs", "dim": 64, "head_dim": 32, "hidden": 64}
QUICK = BODY | {"images": 2000, "depth": 2, "heads": 2, "batch": 100, "epochs": 12, "warmup_epochs": 2}
SMALL = BODY | {"depth": 4, "heads": 4, "batch": 200, "epochs": 40, "warmup_epochs": 5, "recorded": 60}
GPU = {"compute": "bfloat16", "images": 20000, "epochs": 60}
"""Parts of presets."""
SOURCES = {"digit-pairs": "digits"}
"""The data sets that are made from another one."""
SHOWN = 512
"""The number of training images on which the loss is recorded."""

Data = Literal["cifar10", "cifar100", "digit-pairs", "folder"]


class ImageSet(NamedTuple):
    """Training and test images (channels last, 0 to 255), the number of classes, and a description."""

    x: Shaped[np.ndarray, "n height width channels"]
    y: Int[np.ndarray, " n"]
    x_test: Shaped[np.ndarray, "t height width channels"]
    y_test: Int[np.ndarray, " t"]
    classes: int
    name: str


def image_set(data: Data, count: int | None, folder: str = "", pixels: int | None = None) -> ImageSet:
    """The first `count` training images of a set (None: all of them; of digit pairs 6,000) and its test images. The
    pictures of a folder are shuffled, since they come sorted by class, and resized to `pixels` x `pixels` if given."""
    if data == "digit-pairs":
        found, name = digit_pairs(count or 6000)
    elif data == "folder":
        if not folder:
            raise ValueError(NO_FOLDER)
        found, name = image_folder(folder, pixels), f"images of the pictures of {folder}"
        order = np.random.default_rng(0).permutation(len(found.x_train))
        found = found._replace(x_train=found.x_train[order], y_train=found.y_train[order])
    else:
        found, name = images.load(data), {"cifar10": "images of CIFAR-10", "cifar100": "images of CIFAR-100"}[data]
    if count is not None and count > len(found.x_train):
        raise ValueError(f"images must be at most {len(found.x_train)}, the number of {name}; got {count}")
    x, y, y_test = found.x_train[:count], found.y_train[:count].astype(np.int32), found.y_test.astype(np.int32)
    return ImageSet(x, y, found.x_test, y_test, int(max(y.max(), y_test.max())) + 1, f"{len(x)} {name}")


class Size(Fields):
    """The size of the ViT."""

    patch: PositiveInt = 4
    dim: PositiveInt = 512
    depth: PositiveInt = 6
    heads: PositiveInt = 8
    head_dim: PositiveInt = 128
    hidden: PositiveInt = 512
    compute: Literal["float32", "bfloat16"] = "float32"
    """The precision of matrix products; weights, optimizer and spectra are always in float32."""


class VisionMember(ds.Member):
    """A member of the ensemble: a ViT trained by Adam or SGD, with linear warm-up and one cosine cycle of the rate."""

    size: Size
    classes: int
    optimizer: str
    steps: int
    warmup: int
    batch: int
    clip: float | None
    """The largest norm of a gradient, if bounded."""

    def __call__(
        self, seed: Array, scale: Array, rate: Array, random: Array, task: Classification, train: Labeled, test: Labeled
    ) -> ds.Descent:
        init, order, noise = jax.random.split(jax.random.key(seed), 3)
        _, height, width, channels = train.x.shape
        model = ds.models.ViT((height, width, channels), self.classes, key=init, scale=scale, **dict(self.size))
        shape = optax.warmup_cosine_decay_schedule(0.0, 1.0, self.warmup, self.steps)
        rule = {"adam": optax.adam, "sgd": optax.sgd}[self.optimizer](lambda step: rate * shape(step))
        shown = jax.tree.map(lambda leaf: leaf[:SHOWN], train)
        few = np.unique(np.linspace(0, self.steps, 11).astype(np.int32)).tolist()
        probes = head_probes(noise, self.steps, random) | {
            "loss": ds.probes.probe(lambda snapshot: task.loss(snapshot.model, shown), every=few),
            "accuracy": ds.probes.probe(lambda snapshot: task.accuracy(snapshot.model, test), every=few),
        }
        return ds.Descent(model, task, clipped(rule, self.clip), data=train, batch=self.batch, key=order, probes=probes)


def clipped(rule: optax.GradientTransformation, clip: float | None) -> optax.GradientTransformation:
    """The rule with gradients clipped to norm `clip`."""
    return rule if clip is None else optax.chain(optax.clip_by_global_norm(clip), rule)


class VisionExperiment(Size, Experiment):
    """Fields of the vision experiments: the paper's ViT on CIFAR-10, with choices if the paper states none."""

    data: Data = "cifar10"
    folder: str = ""
    """For data = folder: one subfolder of pictures for each class."""
    pixels: PositiveInt | None = None
    """For data = folder: resize all pictures to pixels x pixels; none: they must all have one size."""
    images: PositiveInt | None = None
    """The number of training images; none: all (of digit pairs 6,000)."""
    augment: bool = True
    """Random crops with a margin of 4 pixels, and mirror images. Digits are never augmented."""
    batch: PositiveInt = 512
    epochs: PositiveInt = 500
    warmup_epochs: float = Field(15, ge=0)
    clip: float | None = Field(None, gt=0)
    """Clip gradients to this norm; none: no clipping."""
    recorded: int = Field(200, ge=10)
    """The approximate number of recorded steps."""
    perturbation: Literal["trained", "random"] = "trained"
    """Record the change of each matrix in training, or (the control) noise of the same size instead."""
    seeds: PositiveInt = 1

    @model_validator(mode="after")
    def _pixels_are_of_a_folder(self) -> Any:
        if self.pixels is not None and self.data != "folder":
            raise ValueError(f"pixels is for data=folder only; got data={self.data}")
        return self

    @model_validator(mode="after")
    def _the_rate_warms_up_and_decays(self) -> Any:
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs must be less than epochs={self.epochs}; got {self.warmup_epochs:g}")
        return self

    def data_sets(self) -> tuple[str, ...]:
        if self.data == "folder" and not self.folder:
            raise FileNotFoundError(NO_FOLDER)
        return (self.folder if self.data == "folder" else SOURCES.get(self.data, self.data),)

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        return read_ranks(measured)

    @property
    def matmul_precision(self) -> str:
        """TF32 if the device has it: these networks are not compared with theory."""
        return "default"

    def train(self, optimizer: str, rate: float, scales: Sequence[float], seed: int) -> xr.Dataset:
        """The spectra of all heads (scale, seed, step, product, layer, head, singular), the loss and the accuracy."""
        found = image_set(self.data, self.images, self.folder, self.pixels)
        if self.batch > len(found.x):
            raise ValueError(f"batch must be at most the number of training images, {len(found.x)}; got {self.batch}")
        per_epoch = len(found.x) // self.batch
        steps, changed = self.epochs * per_epoch, self.augment and self.data != "digit-pairs"
        number, warmup = np.dtype(self.precision), round(self.warmup_epochs * per_epoch)
        member = VisionMember(Size.of(self), found.classes, optimizer, steps, warmup, self.batch, self.clip)
        train, test = (
            Labeled(jnp.asarray(x), jnp.asarray(y)) for x, y in ((found.x, found.y), (found.x_test, found.y_test))
        )
        over = {"scale": np.asarray(scales, number), "seed": member_seeds(seed, self.seeds, block=1000)}
        task, record = (
            classification(found.x, 4 if changed else 0, changed),
            record_steps(steps, per_epoch, self.recorded),
        )
        fixed = {"rate": number.type(rate), "random": self.perturbation == "random", "task": task}
        fixed |= {"train": train, "test": test}
        trace = ds.ensemble(member, over, steps=steps, record=record, fixed=fixed, width=1).trace
        return with_epochs(trace, per_epoch).assign_attrs(data=found.name, perturbation=self.perturbation)
