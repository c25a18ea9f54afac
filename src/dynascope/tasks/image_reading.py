"""Concepts read from pictures: color, size and shape of the object, without a trained classifier.

The object is where the darkest channel is below a threshold: at first nine tenths of the darkest background, then the
middle between the means of that channel inside and outside (T. W. Ridler and S. Calvard, Picture Thresholding Using an
Iterative Selection Method, 1978). Its mean color, the radius of the disk of equal area and its threefold symmetry are
then compared with the means of the two values of each concept.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.tasks.image_concepts import ImageConcepts, Number

EDGE = 0.9
"""The first threshold of the object: this share of the darkest background."""
ROUNDS = 3
"""The number of times that the threshold is moved."""
ROUND = 0.15
"""The threefold moment that separates a disk (0) from an equilateral triangle (0.29)."""
PAINTED = 0.12
"""The largest residual of a formed picture; those of the data stay below it."""


class Reading(NamedTuple):
    """The contents of n pictures."""

    values: Float[Array, "n s"]
    """For each concept 0 or 1, the nearer of its two values; 1/2 if there is no object."""
    levels: Float[Array, "n s"]
    """The place of the picture between the means of the two values, from 0 to 1."""
    residual: Float[Array, " n"]
    """The root mean square difference from a picture with one color inside the object and one outside."""

    @property
    def formed(self) -> Float[Array, " n"]:
        """1 if the picture shows one object on one background, else 0."""
        return (self.residual < PAINTED).astype(self.residual.dtype)


def read_concepts(images: Float[Array, "n height width 3"], process: ImageConcepts) -> Reading:
    """The concepts of pictures, and the distance of each picture from one object on one background.

    Args:
        images: The pictures, (n, height, width, 3).
        process: The process that would have made them, of the same size.
    """
    if not isinstance(process, ImageConcepts):
        raise TypeError(f"process must be an ImageConcepts, which drew the pictures; got {checks.shown(process)}")
    images, side = checks.jax_array("images", images, ndim=4), process.pixels
    if images.shape[1:] != (side, side, 3):
        raise ValueError(f"images must have shape (n, {side}, {side}, 3); got {checks.shown(images)}")
    return _read(images, process)


@eqx.filter_jit
def _read(images: Float[Array, "n height width 3"], process: ImageConcepts) -> Reading:
    number, side = images.dtype, process.pixels
    mask = _object(jnp.min(images, axis=-1), EDGE * process.background[0])
    count = jnp.sum(mask, axis=(1, 2))
    inside, outside = jnp.maximum(count, 1), jnp.maximum(side**2 - count, 1)
    color = jnp.einsum("nyx,nyxc->nc", mask, images, precision="highest") / inside[:, None]
    ground = jnp.einsum("nyx,nyxc->nc", 1 - mask, images, precision="highest") / outside[:, None]
    fitted = mask[..., None] * color[:, None, None, :] + (1 - mask[..., None]) * ground[:, None, None, :]
    residual = jnp.sqrt(jnp.mean((images - fitted) ** 2, axis=(1, 2, 3)))

    blueness = color[:, 2] - color[:, 0]
    radius = jnp.sqrt(count / jnp.pi) * (2 / (side - 1))
    threefold = _threefold(mask, inside)
    half = process.size_separation / 2
    scale = {
        "color": (blueness + process.color_separation, 2 * process.color_separation, blueness > 0),
        "size": (process.mean_size + half - radius, process.size_separation, radius < process.mean_size),
        "shape": (threefold, 2 * ROUND * process.shape_separation, threefold > ROUND * process.shape_separation),
    }
    empty = (count == 0)[:, None]
    tiny = jnp.finfo(number).tiny
    values = jnp.stack([scale[name][2].astype(number) for name in process.concepts], axis=1)
    levels = jnp.stack([scale[name][0] / jnp.maximum(scale[name][1], tiny) for name in process.concepts], axis=1)
    return Reading(jnp.where(empty, 0.5, values), jnp.where(empty, 0.5, jnp.clip(levels, 0, 1)), residual)


def _object(darkness: Float[Array, "n height width"], edge: Number) -> Float[Array, "n height width"]:
    """1 on the object, 0 outside: where the darkest channel is below the middle between its two means."""
    threshold = jnp.broadcast_to(jnp.asarray(edge, darkness.dtype), darkness.shape[:1])
    mask = darkness < threshold[:, None, None]
    for _ in range(ROUNDS):
        inner = jnp.mean(darkness, axis=(1, 2), where=mask)
        outer = jnp.mean(darkness, axis=(1, 2), where=~mask)
        middle = (inner + outer) / 2
        threshold = jnp.where(jnp.isnan(middle), threshold, middle)  # all inside, or all outside
        mask = darkness < threshold[:, None, None]
    return mask.astype(darkness.dtype)


def _threefold(mask: Float[Array, "n height width"], count: Float[Array, " n"]) -> Float[Array, " n"]:
    """|sum z^3| / sum |z|^3 over the object, z the place from its center as a complex number: 0 for a disk."""
    axis = jnp.linspace(-1, 1, mask.shape[1], dtype=mask.dtype)
    x = axis[None, None, :] - (jnp.einsum("nyx,x->n", mask, axis, precision="highest") / count)[:, None, None]
    y = axis[None, :, None] - (jnp.einsum("nyx,y->n", mask, axis, precision="highest") / count)[:, None, None]
    real = jnp.sum(mask * (x**3 - 3 * x * y**2), axis=(1, 2))
    imaginary = jnp.sum(mask * (3 * x**2 * y - y**3), axis=(1, 2))
    size = jnp.sum(mask * (x**2 + y**2) ** 1.5, axis=(1, 2))
    return jnp.sqrt(real**2 + imaginary**2) / jnp.maximum(size, jnp.finfo(mask.dtype).tiny)
