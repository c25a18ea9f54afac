"""DAG networks by name: fully connected, DenseNet, convolutional; with edges removed, skips or bottlenecks.

All functions work inside a compiled program: sizes are static, while removals may be traced, so that one program serves
many widths and seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.models.dag import DAG, Edges, Group, SharedEdges, draw_weights


def fully_connected(
    sizes: Sequence[int], *, key: PRNGKeyArray, activation: str = "relu", output: str = "linear"
) -> DAG:
    """Layers, each connected to the one before (equation A.4).

    Args:
        sizes: Number of neurons of each layer, inputs first and outputs last.
        key: Key of the weights.
        activation: Name of the activation of hidden neurons.
        output: Name of the function of the outputs.
    """
    _check_layers("sizes", sizes)
    weights = draw_weights(key, [(to, source) for source, to in pairwise(sizes)])
    edges = [[Edges(matrix, None)] for matrix in weights]
    return DAG(edges, [(layer,) for layer in range(len(edges))], activation=activation, output=output)


def densenet(
    sizes: Sequence[int],
    *,
    key: PRNGKeyArray,
    activation: str = "relu",
    output: str = "linear",
    with_input: bool = True,
) -> DAG:
    """Layers, each connected to all earlier ones (equations A.5, A.6).

    Args:
        sizes: Number of neurons of each layer, inputs first and outputs last.
        key: Key of the weights.
        activation: Name of the activation of hidden neurons.
        output: Name of the function of the outputs.
        with_input: Whether all layers are connected to the input; otherwise only the first is.
    """
    _check_layers("sizes", sizes)
    sources = [tuple(range(0 if with_input or layer == 1 else 1, layer)) for layer in range(1, len(sizes))]
    shapes = [(sizes[to], sizes[source]) for to, origins in enumerate(sources, start=1) for source in origins]
    weights = iter(draw_weights(key, shapes))
    edges = [[Edges(next(weights), None) for _ in origins] for origins in sources]
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
    """1-D convolutions, then a full inner product (equations A.14, A.15).

    Args:
        channels: Number of channels of each layer, inputs first.
        places: Number of positions.
        window: Number of positions that a convolution sees.
        key: Key of the weights.
        outputs: Number of outputs.
        activation: Name of the activation of hidden neurons.
        output: Name of the function of the outputs.
    """
    _check_layers("channels", channels)
    checks.sizes(places=places, window=window, outputs=outputs)
    shapes = [(to, source, window) for source, to in pairwise(channels)]
    *kernels, last = draw_weights(key, [*shapes, (outputs, channels[-1] * places)])
    edges: list[list[Group]] = [[SharedEdges(kernel, places)] for kernel in kernels]
    edges.append([Edges(last, None)])
    return DAG(edges, [(layer,) for layer in range(len(edges))], activation=activation, output=output)


def remove_edges(net: DAG, probability: float | Float[Array, ""], *, key: PRNGKeyArray) -> DAG:
    """The network without some of its edges, removed at random; neurons divide by the root of the in-degree that
    remains.

    Args:
        net: The network.
        probability: The probability of each edge to be removed; may be traced.
        key: Key of the choice.
    """
    checks.real("probability", probability, at_least=0, at_most=1)
    shapes = [_unshared(group).weights.shape for groups in net.edges for group in groups]
    sizes = [to * source for to, source in shapes]
    kept = jnp.split(jax.random.bernoulli(key, 1 - probability, (sum(sizes),)), np.cumsum(sizes)[:-1])
    marks = (part.reshape(shape) for part, shape in zip(kept, shapes, strict=True))
    return _rebuilt(net, [[_keep(group, next(marks)) for group in groups] for groups in net.edges])


def narrow_layers(net: DAG, sizes: Sequence[int] | Int[Array, " layers"]) -> DAG:
    """The network in which only the first neurons of each layer have edges.

    The others stay in the arrays without effect, so that one compiled program serves many widths.

    Args:
        net: The network.
        sizes: Number of neurons that keep their edges in each layer, inputs first; may be traced.
    """
    if len(sizes) != len(net.sizes):
        raise ValueError(f"sizes must have one entry for each of {len(net.sizes)} layers; got {len(sizes)}")
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
    """The network in which the first neurons of a layer keep only one incoming edge, neuron j the one from neuron j of
    the layer before (Figure 2.3).

    Args:
        net: The network.
        layer: The layer.
        count: Number of such neurons; may be traced.
    """
    checks.whole("layer", layer, at_least=1, at_most=len(net.edges))
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
    """The network in which each hidden neuron adds the output of one earlier neuron, drawn at random (equation A.12).

    Args:
        net: The network.
        key: Key of the choice.
    """
    skips: list[Int[Array, " _"] | None] = [
        jax.random.randint(jax.random.fold_in(key, layer), (net.sizes[layer],), 0, sum(net.sizes[:layer]), jnp.int32)
        for layer in range(1, len(net.edges))
    ]
    return _rebuilt(net, net.edges, [*skips, None])


def _check_layers(name: str, sizes: Sequence[int]) -> None:
    if len(sizes) < 2:
        raise ValueError(f"{name} must have two entries or more, inputs first; got {tuple(sizes)}")
    for size in sizes:
        checks.whole(f"each of {name}", size, at_least=1)


def _unshared(group: Group) -> Edges:
    if not isinstance(group, Edges):
        raise TypeError("net must not have shared edges: they cannot be removed one by one")
    return group


def _keep(group: Group, keep: Bool[Array, "_ _"]) -> Edges:
    """The edges of the group that are kept."""
    group = _unshared(group)
    keep = keep if group.mask is None else keep & group.mask
    return Edges(jnp.where(keep, group.weights, 0), keep)


def _rebuilt(
    net: DAG,
    edges: Sequence[Sequence[Group]],
    skips: Sequence[Int[Array, " _"] | None] | None = None,
) -> DAG:
    skips = net.skips if skips is None else skips
    names = {"activation": net.activation, "output": net.output}
    return DAG(edges, net.sources, skips=skips, outputs=net.outputs, shared=net.shared, **names)
