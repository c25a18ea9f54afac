"""Networks on directed acyclic graphs: each edge has a weight, each neuron divides by the root of its in-degree.

f~_v = in(v)^(-1/2) sum over u -> v of w_uv f_u, and f_v = sigma(f~_v); outputs are f~_v itself, or a function of it.
Weights are N(0, 1), without biases ("Toward Understanding the Dynamics of Over-parameterized Neural Networks",
equations 2.2 and 2.5). Edges between two layers are stored as one matrix, with a mask if some are missing, or as one
convolution kernel. `dag_architectures` builds the usual networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from dynascope import checks
from dynascope.models import mlp
from dynascope.models.graph import Graph

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {**mlp.ACTIVATIONS, "shifted tanh": lambda x: jnp.tanh(x + 1)}
"""`shifted tanh`, tanh(x + 1), is for nonlinear outputs: tanh''(0) = 0 would hide their effect on a Hessian."""


class Edges(eqx.Module):
    """All edges from one layer to another: a matrix whose entries without an edge are masked (and zero)."""

    weights: Float[Array, "to from"]
    mask: Bool[Array, "to from"] | None

    def __call__(self, x: Float[Array, " from"]) -> Float[Array, " to"]:
        return (self.weights if self.mask is None else jnp.where(self.mask, self.weights, 0)) @ x

    def in_degrees(self) -> Int[Array, " to"]:
        """The number of edges into each neuron."""
        to, sources = self.weights.shape
        return jnp.full(to, sources, jnp.int32) if self.mask is None else jnp.sum(self.mask, axis=1, dtype=jnp.int32)

    def weight_numbers(self) -> Int[np.ndarray, "to from"]:
        """The place of each edge's weight in the flattened weights; -1 if there is no edge."""
        numbers = np.arange(self.weights.size).reshape(self.weights.shape)
        return numbers if self.mask is None else np.where(np.asarray(self.mask), numbers, -1)


class SharedEdges(eqx.Module):
    """A 1-D convolution with zero padding and stride 1; neurons are ordered by channel, then by position. Padding
    counts as edges: every neuron has in-degree channels x window."""

    weights: Float[Array, "to from window"]
    places: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, " from"]) -> Float[Array, " to"]:
        window = self.weights.shape[2]
        before = (window - 1) // 2
        image = x.reshape(1, -1, self.places)
        padding = [(before, window - 1 - before)]
        return lax.conv_general_dilated(image, self.weights, (1,), padding).reshape(-1)

    def in_degrees(self) -> Int[Array, " to"]:
        """The number of edges into each neuron."""
        to, channels, window = self.weights.shape
        return jnp.full(to * self.places, channels * window, jnp.int32)

    def weight_numbers(self) -> Int[np.ndarray, "to from"]:
        """The place of each edge's weight in the flattened weights; -1 if there is no edge."""
        to, channels, window = self.weights.shape
        numbers = np.arange(self.weights.size).reshape(to, channels, window)
        table = np.full((to, self.places, channels, self.places), -1)
        for place in range(self.places):
            for offset in range(window):
                seen = place + offset - (window - 1) // 2
                if 0 <= seen < self.places:
                    table[:, place, :, seen] = numbers[:, :, offset]
        return table.reshape(to * self.places, channels * self.places)


class GatheredEdges(eqx.Module):
    """Edges with weights in one vector of the network, `DAG.shared`; edges of any layers may share a weight."""

    numbers: Int[Array, "to from"]
    """The place of each edge's weight in the vector; -1 if there is no edge."""

    def of(self, shared: Float[Array, " p"]) -> Edges:
        """The same edges with their weights."""
        there = self.numbers >= 0
        return Edges(jnp.where(there, shared[self.numbers], 0), there)

    def in_degrees(self) -> Int[Array, " to"]:
        """The number of edges into each neuron."""
        return jnp.sum(self.numbers >= 0, axis=1, dtype=jnp.int32)

    def weight_numbers(self) -> Int[np.ndarray, "to from"]:
        """The place of each edge's weight in the vector; -1 if there is no edge."""
        return np.asarray(self.numbers)


Group = Edges | SharedEdges | GatheredEdges


class DAG(eqx.Module):
    """A network on a graph. Its floating-point leaves are the weights, the only parameters.

    Args:
        edges: For each layer from 1 on, the edges into it, one group for each layer they come from.
        sources: The layers that the groups of `edges` come from.
        activation: Name of the activation of hidden neurons.
        output: Name of the function of the outputs.
        skips: For each layer, the earlier neuron whose output is added to each neuron's own: its index in the
            concatenation of all earlier layers, inputs first; -1 for none. Default: no skips.
        outputs: (layer, index) of each output. Default: all of the last layer.
        shared: The weights of `GatheredEdges`, if all edges are of that kind.
    """

    edges: list[list[Group]]
    shared: Float[Array, " p"] | None
    in_degrees: list[Int[Array, " _"]]
    skips: list[Int[Array, " _"] | None]
    sources: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    outputs: tuple[tuple[int, int], ...] | None = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    output: str = eqx.field(static=True)

    def __init__(
        self,
        edges: Sequence[Sequence[Group]],
        sources: Sequence[Sequence[int]],
        *,
        activation: str = "relu",
        output: str = "linear",
        skips: Sequence[Int[Array, " _"] | None] | None = None,
        outputs: Sequence[tuple[int, int]] | None = None,
        shared: Float[Array, " p"] | None = None,
    ) -> None:
        self.activation = checks.one_of("activation", activation, ACTIVATIONS)
        self.output = checks.one_of("output", output, ACTIVATIONS)
        self.edges = [_listed("edges", groups, Group) for groups in _listed("edges", edges, list | tuple)]
        self.sources = tuple(tuple(_listed("sources", each, int)) for each in _listed("sources", sources, list | tuple))
        if [*map(len, self.edges)] != [*map(len, self.sources)] or not all(
            0 <= origin < layer for layer, origins in enumerate(self.sources, start=1) for origin in origins
        ):
            raise ValueError("sources must have, for each group of edges, the earlier layer it comes from")
        self.shared = None if shared is None else checks.array("shared", shared, ndim=1)
        self.in_degrees = [sum_of([group.in_degrees() for group in groups]) for groups in self.edges]
        self.skips = _listed("skips", [None] * len(self.edges) if skips is None else skips, jax.Array | None)
        self.outputs = None if outputs is None else tuple(_listed("outputs", outputs, tuple))
        if len(self.skips) != len(self.edges):
            raise ValueError(f"skips must have one entry for each of {len(self.edges)} layers; got {len(self.skips)}")

    @classmethod
    def from_graph(cls, graph: Graph, *, key: PRNGKeyArray, activation: str = "relu", output: str = "linear") -> DAG:
        """A network on any graph; neurons of a layer are in the order of vertices.

        Args:
            graph: The graph. If edges share weights, all weights form one vector, in the order of their numbers.
            key: Key of the weights.
            activation: Name of the activation of hidden neurons.
            output: Name of the function of the outputs.
        """
        graph.check()
        numbers = np.unique(graph.parameter, return_inverse=True)[1]
        sharing = numbers.max() + 1 < len(numbers)
        members = [np.flatnonzero(graph.layer == layer) for layer in range(graph.depth + 1)]
        place = np.argsort(np.argsort(graph.layer, kind="stable"))
        rank = place - np.array([int(np.sum(graph.layer < layer)) for layer in graph.layer])
        edges, sources, skips = [], [], []
        for layer in range(1, graph.depth + 1):
            into = graph.layer[graph.target] == layer
            origins = sorted({int(origin) for origin in graph.layer[graph.source[into]]})
            groups = []
            for origin in origins:
                these = into & (graph.layer[graph.source] == origin)
                table = np.full((len(members[layer]), len(members[origin])), -1, dtype=np.int32)
                table[rank[graph.target[these]], rank[graph.source[these]]] = numbers[these]
                if sharing:
                    groups.append(GatheredEdges(jnp.asarray(table)))
                    continue
                mask = table >= 0
                (weights,) = draw_weights(jax.random.fold_in(key, len(members) * layer + origin), [mask.shape])
                groups.append(Edges(jnp.where(mask, weights, 0), jnp.asarray(mask)))
            edges.append(groups)
            sources.append(tuple(origins))
            skip = graph.skip[members[layer]]
            there = np.where(skip >= 0, place[skip], -1).astype(np.int32)
            skips.append(jnp.asarray(there) if np.any(skip >= 0) else None)
        outputs = [(int(graph.layer[v]), int(rank[v])) for v in graph.outputs]
        shared = draw_weights(key, [(int(numbers.max()) + 1,)])[0] if sharing else None
        return cls(edges, sources, activation=activation, output=output, skips=skips, outputs=outputs, shared=shared)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        checks.example(self, x, (self.sizes[0],))
        before, _ = self.layers(x)
        if self.outputs is None:
            return ACTIVATIONS[self.output](before[-1])
        return ACTIVATIONS[self.output](jnp.stack([before[layer - 1][place] for layer, place in self.outputs]))

    def layers(self, x: Float[Array, " in"]) -> tuple[list[Float[Array, " _"]], list[Float[Array, " _"]]]:
        """The pre-activations of layers 1, 2, ..., L and the activations of 0 (the input), 1, ..., L - 1.

        Args:
            x: The input, (in,).
        """
        before, after = [], [x]
        for groups, origins, degrees, skip in zip(self.edges, self.sources, self.in_degrees, self.skips, strict=True):
            parts = zip(map(self._weighted, groups), origins, strict=True)
            total = sum_of([part(after[origin]) for part, origin in parts])
            before.append(total / jnp.sqrt(jnp.maximum(degrees, 1).astype(total.dtype)))
            activated = ACTIVATIONS[self.activation](before[-1])
            if skip is not None:
                activated = activated + jnp.where(skip >= 0, jnp.concatenate(after)[skip], 0)
            after.append(activated)
        return before, after[:-1]

    def _weighted(self, group: Group) -> Edges | SharedEdges:
        if isinstance(group, GatheredEdges):
            assert self.shared is not None
            return group.of(self.shared)
        return group

    def layer_numbers(self) -> PyTree:
        """The layer, from 1 to L, that each array of weights leads into, in the structure of the parameters."""
        if self.shared is not None:
            raise ValueError("weights that edges of any layers share belong to no layer")
        parameters = eqx.filter(self, eqx.is_inexact_array)
        numbers = [jax.tree.map(lambda _, at=at: at + 1, groups) for at, groups in enumerate(parameters.edges)]
        return eqx.tree_at(lambda net: net.edges, parameters, numbers)

    def edge_marks(self) -> list[Array]:
        """Marks of the entries that are edges, for each array of weights in their order."""
        if self.shared is not None:
            return [jnp.ones(self.shared.shape, bool)]
        return [
            group.mask if isinstance(group, Edges) and group.mask is not None else jnp.ones(group.weights.shape, bool)
            for groups in self.edges
            for group in map(self._weighted, groups)
        ]

    def graph(self) -> Graph:
        """The explicit graph, for small networks; an edge's parameter is its place in the flattened weights of the
        network. The padding of shared edges is left out."""
        sizes = self.sizes
        first = np.cumsum([0, *sizes])
        sources, targets, parameters, passed = [], [], [], 0
        for layer, (groups, origins) in enumerate(zip(self.edges, self.sources, strict=True), start=1):
            for group, origin in zip(groups, origins, strict=True):
                numbers = group.weight_numbers()
                to, source = np.nonzero(numbers >= 0)
                sources.append(first[origin] + source)
                targets.append(first[layer] + to)
                parameters.append(passed + numbers[to, source])
                passed += 0 if isinstance(group, GatheredEdges) else group.weights.size
        skips = [np.full(sizes[0], -1)]
        for size, skip in zip(sizes[1:], self.skips, strict=True):
            skips.append(np.full(size, -1) if skip is None else np.asarray(skip))
        together = [np.concatenate(parts).astype(np.int64) for parts in (sources, targets, parameters, skips)]
        return Graph(int(first[-1]), *together)

    @property
    def sizes(self) -> list[int]:
        """The number of neurons of each layer, inputs first."""
        group = self.edges[0][0]
        inputs = (group.numbers if isinstance(group, GatheredEdges) else group.weights).shape[1]
        inputs *= group.places if isinstance(group, SharedEdges) else 1
        return [inputs, *(degrees.shape[0] for degrees in self.in_degrees)]

    def width(self) -> Int[Array, ""]:
        """The smallest nonzero in-degree past the first layer (Definition 2.2.7)."""
        past = jnp.concatenate(self.in_degrees[1:])
        return jnp.min(jnp.where(past > 0, past, jnp.iinfo(jnp.int32).max))


def draw_weights(key: PRNGKeyArray, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Arrays of N(0, 1) weights, from one draw, which compiles faster than many."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = jnp.split(jax.random.normal(checks.key("key", key), (sum(sizes),)), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _listed(name: str, value: Any, kind: Any) -> list[Any]:
    """The entries, one or more; an error unless all are of this kind."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, kind) for each in value):
        what = "lists for the layers" if kind == list | tuple else getattr(kind, "__name__", f"{kind}")
        raise TypeError(f"{name} must be a list of one or more {what}; got {checks.shown(value)}")
    return list(value)


def sum_of(terms: Sequence[Any]) -> Any:
    """The sum of one array or more."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
