"""Isomorphism classes of graphs: refinement first, then an exact test if refinement does not decide."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from dynascope import checks
from dynascope.graphs.batch import GraphBatch, batch
from dynascope.graphs.graph import Graph
from dynascope.graphs.refinement import graph_codes, stable_colors

LARGEST = 4_000_000
"""The most nodes that refinement from each node of several graphs may take."""


def isomorphism_classes(graphs: GraphBatch) -> Int[np.ndarray, " graphs"]:
    """The isomorphism class of each graph; features count, as colors of the nodes.

    Graphs whose stable colors agree are written with their nodes in the order of the colors: equal forms are
    isomorphic. The others are refined again, from each of their nodes in turn; an exact search for an isomorphism that
    keeps the colors decides the rest.

    Args:
        graphs: The graphs.
    """
    if not isinstance(graphs, GraphBatch):
        raise TypeError(f"graphs must be a GraphBatch; got {checks.shown(graphs)}")
    colors = stable_colors(graphs.joined)
    codes = graph_codes(graphs, colors)
    parts = np.split(colors, graphs.offsets[1:-1])
    found, free = np.full(len(graphs), -1, np.int64), 0
    order = np.argsort(codes, kind="stable")
    for bucket in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        forms: dict[bytes, list[int]] = {}
        for at in bucket.tolist():
            forms.setdefault(_canonical_bytes(graphs[at], parts[at]) if len(bucket) > 1 else b"", []).append(at)
        same = list(forms.values())
        for group in _group_isomorphic([graphs[each[0]] for each in same], [parts[each[0]] for each in same]):
            for at in group:
                found[same[at]] = free
            free += 1
    return np.unique(found, return_inverse=True)[1]


def isomorphic(one: Graph, other: Graph) -> bool:
    """Whether two graphs are the same up to the order of their nodes, features included.

    Args:
        one: A graph.
        other: A graph.
    """
    if not isinstance(one, Graph) or not isinstance(other, Graph):
        raise TypeError(f"one and other must be Graphs; got {checks.shown(one)} and {checks.shown(other)}")
    if (one.features is None) != (other.features is None):
        return False
    first, second = isomorphism_classes(batch([one, other]))
    return bool(first == second)


def _group_isomorphic(graphs: list[Graph], colors: list[np.ndarray]) -> list[list[int]]:
    """The isomorphism classes of graphs whose stable colors agree."""
    if len(graphs) == 1 or len(np.unique(colors[0])) == graphs[0].nodes:
        return [[at] for at in range(len(graphs))]  # with all colors different there was one way to match the nodes
    finer = _refined_from_each_node(graphs, colors)
    codes = [tuple(np.sort(each).tolist()) for each in finer]
    groups: list[list[int]] = []
    for at, code in enumerate(codes):
        match = (
            group
            for group in groups
            if codes[group[0]] == code and _search(graphs[group[0]], finer[group[0]], graphs[at], finer[at])
        )
        group = next(match, None)
        if group is None:
            groups.append([at])
        else:
            group.append(at)
    return groups


def _refined_from_each_node(graphs: list[Graph], colors: list[np.ndarray]) -> list[np.ndarray]:
    """Finer colors: for each node, the code of its graph when only that node has a color of its own."""
    if sum(graph.nodes**2 for graph in graphs) > LARGEST:
        return colors
    copies = batch([graph for graph in graphs for _ in range(graph.nodes)])
    marked = np.concatenate([(2 * color + np.eye(len(color), dtype=np.int64)).ravel() for color in colors])
    codes = graph_codes(copies, stable_colors(copies.joined, colors=marked))
    ends = np.cumsum([graph.nodes for graph in graphs])
    return np.split(codes, ends[:-1])


def _search(one: Graph, colors: np.ndarray, other: Graph, others: np.ndarray) -> bool:
    """Whether an isomorphism keeps the colors, which are equally frequent in both graphs.

    A node of the smallest color class with more than one member gets a color of its own, so does each of the other
    graph's in turn, both are refined, and so on until the forms agree or all colors differ."""
    if _canonical_bytes(one, colors) == _canonical_bytes(other, others):
        return True
    members = np.bincount(colors)
    if members.max() == 1:
        return False
    color = int(np.argmin(np.where(members > 1, members, len(colors) + 1)))
    pair = batch([one, other])
    for node in np.flatnonzero(others == color):
        marked = 2 * np.concatenate([colors, others])
        marked[[np.flatnonzero(colors == color)[0], one.nodes + node]] += 1
        refined = stable_colors(pair.joined, colors=marked)
        first, second = np.split(refined, 2)
        if np.array_equal(np.sort(first), np.sort(second)) and _search(one, first, other, second):
            return True
    return False


def _canonical_bytes(graph: Graph, colors: np.ndarray) -> bytes:
    """The edges, with the nodes numbered in the order of their colors."""
    at = np.argsort(np.argsort(colors, kind="stable"))
    pairs = np.sort(at[graph.edges], axis=1)
    return pairs[np.lexsort(pairs.T)].tobytes()
