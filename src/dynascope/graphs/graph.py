"""An undirected graph as arrays that do not change.

Row i of the adjacency matrix lists the neighbors of node i. A self-loop counts as one neighbor, a repeated edge as one
edge. Edges have no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int, Shaped

from dynascope import checks


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes 0, 1, ..., n - 1. `from_edges` and `from_scipy` make one; the arrays are read-only."""

    indptr: Int[np.ndarray, " pointers"]
    """The neighbors of node i are `indices[indptr[i]:indptr[i + 1]]`."""
    indices: Int[np.ndarray, " entries"]
    """The neighbors, in ascending order for each node; an edge between two nodes is listed twice, a self-loop once."""
    features: Shaped[np.ndarray, "nodes channels"] | None = None
    """Features of the nodes."""
    labels: Shaped[np.ndarray, " nodes"] | None = None
    """Labels of the nodes."""
    collapsed: int = 0
    """Number of repeated edges that were left out when the graph was made."""

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.features, self.labels):
            if array is not None:
                array.setflags(write=False)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.indptr) - 1

    @cached_property
    def degrees(self) -> Int[np.ndarray, " nodes"]:
        """The number of neighbors of each node, a self-loop counted once."""
        return np.diff(self.indptr)

    @cached_property
    def rows(self) -> Int[np.ndarray, " entries"]:
        """The row of each of `indices`: `(rows, indices)` are the entries of the matrix."""
        return np.repeat(np.arange(self.nodes, dtype=self.indices.dtype), self.degrees)

    @property
    def loops(self) -> int:
        """The number of self-loops."""
        return int(np.sum(self.rows == self.indices))

    @property
    def edges(self) -> Int[np.ndarray, "edges 2"]:
        """Every edge once, i <= j."""
        once = self.rows <= self.indices
        return np.stack([self.rows[once], self.indices[once]], axis=1)

    def neighbors(self, node: int) -> Int[np.ndarray, " neighbors"]:
        """The neighbors of a node, in ascending order.

        Args:
            node: Its number.
        """
        checks.whole("node", node, at_least=0, at_most=self.nodes - 1)
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def with_features(self, features: Any) -> Graph:
        """The same graph with other node features.

        Args:
            features: Features of shape (nodes, channels) or (nodes,).
        """
        return replace(self, features=_of_nodes("features", features, self.nodes, axes=2))

    def with_labels(self, labels: Any) -> Graph:
        """The same graph with other labels.

        Args:
            labels: One for each node.
        """
        return replace(self, labels=_of_nodes("labels", labels, self.nodes, axes=1))

    def reorder(self, order: Sequence[int] | Int[np.ndarray, " nodes"]) -> Graph:
        """The isomorphic graph with its nodes in another order.

        Args:
            order: Node i of the new graph is node `order[i]` of this one.
        """
        new = checks.array("order", order, ndim=1)
        if not np.array_equal(np.sort(new), np.arange(self.nodes)):
            raise ValueError(f"order must hold every node from 0 to {self.nodes - 1} once; got {checks.shown(order)}")
        at = np.argsort(new)
        moved = None if self.features is None else self.features[new]
        kept = None if self.labels is None else self.labels[new]
        return replace(from_edges(at[self.edges], self.nodes), features=moved, labels=kept, collapsed=self.collapsed)

    def __repr__(self) -> str:
        return f"Graph({self.nodes} nodes, {len(self.edges)} edges)"


def from_edges(edges: Any, nodes: int | None = None, *, features: Any = None, labels: Any = None) -> Graph:
    """The graph with these edges.

    Self-loops are kept, repeated edges collapse into one; `loops` and `collapsed` of the graph say how many there were.
    An edge that is listed once in each direction is not a repetition.

    Args:
        edges: Pairs of node numbers, (edges, 2), each in one direction or in both.
        nodes: Number of nodes. Default: one more than the largest number in `edges`.
        features: Features of the nodes, (nodes, channels) or (nodes,).
        labels: Labels of the nodes, (nodes,).
    """
    pairs = np.asarray(edges) if np.size(edges) else np.zeros((0, 2), np.int64)
    if pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must hold node numbers, which are integers; got {checks.shown(edges)}")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges must be an array of shape (edges, 2); got {checks.shown(edges)}")
    if pairs.size and pairs.min() < 0:
        raise ValueError(f"edges must hold node numbers from 0 on; got {pairs.min()}")
    largest = int(pairs.max()) if pairs.size else -1
    count = largest + 1 if nodes is None else checks.whole("nodes", nodes, at_least=0, at_most=2**31 - 1)
    if largest >= count:
        raise ValueError(f"edges must hold node numbers below nodes = {count}; got {largest}")
    if count > max(2**20, 2000 * (len(pairs) + 1)) and nodes is None:
        raise ValueError(f"nodes must be given if the largest node number is as large as {largest}")
    graph = _symmetric(pairs, count)
    for name, given in (("features", features), ("labels", labels)):
        graph = graph if given is None else getattr(graph, f"with_{name}")(given)
    return graph


def check_graph(graph: Any) -> Graph:
    """The graph, or a TypeError if it is something else."""
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be a Graph; got {checks.shown(graph)}")
    return graph


def _symmetric(pairs: np.ndarray, nodes: int) -> Graph:
    kind = np.int32 if nodes < 2**31 else np.int64
    i, j = pairs[:, 0].astype(kind), pairs[:, 1].astype(kind)
    crossing = i != j
    one = np.ones(2 * int(crossing.sum()) + int((~crossing).sum()), np.int32)
    rows = np.concatenate([i[crossing], j[crossing], i[~crossing]])
    columns = np.concatenate([j[crossing], i[crossing], i[~crossing]])
    matrix = sp.csr_array((one, (rows, columns)), shape=(nodes, nodes))  # adds repeated entries
    matrix.sum_duplicates()
    matrix.sort_indices()
    collapsed = 0
    if matrix.data.size and matrix.data.max() > 1:
        upward = sp.csr_array((np.ones(len(i), np.int32), (i, j)), shape=(nodes, nodes))
        upward.sum_duplicates()
        collapsed = int((upward.data - 1).sum())
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(kind), collapsed=collapsed)


def _of_nodes(name: str, values: Any, nodes: int, axes: int) -> np.ndarray:
    found = checks.array(name, values, min_ndim=1, empty=True)
    if len(found.shape) > axes or len(found) != nodes:
        shape = "(nodes,)" if axes == 1 else "(nodes,) or (nodes, channels)"
        raise ValueError(f"{name} must have shape {shape} with nodes = {nodes}; got {checks.shown(values)}")
    if np.any(np.isnan(found)):
        raise ValueError(f"{name} must hold a number for every node; got nan")
    kept = np.array(found)
    return kept[:, None] if axes == 2 and kept.ndim == 1 else kept
