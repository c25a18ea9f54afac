"""What is to be learned: inputs, labels, held-out sets, and the outer product of the target's gradients."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import lax
from jaxtyping import Array, Float

from dynascope.experiments.features.architectures import Architecture, Shape, squared_error
from dynascope.experiments.seeds import run_key
from dynascope.tasks import MultiIndex
from dynascope.tasks.data import datasets
from dynascope.theory.features.agop import blind_alignment, reference_outer_product

Name = Literal["rank-2", "rank-3", "rank-4", "full-rank", "svhn", "celeba", "usps", "fashion_mnist", "mnist", "cifar10"]


class RealSet(NamedTuple):
    """Two classes of a set of pictures, and the document's reference network for them."""

    classes: tuple[int, int]
    reference: Architecture
    accuracy: float
    """The share of test examples that the reference is right on, as printed; the least of those printed where the
    document has none."""


REAL = {
    "svhn": RealSet((0, 2), "myrtle", 0.984),
    "celeba": RealSet((0, 1), "myrtle", 0.957),
    "usps": RealSet((0, 2), "cnn", 0.992),
    "fashion_mnist": RealSet((0, 2), "myrtle", 0.918),
    "mnist": RealSet((0, 2), "myrtle", 0.918),
    "cifar10": RealSet((7, 9), "myrtle", 0.918),
}
REFERENCE_RATE, REFERENCE_BATCH, SCORED = 2e-3, 64, 256
"""Adam's learning rate at the start (it falls to 0), examples in a step, and in a look at the test set."""


class Reference(NamedTuple):
    """A network that is trained well, for its outer product to be taken for G* of a real set."""

    shape: Shape
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
    """The share of test examples that the reference is right on, where G* comes from one."""
    about: str

    def sets(self) -> tuple[np.ndarray, ...]:
        """What differs from seed to seed."""
        return self[:6]

    def label(self, trace: xr.Dataset) -> xr.Dataset:
        """The trace with what is known of the data: the alignment that an outer product has that knows nothing of the
        target, the accuracy of the reference, and a few words."""
        known = {"blind": float(blind_alignment(self.target))}
        if self.accuracy is not None:
            known["reference_accuracy"] = self.accuracy
        return trace.assign(known).assign_attrs(data=self.about)


def problem(
    name: Name, seeds: int, seed: int, *, dim: int, samples: int, held_out: int, noise: float, flips: float = 0.0,
    pictures: bool = False, reference: Reference | None = None,
) -> Problem:  # fmt: skip
    """`seeds` independent samples. `dim` and `noise` are for the synthetic targets. Of a real set's test examples one
    half serves for validation, as many as there are, up to `held_out`; a share `flips` of its training labels is turned
    round, inputs are vectors or `pictures`, and it needs a `reference` for G*."""
    if name in REAL:
        if reference is None:
            raise ValueError(f"{name} needs a reference, the network that its G* is taken from")
        return _real(name, seeds, seed, samples, held_out, flips, pictures, reference)
    task = MultiIndex(name, dim, noise)
    keys = jax.random.split(run_key(seed), (seeds, 3))
    sizes = (samples, held_out, held_out)
    drawn = [jax.vmap(lambda key, size=size: task.sample(key, size))(keys[:, i]) for i, size in enumerate(sizes)]
    sets = [np.asarray(part) for pair in drawn for part in pair]
    target, about = np.asarray(task.gradient_outer_product()), f"{name}, {dim} dimensions, {samples} examples"
    return Problem._make((*sets, target, None, about))


def _real(
    name: Name, seeds: int, seed: int, samples: int, held_out: int, flips: float, pictures: bool, reference: Reference
) -> Problem:
    keys, classes = jax.random.split(run_key(seed), seeds), REAL[name].classes
    parts: list[list[np.ndarray]] = [[], [], [], [], [], []]
    for key in keys:
        one = datasets.two_classes(name, classes, samples, None, key, flat=not pictures, flips=flips)
        half = min(held_out, len(one.y_test) // 2)
        halves = one.x_test[:half], one.y_test[:half], one.x_test[half : 2 * half], one.y_test[half : 2 * half]
        for part, values in zip(parts, (one.x, one.y, *halves), strict=True):
            part.append(values.astype(np.float32))
    target, right = outer_product_of(name, reference)
    about = f"{name} {classes}, {samples} examples; reference network right on {right:.1%} of the test examples"
    return Problem._make((*map(np.stack, parts), target, right, about))


def outer_product_of(name: Name, reference: Reference) -> tuple[Float[np.ndarray, "d d"], float]:
    """G* of a real set: that of the reference, trained in batches on all examples of the two classes, over just these;
    and the share of test examples that it is right on."""
    classes, pictures = REAL[name].classes, reference.shape.takes_pictures
    count = int(np.isin(datasets.load(name).y_train, classes).sum())
    data = datasets.two_classes(name, classes, count, None, jax.random.key(0), flat=not pictures)
    x, y, x_test, y_test = (jnp.asarray(part, jnp.float32) for part in data)

    def right(model: Any) -> Array:
        outputs = lax.map(model, x_test, batch_size=SCORED)
        return jnp.mean(jnp.sign(outputs[:, 0]) == y_test)

    found = reference_outer_product(
        reference.shape.network(1, x.shape[1:]), squared_error,
        optax.adam(optax.cosine_decay_schedule(REFERENCE_RATE, reference.steps)), x, steps=reference.steps, data=(x, y),
        batch=min(REFERENCE_BATCH, count), key=jax.random.key(2), score=right,
    )  # fmt: skip
    return found.outer, found.score
