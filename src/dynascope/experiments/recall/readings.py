"""Readings of a transformer that learns noisy recall: predictions, attention, and weights as memories."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from dynascope.geometry.truncation import cut_to
from dynascope.models import RecallTransformer
from dynascope.tasks import NoisyRecall, RecallBatch

DROPPED = ("nothing", "first", "second")
"""The feed-forward map that is left out."""
SCORES = ("correct", "noise", "accuracy", "clean_loss")


def scores(task: NoisyRecall, model: RecallTransformer, batch: RecallBatch) -> dict[str, Float[Array, ""]]:
    """The task's scores of a model: probabilities of the target and of noise, the accuracy, the loss without noise."""
    found = task.scores(model, batch)
    return {name: found[name] for name in SCORES}


def without(task: NoisyRecall, model: RecallTransformer, batch: RecallBatch) -> dict[str, Float[Array, " dropped"]]:
    """The scores of the model, and of the model without its first or its second feed-forward map."""

    def at(kept: Float[Array, " layer"]) -> dict[str, Array]:
        outs = {layer: block.feed.out for layer, block in enumerate(model.blocks)}
        changed = {layer: out * kept[layer] for layer, out in outs.items() if out is not None}
        less = eqx.tree_at(lambda m: [m.blocks[layer].feed.out for layer in changed], model, list(changed.values()))
        return scores(task, less if changed else model, batch)

    return lax.map(at, jnp.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))


def seen(
    task: NoisyRecall, model: RecallTransformer, batch: RecallBatch
) -> dict[str, Float[Array, ""] | Float[Array, " tokens"] | Float[Array, "predicted label"]]:
    """Attention and predictions on contexts with noise, means over the batch.

    The last query of the second layer gives `on_target` to targets and `on_noise` to noise after its trigger, and
    `after` to all tokens that follow it; `example` is its attention in the first sequence. In the first layer, a token
    gives `previous` to the one before it. `split` are the shares of predictions (the most probable token, at the
    positions of the loss) that are noise or not, by whether the label is; `margin` is that of the noise in the second
    map alone.
    """
    tokens = batch.tokens
    first, second = jnp.moveaxis(jax.vmap(model.attention)(tokens), 1, 0)
    last = second[:, -1]
    after = jnp.pad(tokens[:, :-1] == tokens[:, -1:], ((0, 0), (1, 0)))

    def mass(chosen: Any) -> Float[Array, ""]:
        return jnp.mean(jnp.sum(jnp.where(after & chosen, last, 0), axis=1))

    where, labels = task.positions(tokens), batch.labels == task.noise
    predicted = jnp.argmax(jax.vmap(model)(tokens), axis=-1) == task.noise
    counts = [[jnp.sum(where & (predicted == p) & (labels == q)) for q in (False, True)] for p in (False, True)]
    return {
        "on_target": mass(tokens == batch.target[:, None]),
        "on_noise": mass(tokens == task.noise),
        "after": mass(True),
        "previous": jnp.mean(jnp.diagonal(first, -1, 1, 2)),
        "example": last[0],
        "split": jnp.asarray(counts, jnp.float32) / jnp.maximum(jnp.sum(where), 1).astype(jnp.float32),
        "margin": model.feed_margin(1, task.triggers[0], task.noise),
    }


SEEN: dict[str, tuple[str, ...]] = {
    "on_target": (),
    "on_noise": (),
    "after": (),
    "previous": (),
    "example": ("position",),
    "split": ("predicted", "label"),
    "margin": (),
}
"""The dimensions of the variables that `seen` returns."""


def memories(model: RecallTransformer) -> dict[str, Float[Array, "token token"]]:
    """The weights as tables of tokens, (input, output).

    `feed` is W_U F2 W_E, `values` W_U W2_O W2_V W_E, and `match` the score in the second layer of a query (second axis)
    with the value that the first layer has copied of a token (first axis).
    """
    first, second = model.blocks
    embedded, readout = model.embedding, model.readout
    return {
        "feed": second.feed(embedded) @ readout.T,
        "values": embedded @ second.value.T @ second.output.T @ readout.T,
        "match": (embedded @ first.value.T @ first.output.T) @ second.score.T @ embedded.T,
    }


def maps(model: RecallTransformer, batch: RecallBatch) -> dict[str, Float[Array, "_ _"]]:
    """The memories, and `first`, the attention of each position to each in the first layer, a mean over sequences."""
    first = jax.vmap(lambda tokens: model.attention(tokens)[0])(batch.tokens)
    return {**memories(model), "first": jnp.mean(first, axis=0)}


MAPS = {
    "feed": ("given", "answer"),
    "values": ("given", "answer"),
    "match": ("given", "answer"),
    "first": ("query", "key"),
}
"""The dimensions of the variables that `maps` returns."""


def on_random_directions(
    task: NoisyRecall, model: RecallTransformer, batch: RecallBatch, ranks: tuple[int, ...]
) -> dict[str, Float[Array, " rank"]]:
    """The scores with W_O of the first layer on this many random directions."""
    matrix = model.blocks[0].output
    directions = jnp.linalg.qr(jax.random.normal(jax.random.key(0), matrix.shape, matrix.dtype))[0]

    def at(rank: Int[Array, ""]) -> dict[str, Array]:
        changed = eqx.tree_at(lambda m: m.blocks[0].output, model, cut_to(matrix, directions, rank))
        return scores(task, changed, batch)

    return lax.map(at, jnp.asarray(ranks, jnp.int32))
