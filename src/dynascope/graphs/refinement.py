"""The classes of nodes and of graphs that message passing and fixed operators can tell apart, found exactly.

"Simple structures in neural networks", Chapter 2. A message-passing network of depth K distinguishes the colors of K
rounds of Weisfeiler-Lehman refinement; a graph-augmented MLP has only the features ω_1 X, ..., ω_K X of a node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int

from dynascope import checks
from dynascope.graphs.batch import GraphBatch
from dynascope.graphs.graph import Graph, check_graph
from dynascope.graphs.operators import adjacency
from dynascope.graphs.partitions import classes_of, multiset_classes, partition
from dynascope.graphs.propagation import powers, rounding_of_powers


def color_refinement(graph: Graph, rounds: int, *, colors: Any = None) -> Int[np.ndarray, "all_rounds nodes"]:
    """The classes of Weisfeiler-Lehman refinement: in each round a node's color becomes its own color with the multiset
    of its neighbors' colors. One partition for each of 0, 1, ..., `rounds` rounds.

    Args:
        graph: The graph.
        rounds: Number of rounds.
        colors: The partition to start from. Default: the graph's features; without them one color.
    """
    checks.whole("rounds", rounds, at_least=0, at_most=100_000)
    found = [_start(check_graph(graph), colors)]
    for _ in range(rounds):
        before = found[-1]
        after = multiset_classes(before, graph.indptr, before[graph.indices])
        found.append(after if after.max(initial=0) > before.max(initial=0) else before)
    return np.stack(found)


def stable_colors(graph: Graph, *, colors: Any = None) -> Int[np.ndarray, " nodes"]:
    """The stable classes, which further color refinement does not change.

    Args:
        graph: The graph.
        colors: The partition to start from. Default: the graph's features; without them one color.
    """
    before = _start(check_graph(graph), colors)
    while True:
        after = multiset_classes(before, graph.indptr, before[graph.indices])
        if after.max(initial=0) == before.max(initial=0):
            return before
        before = after


def operator_classes(
    graph: Graph, order: int, *, operator: Any = adjacency, own: bool = True, tolerance: float | None = None
) -> Int[np.ndarray, "orders nodes"]:
    """The classes of a graph-augmented MLP with the operators I, ω, ..., ω^k, for k = 0, 1, ..., `order`.

    They are exact if operator and features are integers. For a sparse operator with floats, values count as different
    if they differ by more than the rounding of their products, which is bounded: nodes that it sees alike are never
    told apart, and those that it tells apart are, unless they differ by less.

    Args:
        graph: The graph; its features, or 1 for every node, are the input.
        order: The largest k.
        operator: ω as a function of the graph, such as `adjacency`.
        own: Whether I is among the operators; without it there is one class at k = 0.
        tolerance: The distance at which floats count as equal; see `classes_of`. Default: the bound on rounding, or
            1e-9 if the operator is no sparse matrix.
    """
    checks.whole("order", order, at_least=0, at_most=100_000)
    checks.function("operator", operator, "operator(graph)")
    checks.flags(own=own)
    features = np.ones((graph.nodes, 1), np.int64) if check_graph(graph).features is None else graph.features
    found, matrix = [], operator(graph)
    every = powers(matrix, features, order)
    for k, (values, how) in enumerate(zip(every, _compared(matrix, every, tolerance), strict=True)):
        start = found[-1] if found else None
        seen, how = (values, how) if own or k else (np.zeros(graph.nodes, np.int64), {})
        found.append(classes_of(seen, start=start, **how))
    return np.stack(found)


def family_classes(
    graph: Graph, operators: Iterable[Any], *, tolerance: float | None = None
) -> Int[np.ndarray, " nodes"]:
    """The classes of a graph-augmented MLP with any operators.

    Args:
        graph: The graph; its features, or 1 for every node, are the input.
        operators: Functions of the graph, such as `adjacency`.
        tolerance: The distance at which floats count as equal; see `operator_classes`.
    """
    if not isinstance(operators, Iterable) or isinstance(operators, str | bytes | dict):
        raise TypeError(f"operators must be a list of functions of a graph; got {checks.shown(operators)}")
    features = np.ones((graph.nodes, 1), np.int64) if check_graph(graph).features is None else graph.features
    found = np.zeros(graph.nodes, np.int64)
    for operator in operators:
        made = checks.function("each of operators", operator, "operator(graph)")(graph)
        both = powers(made, features, 1)
        found = classes_of(both[1], start=found, **_compared(made, both, tolerance)[1])
    return found


def _compared(matrix: Any, values: np.ndarray, tolerance: float | None) -> list[dict[str, Any]]:
    """How `classes_of` compares the values of each power."""
    errors = rounding_of_powers(matrix, values) if tolerance is None else None
    if errors is None:
        return [{"tolerance": 1e-9 if tolerance is None else tolerance}] * len(values)
    return [{"errors": each} for each in errors]


def graph_codes(graphs: GraphBatch, classes: Any) -> Int[np.ndarray, " graphs"]:
    """The classes of graphs that have the same multiset of node classes.

    Args:
        graphs: The graphs.
        classes: The class of each node of `graphs.joined`, (nodes,).
    """
    if not isinstance(graphs, GraphBatch):
        raise TypeError(f"graphs must be a GraphBatch; got {checks.shown(graphs)}")
    found = partition("classes", classes, graphs.joined.nodes)
    return multiset_classes(np.zeros(len(graphs), np.int64), graphs.offsets, found)


def _start(graph: Graph, colors: Any) -> np.ndarray:
    if colors is not None:
        return partition("colors", colors, graph.nodes)
    return np.zeros(graph.nodes, np.int64) if graph.features is None else classes_of(graph.features, tolerance=0)
