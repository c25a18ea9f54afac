"""Directed acyclic graphs of neurons: edges, layers by the longest path, in-degrees and the width.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 2.2. A vertex without incoming edges
is an input, one without outgoing edges an output. Several edges may carry one parameter (shared weights).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from dynascope import checks


@dataclass(frozen=True, eq=False)
class Graph:
    """Vertices 0, 1, ..., `vertices` - 1 and the edges between them."""

    vertices: int
    """Number of vertices."""
    source: Int[np.ndarray, " e"]
    """The vertex at which each edge begins."""
    target: Int[np.ndarray, " e"]
    """The vertex at which it ends."""
    parameter: Int[np.ndarray, " e"]
    """The number of the weight that an edge carries; edges with the same number share it."""
    skip: Int[np.ndarray, " v"]
    """The vertex whose output is added to each vertex's own, untrained; -1 if there is none."""

    def __post_init__(self) -> None:
        checks.sizes(vertices=self.vertices)
        length = len(checks.array("source", self.source, ndim=1))
        for name, wanted in (("source", length), ("target", length), ("parameter", length), ("skip", self.vertices)):
            found = checks.array(name, getattr(self, name), lists=False)
            if found.shape != (wanted,) or not np.issubdtype(found.dtype, np.integer):
                raise ValueError(f"{name} must be an array of {wanted} integers; got {checks.shown(found)}")

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[int, int]],
        *,
        parameters: Sequence[int] | None = None,
        skips: Mapping[int, int] | None = None,
    ) -> Graph:
        """The graph of pairs of vertices.

        Args:
            edges: (source, target) pairs.
            parameters: The weight that each edge carries. Default: one of its own.
            skips: `{4: 1}` adds the output of vertex 1 to that of vertex 4.
        """
        given = np.asarray(list(edges))
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
            raise ValueError(f"edges must be one or more (source, target) pairs of integers; got {given.tolist()}")
        pairs = given.astype(np.int64)
        vertices = max(int(pairs.max()) + 1, 1)
        numbers = np.arange(len(pairs)) if parameters is None else np.asarray(parameters, dtype=np.int64)
        if len(numbers) != len(pairs):
            raise ValueError(f"parameters must have one number for each of {len(pairs)} edges; got {len(numbers)}")
        skip = np.full(vertices, -1)
        for vertex, source in (skips or {}).items():
            if not (0 <= vertex < vertices and 0 <= source < vertices):
                raise ValueError(f"skips must name vertices from 0 to {vertices - 1}; got {vertex}: {source}")
            skip[vertex] = source
        graph = cls(vertices, pairs[:, 0], pairs[:, 1], numbers, skip)
        graph.check()
        return graph

    def check(self) -> None:
        """Raise an error if this is not the graph of a network; cycles are found by `layer`."""
        pairs = np.stack([self.source, self.target], axis=1)
        if np.any(pairs < 0) or np.any(pairs >= self.vertices):
            wrong = pairs[np.any((pairs < 0) | (pairs >= self.vertices), axis=1)][0].tolist()
            raise ValueError(f"vertices are numbered from 0 to {self.vertices - 1}; got the edge {tuple(wrong)}")
        different, counts = np.unique(pairs, axis=0, return_counts=True)
        if np.any(counts > 1):
            raise ValueError(f"each edge must occur once; got {tuple(different[counts > 1][0].tolist())} more often")
        isolated = np.flatnonzero(self.in_degree + self.out_degree == 0)
        if isolated.size:
            raise ValueError(
                f"every vertex from 0 to {self.vertices - 1} needs an edge; got none for {isolated[:5].tolist()}"
            )
        ends = np.flatnonzero((self.skip >= 0) & ((self.in_degree == 0) | (self.out_degree == 0)))
        if ends.size:
            raise ValueError(f"skips must end in hidden vertices, not in inputs or outputs; got one into {ends[0]}")

    @cached_property
    def layer(self) -> Int[np.ndarray, " v"]:
        """The length of the longest path from any input to each vertex (Definition 2.2.1)."""
        layer = np.zeros(self.vertices, dtype=np.int64)
        linked = np.flatnonzero(self.skip >= 0)
        sources, targets = np.append(self.source, self.skip[linked]), np.append(self.target, linked)
        for _ in range(self.vertices + 1):
            longer = layer.copy()
            np.maximum.at(longer, targets, layer[sources] + 1)
            if np.array_equal(longer, layer):
                return layer
            layer = longer
        raise ValueError("the edges form a cycle: a network needs a graph without cycles")

    @cached_property
    def in_degree(self) -> Int[np.ndarray, " v"]:
        """The number of incoming edges; skips are not counted."""
        return np.bincount(self.target, minlength=self.vertices)

    @cached_property
    def out_degree(self) -> Int[np.ndarray, " v"]:
        """The number of outgoing edges, plus the skips that start at the vertex."""
        return np.bincount(np.append(self.source, self.skip[self.skip >= 0]), minlength=self.vertices)

    @property
    def depth(self) -> int:
        """L, the number of the last layer."""
        return int(self.layer.max())

    @property
    def inputs(self) -> Int[np.ndarray, " i"]:
        """The vertices of layer 0."""
        return np.flatnonzero(self.layer == 0)

    @property
    def outputs(self) -> Int[np.ndarray, " o"]:
        """The vertices without outgoing edges."""
        return np.flatnonzero(self.out_degree == 0)

    @property
    def width(self) -> int:
        """The smallest in-degree past the first layer (Definition 2.2.7), not the size of a layer."""
        past = self.in_degree[self.layer >= 2]
        if past.size == 0:
            raise ValueError("a graph with a single layer of neurons has no width")
        return int(past.min())

    def ancestors(self, vertex: int) -> Bool[np.ndarray, " v"]:
        """Marks of the vertices with a path to one, including itself.

        Args:
            vertex: The vertex.
        """
        reached = np.zeros(self.vertices, dtype=bool)
        reached[vertex] = True
        for layer in range(int(self.layer[vertex]), 0, -1):
            here = reached & (self.layer == layer)
            reached[self.source[here[self.target]]] = True
            skips = self.skip[here]
            reached[skips[skips >= 0]] = True
        return reached
