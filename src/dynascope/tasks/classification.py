"""Images to classes by cross-entropy, prepared and augmented on the device, inside the compiled step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

Model = Callable[[Any], Any]


class Labeled(eqx.Module):
    """Images as they are stored (whole numbers 0..255, channels last) and their classes: what a batch is."""

    x: Shaped[Array, "n height width channels"]
    y: Int[Array, " n"]


class Classification(eqx.Module):
    """Mean cross-entropy of a model that gives the logits of one image.

    Images stay as they are stored until they are used: `prepared` divides by 255 and brings each channel to mean 0 and
    deviation 1. With `pad`, every batch is cropped at random from images with a margin of so many zeros (that is,
    channel means); with `flip`, half of it is mirrored.
    """

    mean: Float[Array, " channels"]
    deviation: Float[Array, " channels"]
    pad: int = eqx.field(static=True, default=0)
    flip: bool = eqx.field(static=True, default=False)

    def prepared(self, x: Shaped[Array, "*n height width channels"]) -> Float[Array, "*n height width channels"]:
        if jnp.issubdtype(x.dtype, jnp.floating):
            return x
        return (x.astype(self.mean.dtype) / 255 - self.mean) / self.deviation

    def loss(self, model: Model, batch: Labeled) -> Float[Array, ""]:
        scores = jax.nn.log_softmax(jax.vmap(model)(self.prepared(batch.x)))
        return -jnp.mean(jnp.take_along_axis(scores, batch.y[:, None], axis=1))

    def augment(self, key: PRNGKeyArray, batch: Labeled) -> Labeled:
        """Other crops and mirror images of the same batch, prepared already."""
        x = self.prepared(batch.x)
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
        """The share of images whose own class has the largest logit, computed `chunk` images at a time."""

        def right(image: Labeled) -> Array:
            return jnp.argmax(model(self.prepared(image.x))) == image.y

        return jnp.mean(lax.map(right, data, batch_size=min(chunk, len(data.y))))


def classification(
    x: Shaped[np.ndarray, "n height width channels"], pad: int = 0, flip: bool = False
) -> Classification:
    """The task with the channel means and deviations of these images (0..255)."""
    axes, scaled = (0, 1, 2), x.astype(np.float64) / 255
    deviation = np.maximum(scaled.std(axis=axes), 1e-6)
    number = jnp.result_type(float)
    return Classification(jnp.asarray(scaled.mean(axis=axes), number), jnp.asarray(deviation, number), pad, flip)
