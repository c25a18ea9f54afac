"""Networks that learn to count walks: members of ensembles over learning rates, widths and seeds.

A grid of widths is one array program: every network has the largest width, and the units beyond its own are dead. Their
weights are 0 on both sides, so they have no gradient and stay so.
"""

from __future__ import annotations

import math
from dataclasses import field
from itertools import pairwise
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from dynascope.dynamics import Descent, Member
from dynascope.models import GAMLP, GIN, MLP
from dynascope.probes import probe
from dynascope.tasks import NodeTask, Supervised

Schedule = Literal["constant", "steps", "cosine"]
"""The factor of the learning rate: none; 0.7 after every quarter of the run; a half cosine to 0."""


class Counter(Member):
    """A member's settings that are compiled in. The first `train` nodes of `order` are trained on, the next `held` are
    those of validation."""

    largest: int
    train: int
    batch: int
    steps: int
    schedule: Schedule
    held: int = field(default=0, kw_only=True)

    def optimizer(self, rate: Array) -> optax.GradientTransformation:
        def at(count: Any) -> Any:
            done = jnp.asarray(count, float) / self.steps
            if self.schedule == "cosine":
                return rate * (1 + jnp.cos(math.pi * done)) / 2
            return rate * 0.7 ** jnp.floor(4 * done) if self.schedule == "steps" else rate

        return optax.adam(at)

    def descent(
        self, model: Any, task: Any, inputs: Any, outputs: Any, y: Array, order: Array, setting: Any, key: Any
    ) -> Descent:
        """Training on `inputs` (train, ...), recording the errors of `outputs(model)` on both splits."""

        def errors(snapshot: Any) -> Float[Array, " split"]:
            with jax.default_matmul_precision("highest"):  # errors are smaller than the resolution of TF32
                found = outputs(snapshot.model)
            squared = ((found - y) ** 2)[order] / jnp.var(y)
            ends = [0, self.train, *([self.train + self.held] if self.held else []), len(squared)]
            return jnp.stack([squared[start:end].mean() for start, end in pairwise(ends)])

        splits = ["train", *(["validation"] if self.held else []), "test"]
        recorded = {"error": probe(errors, dims=("split",), coords={"split": splits})}
        data = inputs, y[order[: self.train]]
        optimizer = self.optimizer(setting["rate"])
        return Descent(
            model, task, optimizer, data=data, batch=self.batch, key=jax.random.fold_in(key, 1), probes=recorded
        )


class OperatorCounter(Counter):
    """A member: the network of a GA-MLP on the propagated features of every node."""

    def __call__(self, model: Any, setting: Any, seed: Array, y: Array, order: Array) -> Descent:
        key = jax.random.fold_in(jax.random.key(3), seed)
        features, used = model["features"], model["used"]
        network = GAMLP(features.shape[1], 1, width=self.largest, key=key)
        units = _units(self.largest, setting["width"])
        network = eqx.tree_at(lambda network: network.network, network, narrowed(network.network, used, units))
        inputs = features[order[: self.train]]
        return self.descent(
            network, Supervised("mse"), inputs, lambda model: model(features)[:, 0], y, order, setting, key
        )


class MessageCounter(Counter):
    """A member: GIN on the graph, with jumping knowledge or without."""

    depth: int = eqx.field(static=True)
    jumping: bool = field(default=True, kw_only=True)

    def __call__(self, setting: Any, seed: Array, graph: Any, y: Array, order: Array) -> Descent:
        key = jax.random.fold_in(jax.random.key(4), seed)
        features = graph.x.shape[1]
        model = GIN(features, self.depth, 1, width=self.largest, key=key, jumping=self.jumping)
        units, given, last = _units(self.largest, setting["width"]), jnp.ones(features), self.depth - 1
        layers = [
            narrowed(layer, given if k == 0 else units, units, units if self.jumping or k < last else None)
            for k, layer in enumerate(model.layers)
        ]
        model = eqx.tree_at(lambda model: model.layers, model, layers)
        if model.head is not None:
            head = narrowed(model.head, jnp.concatenate([given, *[units] * self.depth]), units)
            model = eqx.tree_at(lambda model: model.head, model, head)
        nodes = order[: self.train].astype(jnp.int32)
        return self.descent(model, NodeTask(graph), nodes, lambda model: model(graph)[:, 0], y, order, setting, key)


def narrowed(network: MLP, inputs: Array, hidden: Array, out: Array | None = None) -> MLP:
    """A network of two layers with only these units (masks of zeros and ones) alive, drawn as one of that width is:
    uniform in ±1/sqrt(fan-in)."""
    out = jnp.ones(network.weights[1].shape[0]) if out is None else out
    biases = network.biases or []
    weights = []
    shifts = []
    for weight, bias, before, after in zip(network.weights, biases, (inputs, hidden), (hidden, out), strict=True):
        scale = jnp.sqrt(before.shape[0] / before.sum())
        weights.append(weight * scale * after[:, None] * before)
        shifts.append(bias * scale * after)
    return eqx.tree_at(lambda network: (network.weights, network.biases), network, (weights, shifts))


def _units(largest: int, width: Array) -> Array:
    return (jnp.arange(largest, dtype=width.dtype) < width).astype(float)
