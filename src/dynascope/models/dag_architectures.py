"""DAG networks by name: fully connected, DenseNet, convolutional; edges removed, skips, bottlenecks.

All return a `DAG`, and all work inside a compiled program: sizes are static, what is removed may be traced, so that
one program serves many widths and seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dynascope.models.dag import DAG, Edges, SharedEdges, drawn


def fully_connected(
    sizes: Sequence[int], *, key: PRNGKeyArray, activation: str = "relu", output: str = "linear"
) -> DAG:
    """Layers of these sizes, inputs first and outputs last, each fed by the one before (equation A.4)."""
    keys = jax.random.split(key, len(sizes) - 1)
    edges = [[drawn(k, (to, source))] for k, source, to in zip(keys, sizes[:-1], sizes[1:], strict=True)]
    return DAG(edges, [(layer,) for layer in range(len(edges))], activation=activation, output=output)


def densenet(
    sizes: Sequence[int],
    *,
    key: PRNGKeyArray,
    activation: str = "relu",
    output: str = "linear",
    with_input: bool = True,
) -> DAG:
    """Each layer sees all earlier ones (equations A.5, A.6); without the input, later ones see hidden layers only."""
    edges, sources = [], []
    for layer in range(1, len(sizes)):
        origins = range(0 if with_input or layer == 1 else 1, layer)
        keys = jax.random.split(jax.random.fold_in(key, layer), layer)
        edges.append([drawn(keys[origin], (sizes[layer], sizes[origin])) for origin in origins])
        sources.append(tuple(origins))
    return DAG(edges, sources, activation=activation, output=output)


def convolutional(
    channels: Sequence[int],
    places: int,
    window: int,
    *,
    key: PRNGKeyArray,
    outputs: int = 1,
    activation: str = "relu",
    output: str = "linear",
) -> DAG:
    """1-D convolutions between these numbers of channels, then a full inner product (equations A.14, A.15)."""
    keys = jax.random.split(key, len(channels))
    edges: list[list[Edges | SharedEdges]] = [
        [SharedEdges(jax.random.normal(k, (to, source, window)), places)]
        for k, source, to in zip(keys[:-1], channels[:-1], channels[1:], strict=True)
    ]
    edges.append([drawn(keys[-1], (outputs, channels[-1] * places))])
    return DAG(edges, [(layer,) for layer in range(len(edges))], activation=activation, output=output)


def remove_edges(net: DAG, probability: float | Float[Array, ""], *, key: PRNGKeyArray) -> DAG:
    """Each edge goes with this probability, once; neurons divide by the root of the in-degree that is left."""
    edges = []
    for layer, groups in enumerate(net.edges):
        keys = jax.random.split(jax.random.fold_in(key, layer), len(groups))
        chance = 1 - probability
        edges.append(
            [
                _keep(g, jax.random.bernoulli(k, chance, _unshared(g).weights.shape))
                for g, k in zip(groups, keys, strict=True)
            ]
        )
    return _rebuilt(net, edges)


def narrow_layers(net: DAG, sizes: Sequence[int] | Int[Array, " layers"]) -> DAG:
    """The network in which only the first `sizes[l]` neurons of each layer l (inputs first) have edges.

    The others stay in the arrays without a part in anything, so that one compiled program serves many widths.
    """
    sizes = jnp.asarray(sizes, jnp.int32)
    edges = []
    for layer, (groups, origins) in enumerate(zip(net.edges, net.sources, strict=True), start=1):
        kept = []
        for group, origin in zip(groups, origins, strict=True):
            to, source = _unshared(group).weights.shape
            there = jnp.arange(to, dtype=jnp.int32) < sizes[layer], jnp.arange(source, dtype=jnp.int32) < sizes[origin]
            kept.append(_keep(group, there[0][:, None] & there[1][None, :]))
        edges.append(kept)
    return _rebuilt(net, edges)


def bottleneck_neurons(net: DAG, layer: int, count: int | Int[Array, ""]) -> DAG:
    """The first `count` neurons of a layer keep one incoming edge only, the j-th of them that from neuron j of the
    layer before (Figure 2.3)."""
    groups, origins = net.edges[layer - 1], net.sources[layer - 1]
    kept = []
    for group, origin in zip(groups, origins, strict=True):
        to, source = _unshared(group).weights.shape
        own = np.arange(to)[:, None] % source == np.arange(source)[None, :]
        own &= origin == layer - 1
        wide = jnp.arange(to, dtype=jnp.int32)[:, None] >= count
        kept.append(_keep(group, wide | own))
    return _rebuilt(net, [*net.edges[: layer - 1], kept, *net.edges[layer:]])


def random_skips(net: DAG, *, key: PRNGKeyArray) -> DAG:
    """To each hidden neuron's output that of one earlier neuron is added, drawn at random (equation A.12)."""
    skips: list[Int[Array, " _"] | None] = [
        jax.random.randint(jax.random.fold_in(key, layer), (net.sizes[layer],), 0, sum(net.sizes[:layer]), jnp.int32)
        for layer in range(1, len(net.edges))
    ]
    return _rebuilt(net, net.edges, [*skips, None])


def _unshared(group: Edges | SharedEdges) -> Edges:
    if isinstance(group, SharedEdges):
        raise TypeError("shared edges cannot be removed one by one")
    return group


def _keep(group: Edges | SharedEdges, keep: Bool[Array, "_ _"]) -> Edges:
    """The edges that are there and are kept."""
    group = _unshared(group)
    keep = keep if group.mask is None else keep & group.mask
    return Edges(jnp.where(keep, group.weights, 0), keep)


def _rebuilt(
    net: DAG,
    edges: Sequence[Sequence[Edges | SharedEdges]],
    skips: Sequence[Int[Array, " _"] | None] | None = None,
) -> DAG:
    skips = net.skips if skips is None else skips
    return DAG(edges, net.sources, activation=net.activation, output=net.output, skips=skips, outputs=net.outputs)
