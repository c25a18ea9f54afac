"""What is to be learnt: inputs, labels, held-out sets, and the outer product of the target's gradients."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from dynascope.models import ConvNet
from dynascope.tasks import MultiIndex, datasets
from dynascope.theory.agop import reference_outer_product

Name = Literal["rank-2", "rank-3", "rank-4", "full-rank", "svhn", "celeba", "usps", "fashion_mnist", "mnist", "cifar10"]
REAL = {"svhn": (0, 2), "celeba": (0, 1), "usps": (0, 2), "fashion_mnist": (0, 2), "mnist": (0, 2), "cifar10": (7, 9)}
"""Real sets, each with its two classes."""
REFERENCE_STEPS, REFERENCE_CHANNELS = 300, 32


class Problem(NamedTuple):
    """One sample for each seed, and G*. Labels of real sets are -1 and +1."""

    x: Float[np.ndarray, "seed n d"]
    y: Float[np.ndarray, "seed n"]
    x_validation: Float[np.ndarray, "seed t d"]
    y_validation: Float[np.ndarray, "seed t"]
    x_test: Float[np.ndarray, "seed t d"]
    y_test: Float[np.ndarray, "seed t"]
    target: Float[np.ndarray, "d d"]
    about: str

    def sets(self) -> tuple[np.ndarray, ...]:
        """All but the last two: what differs from seed to seed."""
        return self[:6]


def problem(
    name: Name, seeds: int, seed: int, *, dim: int, samples: int, held_out: int, noise: float, flips: float = 0.0
) -> Problem:
    """`seeds` independent samples. `dim` and `noise` are for the synthetic targets, `flips` is for real labels; of a
    real set's test examples one half serves for validation, as many as there are, up to `held_out`."""
    if name in REAL:
        return _real(name, seeds, seed, samples, held_out, flips)
    task = MultiIndex(name, dim, noise)
    keys = jax.random.split(jax.random.key(seed), (seeds, 3))
    sizes = (samples, held_out, held_out)
    drawn = [jax.vmap(lambda key, size=size: task.sample(key, size))(keys[:, i]) for i, size in enumerate(sizes)]
    sets = [np.asarray(part) for pair in drawn for part in pair]
    target, about = np.asarray(task.gradient_outer_product()), f"{name}, {dim} dimensions, {samples} examples"
    return Problem._make((*sets, target, about))


def _real(name: Name, seeds: int, seed: int, samples: int, held_out: int, flips: float) -> Problem:
    keys = jax.random.split(jax.random.key(seed), seeds)
    drawn = [datasets.two_classes(name, REAL[name], samples, None, key, flips=flips) for key in keys]
    half = min(held_out, len(drawn[0].y_test) // 2)
    parts: list[list[np.ndarray]] = [[], [], [], [], [], []]
    for one in drawn:
        halves = one.x_test[:half], one.y_test[:half], one.x_test[half : 2 * half], one.y_test[half : 2 * half]
        for part, values in zip(parts, (one.x, one.y, *halves), strict=True):
            part.append(values.astype(np.float32))
    target, right = _reference(name, samples)
    about = f"{name} {REAL[name]}, {samples} examples; reference network right on {right:.1%} of the test examples"
    return Problem._make((*map(np.stack, parts), target, about))


def _reference(name: Name, samples: int) -> tuple[Float[np.ndarray, "d d"], float]:
    """G* of a real set: that of a small convolutional network that is good at it, on the training inputs."""
    data = datasets.two_classes(name, REAL[name], samples, None, jax.random.key(0), flat=False)
    shape = data.x.shape[1:]
    network = ConvNet(
        shape, (REFERENCE_CHANNELS,) * 3, key=jax.random.key(1), pools=(1, 1, 1), parameterisation="standard", bias=True
    )
    x, y = jnp.asarray(data.x, jnp.float32), jnp.asarray(data.y, jnp.float32)
    x_test, y_test = jnp.asarray(data.x_test, jnp.float32), jnp.asarray(data.y_test, jnp.float32)

    def loss(model: ConvNet, batch: tuple[Array, Array]) -> Array:
        points, labels = batch
        return jnp.mean((jax.vmap(model)(points)[:, 0] - labels) ** 2)

    found = reference_outer_product(
        network, loss, optax.adam(2e-3), x, steps=REFERENCE_STEPS, data=(x, y), batch=min(64, samples),
        key=jax.random.key(2), score=lambda model: jnp.mean(jnp.sign(jax.vmap(model)(x_test)[:, 0]) == y_test),
    )  # fmt: skip
    return found.outer, found.score
