"""Image classification by cross-entropy, with preprocessing and augmentation inside the compiled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from dynascope.checks import array, flags, rows, sizes, whole
from dynascope.tasks.supervised import cross_entropy
from dynascope.tasks.task import AugmentedTask

Model = Callable[[Any], Any]
"""From one prepared image (height, width, channels) to the logits of its classes."""


class Labeled(eqx.Module):
    """A batch: images as stored (integers 0 to 255, channels last) and their classes (integers from 0)."""

    x: Shaped[Array, "n height width channels"]
    """The images."""
    y: Int[Array, " n"]
    """The classes."""

    def __check_init__(self) -> None:
        rows(x=self.x, y=self.y)
        array("x", self.x, ndim=4, lists=False)
        array("y", self.y, ndim=1, lists=False)


class Classification(AugmentedTask):
    """The mean cross-entropy of a model from one image to logits.

    Images are stored as integers until they are used: `prepare` divides by 255 and standardizes each channel.
    """

    mean: Float[Array, " channels"]
    """The mean of each channel, on the scale 0 to 1."""
    deviation: Float[Array, " channels"]
    """The standard deviation of each channel."""
    pad: int = eqx.field(static=True, default=0)
    """Every batch is cropped at random from images padded by this many zeros (the channel means) on each side."""
    flip: bool = eqx.field(static=True, default=False)
    """Whether each image of a batch is mirrored with probability 1/2."""

    def __check_init__(self) -> None:
        whole("pad", self.pad, at_least=0, at_most=2**31 - 1)
        flags(flip=self.flip)
        array("mean", self.mean, ndim=1)
        array("deviation", self.deviation, ndim=1)

    def prepare(self, x: Shaped[Array, "*n height width channels"]) -> Float[Array, "*n height width channels"]:
        """Images in floating point, standardized to mean 0 and deviation 1 in each channel.

        Args:
            x: Images (..., height, width, channels); those in floating point are left as they are.
        """
        if jnp.issubdtype(x.dtype, jnp.floating):
            return x
        return (x.astype(self.mean.dtype) / 255 - self.mean) / self.deviation

    def loss(self, model: Model, batch: Labeled) -> Float[Array, ""]:
        """The mean cross-entropy of a batch."""
        return cross_entropy(jax.vmap(model)(self.prepare(batch.x)), batch.y)

    def augment(self, key: PRNGKeyArray, batch: Labeled) -> Labeled:
        """Random crops and mirror images of the batch, already prepared."""
        x = self.prepare(batch.x)
        if not self.pad and not self.flip:
            return Labeled(x, batch.y)
        for_crop, for_flip = jax.random.split(key)
        if self.pad:
            wide = jnp.pad(x, ((0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0)))
            corners = jax.random.randint(for_crop, (len(x), 2), 0, 2 * self.pad + 1)
            x = jax.vmap(lambda image, at: lax.dynamic_slice(image, (at[0], at[1], 0), x.shape[1:]))(wide, corners)
        if self.flip:
            turned = jax.random.bernoulli(for_flip, shape=(len(x), 1, 1, 1))
            x = jnp.where(turned, x[:, :, ::-1], x)
        return Labeled(x, batch.y)

    def accuracy(self, model: Model, data: Labeled, chunk: int = 500) -> Float[Array, ""]:
        """The share of images whose class has the largest logit.

        Args:
            model: From one image to logits.
            data: Images and classes.
            chunk: Number of images at a time.
        """
        sizes(chunk=chunk)

        def right(image: Labeled) -> Array:
            return jnp.argmax(model(self.prepare(image.x))) == image.y

        return jnp.mean(lax.map(right, data, batch_size=min(chunk, len(data.y))))


def classification(
    x: Shaped[np.ndarray, "n height width channels"], pad: int = 0, flip: bool = False
) -> Classification:
    """The task with the channel means and deviations of these images (integers 0 to 255)."""
    x = np.asarray(array("x", x, ndim=4))
    axes, scaled = (0, 1, 2), x.astype(np.float64) / 255
    deviation = np.maximum(scaled.std(axis=axes), 1e-6)
    number = jnp.result_type(float)
    return Classification(jnp.asarray(scaled.mean(axis=axes), number), jnp.asarray(deviation, number), pad, flip)
