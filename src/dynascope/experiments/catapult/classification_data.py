"""Training and test examples of some classes of a data set, or Gaussians."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from pydantic import PositiveInt, field_validator, model_validator

from dynascope.lab.experiment import Experiment
from dynascope.tasks.data import datasets, files

DIGITS = {"data": "digits", "classes": (3, 8), "pool": 4, "samples": 64}
"""Data of quick presets: images of 7 x 7 pixels."""
NO_IMAGES = "data={} has no images: it takes architecture=fcn and pool=1 only"


class Sample(NamedTuple):
    """Inputs, targets (±1 for two classes, else a column for each), and a description."""

    x: Float[np.ndarray, "n ..."]
    y: Float[np.ndarray, "n ..."]
    x_test: Float[np.ndarray, "t ..."]
    y_test: Float[np.ndarray, "t ..."]
    name: str


class TwoClasses(Experiment):
    """Fields of the experiments on two classes of a data set."""

    data: str = "cifar10"
    """Images, ag_news, free_spoken_digits, or gaussians."""
    classes: tuple[int, int] = (0, 2)
    pool: PositiveInt = 1
    """Images are averaged over squares of this many pixels a side first."""
    samples: PositiveInt = 128

    @field_validator("data")
    @classmethod
    def _known(cls, data: str) -> str:
        """Refuse a misspelled name, which is not a missing file."""
        if data not in ("gaussians", *datasets.NAMES) and files.find(f"{data}.npz") is None:
            raise ValueError(f"no data set of this name; known are gaussians, {', '.join(datasets.NAMES)}")
        return data

    @model_validator(mode="after")
    def _images_where_needed(self) -> Any:
        if self.data in datasets.NORMALIZED and self.pool > 1:
            raise ValueError(NO_IMAGES.format(self.data))
        return self

    def examples(self, seed: int, test: int = 1, *, flat: bool = True) -> Sample:
        """The data, the same for all seeds of the network, in the precision of the experiment."""
        x, y, x_test, y_test, name = sample(
            self.data, self.classes, self.samples, test, seed, pool=self.pool, flat=flat
        )
        x, y, x_test, y_test = (part.astype(np.dtype(self.precision)) for part in (x, y, x_test, y_test))
        return Sample(x, y, x_test, y_test, name)

    def data_sets(self) -> tuple[str, ...]:
        return () if self.data == "gaussians" else (self.data,)


class TwoClassImages(TwoClasses):
    """The same, for a network that is fully connected or convolutional."""

    architecture: Literal["fcn", "cnn"] = "fcn"

    @model_validator(mode="after")
    def _pixels_where_needed(self) -> Any:
        if self.data in datasets.NORMALIZED and self.architecture == "cnn":
            raise ValueError(NO_IMAGES.format(self.data))
        return self


def sample(
    data: str, classes: tuple[int, ...], samples: int, test: int, seed: int, *, pool: int = 1, flat: bool = True
) -> Sample:
    """`samples` training and up to `test` test examples of these classes of `data`, standardized. Images are averaged
    over squares of `pool` pixels a side first, and standardized again. With data="gaussians", each
    class is a Gaussian in 49 dimensions (7 x 7 pixels)."""
    if data == "gaussians":
        x, place = _gaussians(len(classes), samples + test, seed)
        x, y = x if flat else x.reshape(-1, 7, 7, 1), _targets(place, len(classes))
        name = f"{'two' if len(classes) == 2 else len(classes)} Gaussians"
        return Sample(x[:samples], y[:samples], x[samples:], y[samples:], name)
    found = datasets.some_classes(data, classes, samples, None, jax.random.key(seed), flat=flat and pool == 1)
    x, x_test = found.x, found.x_test[:test]
    if pool > 1:
        x, x_test = (_pooled(part, pool) for part in (x, x_test))
        axes = tuple(range(x.ndim - 1))
        center, spread = x.mean(axis=axes), x.std(axis=axes)
        x, x_test = ((part - center) / np.where(spread > 0, spread, 1) for part in (x, x_test))
    if flat:
        x, x_test = (part.reshape(len(part), -1) for part in (x, x_test))
    y, y_test = (_targets(place, len(classes)) for place in (found.y, found.y_test[:test]))
    which = f"classes {classes[0]} and {classes[1]}" if len(classes) == 2 else f"{len(classes)} classes"
    return Sample(x, y, x_test, y_test, f"{data}, {which}")


def _targets(place: np.ndarray, classes: int) -> np.ndarray:
    return 2.0 * place - 1 if classes == 2 else np.eye(classes)[place]


def _pooled(images: np.ndarray, pool: int) -> np.ndarray:
    n, height, width, channels = images.shape
    rows, columns = height // pool, width // pool
    cut = images[:, : rows * pool, : columns * pool]
    return cut.reshape(n, rows, pool, columns, pool, channels).mean(axis=(2, 4))


def _gaussians(classes: int, samples: int, seed: int, dim: int = 49) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and classes. Each class has a mean (two have opposite ones) that explains a part of the variance; six
    directions that all classes share have a large variance too."""
    draw, patterns = np.random.default_rng(seed), np.random.default_rng(0)
    place = draw.integers(classes, size=samples)
    if classes == 2:
        pattern = 0.3 * patterns.standard_normal(dim)
        means = np.stack([-pattern, pattern])
    else:
        means = 0.3 * patterns.standard_normal((classes, dim))
    factors = 0.5 * patterns.standard_normal((6, dim))
    x = means[place] + draw.standard_normal((samples, 6)) @ factors + 0.5 * draw.standard_normal((samples, dim))
    return x / x.std(), place
