"""Isomorphism classes of graphs: refinement first, an exact test where it leaves a doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from dynascope import checks
from dynascope.graphs.batch import GraphBatch, batch
from dynascope.graphs.convert import to_networkx
from dynascope.graphs.graph import Graph
from dynascope.graphs.refinement import graph_codes, stable_colors


def isomorphism_classes(graphs: GraphBatch) -> Int[np.ndarray, " graphs"]:
    """The isomorphism class of each graph, (graphs,); features count, as colors of the nodes.

    Graphs whose stable colors agree are compared one by one: first with nodes in the order of their colors, then by
    networkx's exact search for an isomorphism that keeps the colors.
    """
    if not isinstance(graphs, GraphBatch):
        raise TypeError(f"graphs must be a GraphBatch; got {checks.shown(graphs)}")
    colors = stable_colors(graphs.joined)
    codes = graph_codes(graphs, colors)
    parts = np.split(colors, graphs.offsets[1:-1])
    found, free = np.full(len(graphs), -1, np.int64), 0
    order = np.argsort(codes, kind="stable")
    for bucket in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        known: list[int] = []
        for at in bucket:
            same = (one for one in known if _same(graphs[one], parts[one], graphs[at], parts[at]))
            match = next(same, None)
            if match is None:
                known.append(at)
                found[at], free = free, free + 1
            else:
                found[at] = found[match]
    return np.unique(found, return_inverse=True)[1]


def isomorphic(one: Graph, other: Graph) -> bool:
    """Whether two graphs are the same up to the order of their nodes, features included."""
    if not isinstance(one, Graph) or not isinstance(other, Graph):
        raise TypeError(f"one and other must be Graphs; got {checks.shown(one)} and {checks.shown(other)}")
    if (one.features is None) != (other.features is None):
        return False
    first, second = isomorphism_classes(batch([one, other]))
    return bool(first == second)


def _same(one: Graph, colors: np.ndarray, other: Graph, others: np.ndarray) -> bool:
    if np.array_equal(_drawn(one, colors), _drawn(other, others)):
        return True
    if len(np.unique(colors)) == one.nodes:  # there is one way to match the nodes, and it has just failed
        return False
    from networkx import vf2pp_is_isomorphic

    first, second = to_networkx(one), to_networkx(other)
    for graph, each in ((first, colors), (second, others)):
        for node, color in enumerate(each.tolist()):
            graph.nodes[node]["color"] = color
    return bool(vf2pp_is_isomorphic(first, second, node_label="color"))


def _drawn(graph: Graph, colors: np.ndarray) -> Any:
    """The edges, with the nodes numbered in the order of their colors."""
    at = np.argsort(np.lexsort((graph.degrees, colors)))
    pairs = np.sort(at[graph.edges], axis=1)
    return pairs[np.lexsort(pairs.T)]
