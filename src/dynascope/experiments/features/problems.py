"""The data of the experiments on feature learning: training and held-out sets, and the target's AGOP, G*."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import lax
from jaxtyping import Array, Float

import dynascope as ds
from dynascope.experiments.catapult.deep_experiment import Network
from dynascope.tasks import MultiIndex
from dynascope.tasks.data import datasets
from dynascope.theory.features.agop import isotropic_alignment

Architecture = Literal["fcn", "cnn", "myrtle"]
Synthetic = Literal["rank-2", "rank-3", "rank-4", "full-rank"]
Name = Synthetic | Literal["svhn", "celeba", "usps", "fashion_mnist", "mnist", "digits", "cifar10"]


class RealSet(NamedTuple):
    """Two classes of an image set, and the document's reference network for them."""

    classes: tuple[int, int]
    reference: Architecture
    accuracy: float
    """The test accuracy of the reference, as printed; the lowest of those printed if the document has none."""


REAL = {
    "svhn": RealSet((0, 2), "myrtle", 0.984),
    "celeba": RealSet((0, 1), "myrtle", 0.957),
    "usps": RealSet((0, 2), "cnn", 0.992),
    "fashion_mnist": RealSet((0, 2), "myrtle", 0.918),
    "mnist": RealSet((0, 2), "myrtle", 0.918),
    "digits": RealSet((0, 2), "myrtle", 0.918),
    "cifar10": RealSet((7, 9), "myrtle", 0.918),
}
REFERENCE_RATE, REFERENCE_BATCH, SCORED = 2e-3, 64, 256
"""For the reference: Adam's initial learning rate (it falls to 0), the batch size, and that of the test."""


class Reference(NamedTuple):
    """A well-trained network whose AGOP serves as G* of a real set, and for how many steps it is trained."""

    network: Network
    steps: int


class Problem(NamedTuple):
    """One sample for each seed, and G*. Labels of real sets are -1 and +1."""

    x: Float[np.ndarray, "seed n ..."]
    y: Float[np.ndarray, "seed n"]
    x_validation: Float[np.ndarray, "seed t ..."]
    y_validation: Float[np.ndarray, "seed t"]
    x_test: Float[np.ndarray, "seed t ..."]
    y_test: Float[np.ndarray, "seed t"]
    target: Float[np.ndarray, "d d"]
    accuracy: float | None
    """The test accuracy of the reference, if G* comes from one."""
    about: str

    def sets(self) -> tuple[np.ndarray, ...]:
        """The arrays with an axis `seed`."""
        return self[:6]

    def label(self, trace: xr.Dataset) -> xr.Dataset:
        """The trace with the facts of the data: the alignment of an isotropic G, the accuracy of the reference, and a
        description in the attributes."""
        known = {"isotropic_alignment": float(isotropic_alignment(self.target))}
        if self.accuracy is not None:
            known["reference_accuracy"] = self.accuracy
        return trace.assign(known).assign_attrs(data=self.about)


def problem(
    name: Name,
    seeds: int,
    seed: int,
    *,
    dim: int,
    samples: int,
    held_out: int,
    noise: float,
    flips: float = 0.0,
    images: bool = False,
    reference: Reference | None = None,
) -> Problem:
    """`seeds` independent samples. `dim` and `noise` are for the synthetic targets. Half of the test examples of
    a real set serve for validation, up to `held_out` of them; a share `flips` of its training labels is flipped, inputs
    are vectors or `images`, and it needs a `reference` for G*."""
    if name in REAL:
        if reference is None:
            raise ValueError(f"reference must be given for {name}, which takes its G* from it; got None")
        return _real(name, seeds, seed, samples, held_out, flips, images, reference)
    task = MultiIndex(cast(Synthetic, name), dim, noise)
    keys = jax.random.split(jax.random.key(seed), (seeds, 3))
    sizes = (samples, held_out, held_out)
    drawn = [jax.vmap(lambda key, size=size: task.sample(key, size))(keys[:, i]) for i, size in enumerate(sizes)]
    sets = [np.asarray(part) for pair in drawn for part in pair]
    target, about = np.asarray(task.gradient_outer_product()), f"{name}, {dim} dimensions, {samples} examples"
    return Problem._make((*sets, target, None, about))


def _real(
    name: Name, seeds: int, seed: int, samples: int, held_out: int, flips: float, images: bool, reference: Reference
) -> Problem:
    keys, classes = jax.random.split(jax.random.key(seed), seeds), REAL[name].classes
    parts: list[list[np.ndarray]] = [[], [], [], [], [], []]
    for key in keys:
        one = datasets.two_classes(name, classes, samples, None, key, flat=not images, flips=flips)
        half = min(held_out, len(one.y_test) // 2)
        halves = one.x_test[:half], one.y_test[:half], one.x_test[half : 2 * half], one.y_test[half : 2 * half]
        for part, values in zip(parts, (one.x, one.y, *halves), strict=True):
            part.append(values.astype(np.float32))
    target, right = outer_product_of(name, reference)
    about = f"{name} {classes}, {samples} examples; test accuracy of the reference network {right:.1%}"
    return Problem._make((*map(np.stack, parts), target, right, about))


def outer_product_of(name: Name, reference: Reference) -> tuple[Float[np.ndarray, "d d"], float]:
    """G* of a real set: the AGOP of the reference, trained in batches on all examples of the two classes, over these
    examples; and its test accuracy."""
    classes, images = REAL[name].classes, reference.network.architecture != "fcn"
    count = int(np.isin(datasets.load(name).y_train, classes).sum())
    data = datasets.two_classes(name, classes, count, None, jax.random.key(0), flat=not images)
    x, y, x_test, y_test = (jnp.asarray(part, jnp.float32) for part in data)

    def accuracy(model: Any) -> Array:
        outputs = lax.map(model, x_test, batch_size=SCORED)
        return jnp.mean(jnp.sign(outputs[:, 0]) == y_test)

    steps = reference.steps
    start, order = reference.network(jax.random.key(1), x.shape[1:]), jax.random.key(2)
    task, rule = ds.tasks.Supervised("mse"), optax.adam(optax.cosine_decay_schedule(REFERENCE_RATE, steps))
    batch, probes = min(REFERENCE_BATCH, count), {"accuracy": accuracy}
    how: dict[str, Any] = {"data": (x, y), "batch": batch, "key": order, "probes": probes}
    trained = ds.descend(start, task, rule, steps=steps, record=[steps], **how)
    return np.asarray(ds.geometry.agop(trained.model, x)), float(trained.trace.accuracy[-1])
