"""Pictures of one object with two-valued concepts (its color, its size, its shape), of known signals.

A class is a row of zeros and ones, a value for each concept: red or blue, big or small, circle or triangle. A scene of
a class is drawn at random around the class's mean, and rendered on the grid `linspace(-1, 1, pixels)`. The training
classes have at most one concept at 1; the others, which combine several, are for testing.

C. F. Park, M. Okawa, A. Lee, E. S. Lubana and H. Tanaka, Emergence of Hidden Capabilities: Exploring Learning Dynamics
in Concept Space, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks

Concept = Literal["color", "size", "shape"]
Number = float | Array
Values = Sequence[Sequence[int]] | np.ndarray | Array
"""Rows of zeros and ones, one column for each concept."""
INRADIUS = float(np.sqrt(np.pi / (3 * np.sqrt(3))))
"""The inradius of an equilateral triangle that has the area of the unit disk."""
NORMALS = np.array([[0.0, 1.0], [np.sqrt(3) / 2, -0.5], [-np.sqrt(3) / 2, -0.5]])
"""The outward normals of the sides of an upright triangle, where y grows downward."""
WIDTHS = {"shape": 2, "center": 2, "color": 3, "size": 1, "background": 3}
"""The entries of a condition of all 11 numbers, in this order."""


class Scenes(NamedTuple):
    """The contents of n pictures."""

    size: Float[Array, " n"]
    """The radius, of a triangle that of the disk of equal area; the picture reaches from -1 to 1."""
    color: Float[Array, "n 3"]
    shape: Float[Array, " n"]
    """0 is a circle, 1 a triangle; values in between interpolate."""
    center: Float[Array, "n 2"]
    background: Float[Array, "n 3"]


class Pictures(NamedTuple):
    """Pictures, from 0 to 1 and channels last, and the vectors that describe them to a model."""

    x: Float[Array, "n height width 3"]
    condition: Float[Array, "n c"]


class ImageConcepts(eqx.Module):
    """The generating process of pictures. Separations are from 0 to 1; they may be traced, so that one program serves
    many.

    Args:
        color_separation: With h = half of it, red is (.5+h, .5-h, .5-h) and blue (.5-h, .5-h, .5+h).
        size_separation: The radius of big less that of small.
        shape_separation: 1: circles and triangles; less: triangles that are nearer to circles.
        pixels: Height and width of a picture.
        concepts: Names of the concepts: "color", "size", "shape".
        mean_size: The mean of the two radii; a picture reaches from -1 to 1.
        color_spread: Uniform spread of the color around the mean, in parts of the separation to each side.
        size_spread: Uniform spread of the radius, in the same parts.
        smallest: No radius is below it.
        center: The center of the object is uniform in [-center, center]^2.
        background: Each channel of the background is uniform between these.
        noise: Standard deviation of the Gaussian noise of every pixel.
        blur: The Gaussian blur of the object's edge, in pixels.
        conditioning: "named": size, color (and shape), as far as they are concepts; "all": 11 numbers, others 0.
    """

    color_separation: Number
    size_separation: Number
    shape_separation: Number
    pixels: int = eqx.field(static=True)
    concepts: tuple[str, ...] = eqx.field(static=True)
    mean_size: Number
    color_spread: Number
    size_spread: Number
    smallest: Number
    center: Number
    background: tuple[Number, Number]
    noise: Number
    blur: float = eqx.field(static=True)
    conditioning: str = eqx.field(static=True)

    def __init__(
        self,
        color_separation: Number = 0.4,
        size_separation: Number = 0.4,
        *,
        shape_separation: Number = 1.0,
        pixels: int = 32,
        concepts: Sequence[str] = ("color", "size"),
        mean_size: Number = 0.5,
        color_spread: Number = 0.125,
        size_spread: Number = 0.375,
        smallest: Number = 0.1,
        center: Number = 0.5,
        background: tuple[Number, Number] = (0.8, 1.0),
        noise: Number = 0.001,
        blur: float = 1.0,
        conditioning: str = "named",
    ) -> None:
        for name, value in (("color", color_separation), ("size", size_separation), ("shape", shape_separation)):
            checks.real(f"{name}_separation", value, at_least=0, at_most=1)
        self.pixels = checks.whole("pixels", pixels, at_least=2, at_most=1024)
        if isinstance(concepts, str) or not isinstance(concepts, Sequence) or not concepts:
            raise TypeError(f"concepts must be a tuple of names, one or more; got {checks.shown(concepts)}")
        for name in concepts:
            checks.one_of("each of concepts", name, get_args(Concept))
        if len(set(concepts)) < len(concepts):
            raise ValueError(f"concepts must be distinct; got {checks.shown(concepts)}")
        self.concepts = tuple(concepts)
        self.color_separation, self.size_separation = color_separation, size_separation
        self.shape_separation = shape_separation
        self.mean_size = checks.real("mean_size", mean_size, above=0, at_most=2)
        self.color_spread = checks.real("color_spread", color_spread, at_least=0)
        self.size_spread = checks.real("size_spread", size_spread, at_least=0)
        self.smallest = checks.real("smallest", smallest, above=0)
        self.center = checks.real("center", center, at_least=0, at_most=1)
        if not isinstance(background, tuple | list) or len(background) != 2:
            raise ValueError(f"background must be two numbers, the darkest and the lightest; got {background!r}")
        low, high = (checks.real("each of background", level, at_least=0, at_most=1) for level in background)
        if not isinstance(low, jax.Array) and not isinstance(high, jax.Array) and low > high:
            raise ValueError(f"background must be the darkest level and then the lightest; got {background!r}")
        self.background = (low, high)
        self.noise = checks.real("noise", noise, at_least=0)
        self.blur = float(checks.real("blur", blur, at_least=0))
        self.conditioning = checks.one_of("conditioning", conditioning, ("named", "all"))

    @property
    def classes(self) -> Int[np.ndarray, "class s"]:
        """All classes, counting in binary with the first concept as the leading digit."""
        s = len(self.concepts)
        return (np.arange(2**s)[:, None] >> np.arange(s)[::-1]) & 1

    @property
    def training_classes(self) -> Int[np.ndarray, "class s"]:
        """The classes with at most one concept at 1: the ones that are trained on."""
        return self.classes[self.classes.sum(axis=1) <= 1]

    @property
    def condition_size(self) -> int:
        """The number of entries of a condition."""
        return sum(WIDTHS[name] for name in self._described())

    def _described(self) -> tuple[str, ...]:
        if self.conditioning == "all":
            return tuple(WIDTHS)
        return tuple(name for name in ("size", "color", "shape") if name in self.concepts)

    def mean_scenes(self, values: Values) -> Scenes:
        """The scene at the mean of each class: in the middle, on the mean background.

        Args:
            values: Classes, (n, s).
        """
        v = jnp.asarray(self._checked(values), jnp.result_type(float))
        color, size, shape = (self._value(v, name) for name in get_args(Concept))
        h = self.color_separation / 2
        red = jnp.stack([0.5 + h * (1 - 2 * color), jnp.full_like(color, 0.5) - h, 0.5 - h * (1 - 2 * color)], axis=1)
        size = jnp.maximum(self.mean_size + self.size_separation * (0.5 - size), self.smallest)
        ground = jnp.full_like(red, (self.background[0] + self.background[1]) / 2)
        return Scenes(size, red, self.shape_separation * shape, jnp.zeros((len(v), 2), v.dtype), ground)

    def scenes(self, key: PRNGKeyArray, values: Values) -> Scenes:
        """A random scene of each class.

        Args:
            key: Key of the draw.
            values: Classes, (n, s).
        """
        mean = self.mean_scenes(values)
        size, color, center, ground = jax.random.split(checks.key("key", key), 4)

        def around(key: PRNGKeyArray, mean: Array, half: Number) -> Array:
            return mean + half * jax.random.uniform(key, mean.shape, mean.dtype, -1.0, 1.0)

        return mean._replace(
            size=jnp.maximum(around(size, mean.size, self.size_spread * self.size_separation), self.smallest),
            color=around(color, mean.color, self.color_spread * self.color_separation),
            center=around(center, mean.center, self.center),
            background=around(ground, mean.background, (self.background[1] - self.background[0]) / 2),
        )

    def conditions(self, scenes: Scenes) -> Float[Array, "n c"]:
        """The vectors that describe scenes to a model: continuous numbers, without noise.

        Args:
            scenes: The scenes.
        """
        n = len(scenes.size)
        parts = {"size": scenes.size[:, None], "color": scenes.color}
        if "shape" in self.concepts:
            parts["shape"] = jnp.stack([1 - scenes.shape, scenes.shape], axis=1)
        blank = {name: jnp.zeros((n, WIDTHS[name]), scenes.size.dtype) for name in self._described()}
        return jnp.concatenate([parts.get(name, blank[name]) for name in self._described()], axis=1)

    def prompts(self, values: Values) -> Float[Array, "n c"]:
        """The conditions for a class: those of the class's mean.

        Args:
            values: Classes, (n, s).
        """
        return self.conditions(self.mean_scenes(values))

    def masks(self, scenes: Scenes) -> Float[Array, "n height width"]:
        """The share of each pixel that the object covers: the blurred inside of its outline.

        Args:
            scenes: The scenes.
        """
        number = scenes.size.dtype
        axis = jnp.linspace(-1, 1, self.pixels, dtype=number)
        x = axis[None, None, :] - scenes.center[:, 0, None, None]
        y = axis[None, :, None] - scenes.center[:, 1, None, None]
        sides = jnp.asarray(NORMALS, number)
        disk = jnp.sqrt(x**2 + y**2)
        triangle = jnp.max(jnp.stack([a * x + b * y for a, b in sides]), axis=0) / INRADIUS
        shape = scenes.shape[:, None, None]
        inside = ((1 - shape) * disk + shape * triangle < scenes.size[:, None, None]).astype(number)
        if self.blur == 0:
            return inside
        smooth = jnp.asarray(_blur_matrix(self.pixels, self.blur), number)
        return jnp.einsum("yv,nvu,xu->nyx", smooth, inside, smooth, precision="highest")

    def render(self, key: PRNGKeyArray, scenes: Scenes) -> Float[Array, "n height width 3"]:
        """The pictures of scenes, with noise, clipped to [0, 1].

        Args:
            key: Key of the noise.
            scenes: The scenes.
        """
        mask = self.masks(scenes)[..., None]
        clean = mask * scenes.color[:, None, None, :] + (1 - mask) * scenes.background[:, None, None, :]
        return jnp.clip(clean + self.noise * jax.random.normal(checks.key("key", key), clean.shape, clean.dtype), 0, 1)

    def pictures(self, key: PRNGKeyArray, values: Values) -> Pictures:
        """A random picture of each class, with its own condition.

        Args:
            key: Key of the scenes and of the noise.
            values: Classes, (n, s).
        """
        return _pictures(self, checks.key("key", key), jnp.asarray(self._checked(values)))

    def dataset(self, key: PRNGKeyArray, per_class: int) -> Pictures:
        """A training set.

        Args:
            key: Key of the pictures.
            per_class: Number of pictures of each training class.
        """
        checks.sizes(per_class=per_class)
        return self.pictures(key, np.repeat(self.training_classes, per_class, axis=0))

    def class_means(self, key: PRNGKeyArray, count: int) -> Float[Array, "class height width 3"]:
        """The mean picture of each class.

        Args:
            key: Key of the pictures.
            count: Number of pictures to average.
        """
        checks.sizes(count=count)
        classes, keys = jnp.asarray(self.classes), jax.random.split(checks.key("key", key), len(self.classes))

        def mean(pair: Any) -> Array:
            own, values = pair
            return jnp.mean(self.pictures(own, jnp.broadcast_to(values, (count, values.size))).x, axis=0)

        return jax.lax.map(mean, (keys, classes))

    def signals(self, key: PRNGKeyArray, count: int) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        """The signal and the diversity of each concept in pixel space.

        The signal is the distance from the mean picture of the class 0 to that of the class with only this concept at 1
        (root mean square over pixels and channels), the diversity the standard deviation of the training pictures of a
        class along the direction between the two means.

        Args:
            key: Key of the pictures.
            count: Number of pictures of each class.
        """
        means = self.class_means(key, count).reshape(2 ** len(self.concepts), -1)
        own = jnp.asarray(2 ** np.arange(len(self.concepts))[::-1])
        across = means[own] - means[:1]
        distance = jnp.linalg.norm(across, axis=1)
        direction = across / jnp.maximum(distance, jnp.finfo(across.dtype).tiny)[:, None]
        data = self.dataset(jax.random.fold_in(key, 1), count).x.reshape(len(self.training_classes), count, -1)
        along = jnp.einsum("kni,ci->ckn", data, direction, precision="highest")
        scale = np.sqrt(means.shape[1])
        return distance / scale, jnp.sqrt(jnp.mean(jnp.var(along, axis=2), axis=1)) / scale

    def condition_signals(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        """The signal and the diversity of each concept in the conditions of a model.

        The signal is the distance between the conditions of the class 0 and of the class with only this concept at 1,
        the diversity the standard deviation of conditions along it.
        """
        half = {
            "color": self.color_spread * self.color_separation,
            "size": self.size_spread * self.size_separation,
            "shape": 0.0,
        }
        ones = self.prompts(np.eye(len(self.concepts), dtype=int)) - self.prompts(self.classes[:1])
        spread = jnp.stack([jnp.asarray(half[name], ones.dtype) for name in self.concepts]) / np.sqrt(3)
        return jnp.linalg.norm(ones, axis=1), spread

    def _value(self, v: Array, name: str) -> Array:
        return v[:, self.concepts.index(name)] if name in self.concepts else jnp.zeros(len(v), v.dtype)

    def _checked(self, values: Values) -> Any:
        found, s = checks.array("values", values, ndim=2), len(self.concepts)
        if found.shape[1] != s:
            raise ValueError(f"values must have a column for each of {s} concepts; got {checks.shown(values)}")
        if not isinstance(found, Tracer) and not np.all(np.isin(np.asarray(found), (0, 1))):
            raise ValueError(f"values must be zeros and ones; got {checks.shown(np.asarray(found).tolist())}")
        return found


@eqx.filter_jit
def _pictures(process: ImageConcepts, key: PRNGKeyArray, values: Array) -> Pictures:
    draw, noise = jax.random.split(key)
    scenes = process.scenes(draw, values)
    return Pictures(process.render(noise, scenes), process.conditions(scenes))


def _blur_matrix(pixels: int, width: float) -> Float[np.ndarray, "pixels pixels"]:
    """The Gaussian filter along one axis as a matrix, with mirrored borders; rows sum to 1."""
    reach = max(1, round(4 * width))
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / width) ** 2)
    weights /= weights.sum()
    matrix = np.zeros((pixels, pixels))
    for row in range(pixels):
        for offset, weight in zip(offsets, weights, strict=True):
            place = (row + offset) % (2 * pixels)
            matrix[row, place if place < pixels else 2 * pixels - 1 - place] += weight
    return matrix
