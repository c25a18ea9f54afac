"""Modular addition: the table of all sums, a network with one hidden layer, and what is measured along its training."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

import dynascope as ds


class Adder(eqx.Module):
    """Logits of the sum of two digits: V (U x)², with x the two digits one-hot, end to end."""

    first: Float[Array, "width inputs"]
    """U."""
    second: Float[Array, "digits width"]
    """V."""

    def __init__(self, digits: int, width: int, *, key: PRNGKeyArray) -> None:
        keys = jax.random.split(key)
        self.first = jax.random.normal(keys[0], (width, 2 * digits)) / 2
        self.second = jax.random.normal(keys[1], (digits, width)) / math.sqrt(width)

    def __call__(self, x: Float[Array, "... inputs"]) -> Float[Array, "... digits"]:
        return (x @ self.first.T) ** 2 @ self.second.T


class Table(eqx.Module):
    """All pairs of digits with their sums, and which of them are trained on."""

    pairs: Float[Array, "n inputs"]
    """Both digits, one-hot and end to end."""
    sums: Float[Array, "n digits"]
    """The sums, one-hot."""
    trained: Bool[Array, " n"]
    """True for a training example, false for a test example."""

    @classmethod
    def draw(cls, digits: int, share: Float[Array, ""] | float, *, shuffled: bool, key: PRNGKeyArray) -> Table:
        """A table with a random share of training examples; if shuffled, its sums are at random places."""
        first, second = jnp.divmod(jnp.arange(digits**2), digits)
        place, order = jax.random.split(key)
        sums = (first + second) % digits
        sums = jax.random.permutation(place, sums) if shuffled else sums
        one_hot = jnp.eye(digits)
        places = jax.random.permutation(order, digits**2).astype(jnp.float32)
        trained = places < share * digits**2
        return cls(jnp.concatenate([one_hot[first], one_hot[second]], 1), one_hot[sums], trained)

    def loss(self, model: Adder) -> Float[Array, ""]:
        """The mean cross-entropy of the training examples."""
        each = -jnp.sum(self.sums * jax.nn.log_softmax(model(self.pairs)), axis=1)
        return jnp.mean(each, where=self.trained)

    def accuracies(self, model: Adder) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The shares of training and of test examples whose sum has the largest logit."""
        right = jnp.argmax(model(self.pairs), 1) == jnp.argmax(self.sums, 1)
        return jnp.mean(right, where=self.trained), jnp.mean(right, where=~self.trained)


def probes(table: Table, sharpness_every: int) -> dict[str, ds.probes.Probe]:
    """Accuracies, the norm of all weights, the ranks of both matrices, how purely a neuron is a wave, sharpness."""

    def accuracy(snapshot: ds.probes.Snapshot) -> dict[str, Array]:
        trained, test = table.accuracies(snapshot.model)
        return {"value": test, "trained": trained}

    def norm(snapshot: ds.probes.Snapshot) -> Array:
        return jnp.sqrt(sum(jnp.sum(weights**2) for weights in jax.tree.leaves(snapshot.model)))

    return {
        "accuracy": ds.probes.probe(accuracy),
        "norm": ds.probes.probe(norm),
        "rank": ds.probes.weight_ranks(),
        "purity": ds.probes.probe(lambda snapshot: purity(snapshot.model)),
        "sharpness": ds.probes.sharpness(every=sharpness_every, tolerance=1e-2),
    }


def purity(model: Adder) -> Float[Array, ""]:
    """The share of a neuron's power, without its constant, at its strongest frequency over the digits; the mean over
    the neurons, weighted by their power."""
    waves = jnp.fft.rfft(model.first.reshape(len(model.first), 2, -1), axis=-1)[..., 1:]
    power = jnp.sum(jnp.abs(waves) ** 2, axis=1)
    return jnp.sum(jnp.max(power, axis=1)) / jnp.sum(power)
