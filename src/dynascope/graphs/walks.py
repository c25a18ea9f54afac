"""Walks whose nodes have prescribed colors: counted by products, and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from dynascope import checks
from dynascope.graphs.graph import Graph, check_graph
from dynascope.graphs.operators import adjacency
from dynascope.graphs.propagation import powers


def walk_counts(
    graph: Graph, colors: Any, sequence: Sequence[int], *, root: bool = True
) -> Shaped[np.ndarray, " nodes"]:
    """The number of walks from each node through nodes of prescribed colors: P_x0 A P_x1 ... A P_xk 1, where P_x keeps
    the nodes of color x.

    Args:
        graph: The graph.
        colors: The color of each node, whole numbers (nodes,).
        sequence: The colors x_0, ..., x_k along the walk.
        root: Whether the first color is that of the node itself, not of the first step (the theory's f_k).
    """
    given, wanted = _check_walk(graph, colors, sequence, root)
    matrix = adjacency(graph)
    count = np.ones(graph.nodes, np.int64)
    for number, color in enumerate(reversed(wanted)):
        count = (count if number == 0 else powers(matrix, count, 1)[1, :, 0]) * (given == color)
    return count if root else powers(matrix, count, 1)[1, :, 0]


def walks(graph: Graph, node: int, length: int) -> Iterator[tuple[int, ...]]:
    """Every walk from a node, one by one, to check `walk_counts`: their number grows like the degree to the power of
    the length.

    Args:
        graph: The graph.
        node: The node at which walks begin.
        length: Number of steps.
    """
    check_graph(graph)
    checks.whole("node", node, at_least=0, at_most=graph.nodes - 1)
    checks.whole("length", length, at_least=0, at_most=64)
    return _walks(graph, (node,), length)


def _walks(graph: Graph, so_far: tuple[int, ...], more: int) -> Iterator[tuple[int, ...]]:
    if more == 0:
        yield so_far
        return
    for step in graph.neighbors(so_far[-1]).tolist():
        yield from _walks(graph, (*so_far, step), more - 1)


def _check_walk(graph: Any, colors: Any, sequence: Any, root: Any) -> tuple[np.ndarray, list[int]]:
    check_graph(graph)
    checks.flags(root=root)
    given = np.asarray(checks.array("colors", colors, ndim=1, empty=True))
    if given.dtype.kind not in "iu" or len(given) != graph.nodes:
        raise ValueError(
            f"colors must be integers of shape (nodes,), nodes = {graph.nodes}; got {checks.shown(colors)}"
        )
    if not isinstance(sequence, Sequence) or isinstance(sequence, str) or not sequence:
        raise TypeError(f"sequence must be a list with one color or more; got {checks.shown(sequence)}")
    return given, [checks.whole("each of sequence", color) for color in sequence]
