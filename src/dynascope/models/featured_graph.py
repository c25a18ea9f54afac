"""A graph with features, as arrays that a compiled network sums over."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dynascope import checks
from dynascope.graphs import Graph, adjacency

LARGEST_TABLE = 2**22
"""Numbers in a table of neighbors by kind."""


class FeaturedGraph(eqx.Module):
    """The input of message passing: node features, neighbors, and the classes of nodes that the first layer cannot tell
    apart.

    The first layer of a network such as `GIN` sees a node's own features and their sum over its neighbors. Few of these
    pairs are distinct if features are colors or classes, so that layer is computed once for each of them. All later
    layers are computed as usual.

    Args:
        graph: The graph, with features.
    """

    x: Float[Array, "nodes features"]
    senders: Int[Array, " entries"]
    receivers: Int[Array, " entries"]
    """Sorted."""
    table: Int[Array, "nodes most"]
    """The neighbors of each node; padded after the last with the number of nodes, which is not a node."""
    kind: Int[Array, " nodes"]
    """The kind of each node: the index of its pair of own features and sum."""
    own: Float[Array, "kinds features"]
    sums: Float[Array, "kinds features"]
    """The sum of the features over the neighbors, for each kind."""
    counts: Float[Array, "nodes kinds"] | None
    """The number of neighbors of each kind of a node, if that is a small table: a sum over neighbors of values by kind
    is then one matrix product."""

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph) or graph.features is None or graph.nodes < 1:
            raise TypeError(f"graph must be a Graph with nodes and features; got {checks.shown(graph)}")
        x = np.asarray(graph.features, float)
        pairs = np.concatenate([x, adjacency(graph) @ x], axis=1)
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        table = np.full((graph.nodes, max(1, graph.degrees.max(initial=0))), graph.nodes, np.int32)
        table[graph.rows, np.arange(len(graph.indices)) - graph.indptr[graph.rows]] = graph.indices
        self.x, self.table = jnp.asarray(x, float), jnp.asarray(table)
        self.senders, self.receivers = jnp.asarray(graph.indices, np.int32), jnp.asarray(graph.rows, np.int32)
        self.kind = jnp.asarray(kind.reshape(-1), np.int32)
        self.own, self.sums = (jnp.asarray(half, float) for half in np.split(kinds, 2, axis=1))
        self.counts = None
        if graph.nodes * len(kinds) <= LARGEST_TABLE:
            of_kind = (kind.reshape(-1, 1) == np.arange(len(kinds))).astype(float)
            self.counts = jnp.asarray(adjacency(graph) @ of_kind, float)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.x.shape[0]

    def totals(self, h: Float[Array, "nodes channels"]) -> Float[Array, "nodes channels"]:
        """Sums over the neighbors of every node.

        Args:
            h: Values at the nodes, (nodes, channels).
        """
        return jax.ops.segment_sum(h[self.senders], self.receivers, self.nodes, indices_are_sorted=True)

    def around(self, nodes: Int[Array, " some"]) -> Int[Array, "some most"]:
        """The neighbors of some nodes, with the number of nodes in empty places.

        Args:
            nodes: Their numbers, (some,).
        """
        return self.table.at[nodes].get(mode="fill", fill_value=self.nodes)
