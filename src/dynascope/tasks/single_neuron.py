"""One ReLU neuron that fits another: f(x) = v relu(w . x), labels relu(w~ . x), x uniform on the sphere.

"Simple structures in neural networks", Section 3.5 and Appendix B.8-B.9; the loss is E (f - y)^2, without 1/2. Three
versions: the population in d dimensions (`SingleNeuron`), finite samples of it (`SingleNeuron.loss` on a `dataset`),
and the map of three variables to which the population reduces (`reduced_step`).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals, real
from dynascope.tasks.task import PopulationTask, SampledTask

Neuron = dict[str, Array]
"""`v`, a number, and `w`, a vector."""
Reduced = dict[str, Array]
"""`v`; `wx`, the part of w along the teacher; `wy` >= 0, the length of the rest."""


class SingleNeuron(PopulationTask, SampledTask):
    """A neuron that fits a teacher."""

    teacher: Float[Array, " d"]
    """w~."""

    def __check_init__(self) -> None:
        checks.array("teacher", self.teacher, ndim=1)

    def population_loss(self, neuron: Neuron, /) -> Float[Array, ""]:
        """(v^2 |w|^2 + |w~|^2)/2d - v |w||w~| (sin a + (pi - a) cos a)/(pi d), a the angle between w and w~."""
        return _population_loss(self.teacher, neuron)

    def gradient(self, neuron: Neuron) -> Neuron:
        """The gradient of the population loss, in closed form.

        Args:
            neuron: v and w.
        """
        return _gradient(self.teacher, neuron)

    def step(self, neuron: Neuron, rate: Reals) -> Neuron:
        """One step of gradient descent on the population loss.

        Args:
            neuron: v and w.
            rate: The learning rate.
        """
        return jax.tree.map(lambda p, g: p - rate * g, neuron, self.gradient(neuron))

    def loss(self, neuron: Neuron, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The mean squared error on a sample."""
        label = jax.nn.relu(_rows(x, self.teacher))
        return jnp.mean((neuron["v"] * jax.nn.relu(_rows(x, neuron["w"])) - label) ** 2)

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "n d"]:
        """`count` points, uniform on the sphere."""
        return sphere_points(key, count, self.teacher.shape[0], self.teacher.dtype)

    def coordinates(self, neuron: Neuron) -> Reduced:
        """A neuron in the three variables of the reduced map.

        Args:
            neuron: v and w.
        """
        along, across, _ = _split(self.teacher, neuron["w"])
        return {"v": neuron["v"], "wx": along, "wy": _length(across)}

    def hessian_at_minimum(self, neuron: Neuron) -> Float[Array, "_ _"]:
        """The Hessian if v w = w~, order (v, w): [[|w|^2, v w^T], [v w, v^2 I]] / d.

        Its eigenvalues are (|w|^2 + v^2)/d, v^2/d (d - 1 times) and 0.

        Args:
            neuron: v and w.
        """
        v, w = neuron["v"], neuron["w"]
        top = jnp.concatenate([jnp.sum(w**2)[None], v * w])
        rest = jnp.concatenate([v * w[:, None], v**2 * jnp.eye(w.shape[0], dtype=w.dtype)], axis=1)
        return jnp.concatenate([top[None], rest]) / w.shape[0]

    @property
    def critical_rate(self) -> Float[Array, ""]:
        """d / |w~|: two over the sharpness of the flattest minimum."""
        return self.teacher.shape[0] / _length(self.teacher)


def unit_teacher(dim: int) -> SingleNeuron:
    """The task with teacher (1, 0, ..., 0).

    Args:
        dim: Number of dimensions d.
    """
    checks.sizes(dim=dim)
    return SingleNeuron(jnp.zeros(dim).at[0].set(1))


def sphere_points(key: PRNGKeyArray, count: int, dim: int, dtype: jnp.dtype | None = None) -> Float[Array, "n d"]:
    """Points uniform on the unit sphere: normalized Gaussians.

    Args:
        key: Key of the points.
        count: Number of points.
        dim: Number of dimensions d.
        dtype: Type of the numbers. Default: JAX's default float.
    """
    checks.sizes(count=count, dim=dim)
    x = jax.random.normal(key, (count, dim), dtype or jnp.result_type(float))
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def reduced_start(size: Reals, angle: Reals) -> Reduced:
    """The state v = |w| = size of the reduced map, with w at an angle to the teacher (Theorem 3.5).

    Args:
        size: The size.
        angle: The angle, in radians.
    """
    checks.positive(size=size)
    size, angle = real(size), real(angle)
    wx, wy = size * jnp.cos(angle), size * jnp.sin(angle)
    return {"v": jnp.broadcast_to(size, wx.shape), "wx": wx, "wy": wy}


def reduced_step(state: Reduced, normalized_rate: Reals) -> Reduced:
    """One step at eta = K d for a unit teacher, (B.58)-(B.61); the dimension cancels. wy is kept non-negative.

    Args:
        state: The state of the reduced map.
        normalized_rate: K.
    """
    v, wx, wy = state["v"], state["wx"], state["wy"]
    square, angle = wx**2 + wy**2, jnp.arctan2(wy, wx)
    kept = math.pi - angle
    return {
        "v": v - normalized_rate * (v * square - (wy + kept * wx) / math.pi),
        "wx": wx - normalized_rate * (v**2 * wx - v / math.pi * (kept + wx * wy / square)),
        "wy": jnp.abs(wy - normalized_rate * (v**2 * wy - v / math.pi * wy**2 / square)),
    }


def _rows(x: Float[Array, "n d"], w: Float[Array, " d"]) -> Float[Array, " n"]:
    return jnp.matmul(x, w, precision="highest")


def _length(vector: Float[Array, " d"]) -> Float[Array, ""]:
    """The Euclidean norm, with derivative 0 (not nan) at 0."""
    square = jnp.sum(vector**2)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _split(teacher: Array, w: Array) -> tuple[Array, Array, Array]:
    """The part of w along the unit teacher, the vector of the rest, and the angle between w and the teacher."""
    unit = teacher / _length(teacher)
    along = jnp.sum(w * unit)
    across = w - along * unit
    return along, across, jnp.arctan2(_length(across), along)


@jax.custom_jvp
def _population_loss(teacher: Array, neuron: Neuron) -> Array:
    v, w = neuron["v"], neuron["w"]
    _, _, angle = _split(teacher, w)
    overlap = (jnp.sin(angle) + (math.pi - angle) * jnp.cos(angle)) / math.pi
    squares = (v**2 * jnp.sum(w**2) + jnp.sum(teacher**2)) / 2
    return (squares - v * _length(w) * _length(teacher) * overlap) / w.shape[0]


@_population_loss.defjvp
def _population_tangent(primals: tuple[Array, Neuron], tangents: tuple[Array, Neuron]) -> tuple[Array, Array]:
    """The gradient in closed form: at the direction of the teacher the angle is not differentiable, but the loss is.
    The teacher is data, not learned."""
    gradient, change = _gradient(*primals), tangents[1]
    slope = gradient["v"] * change["v"] + jnp.sum(gradient["w"] * change["w"])
    return _population_loss(*primals), slope


def _gradient(teacher: Array, neuron: Neuron) -> Neuron:
    """dL/dv = [v |w|^2 - |w||w~| (sin a + (pi - a) cos a)/pi] / d,
    dL/dw = [v^2 w - v (pi - a + sin(2a)/2) w~/pi - v sin^2(a) |w~| n/pi] / d, n the unit vector of w across w~."""
    v, w = neuron["v"], neuron["w"]
    along, across, angle = _split(teacher, w)
    square, height, size = jnp.sum(w**2), _length(across), _length(teacher)
    kept = math.pi - angle
    along_teacher = v / math.pi * (kept + along * height / square) * teacher
    sideways = v / math.pi * size * height / square * across
    return {
        "v": (v * square - size * (height + kept * along) / math.pi) / w.shape[0],
        "w": (v**2 * w - along_teacher - sideways) / w.shape[0],
    }
