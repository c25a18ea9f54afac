"""The part of a graph that the operators D and A D^-α can distinguish: each node's degree with the degrees of its
neighbors.

"Simple structures in neural networks", Proposition 2.2, Lemmas A.4 and A.5. The power itself is never computed: at n =
100 it is about 1e-916.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import ceil, log, log2
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Int

from dynascope.graphs import Graph, color_refinement, from_edges
from dynascope.theory.domains import Whole, check_arguments


class Switch(NamedTuple):
    """Two edges ab and a'b' that become ab' and a'b, with d_a = d_a' and d_b = d_b'."""

    a: int
    """Node a."""
    b: int
    """Node b."""
    a2: int
    """Node a'."""
    b2: int
    """Node b'."""


@check_arguments
def injective_above(n: Annotated[int, Whole(2, 10**6)]) -> float:
    """log n / (log n - log(n - 1)): Σ u^-α tells all multisets of at most n numbers from 1 to n apart if α exceeds it
    (Lemma A.4).

    Args:
        n: Largest number, from 2 to 1,000,000.
    """
    return log(n) / (log(n) - log(n - 1))


@check_arguments
def power_sums(n: Annotated[int, Whole(2, 7)], exponent: int) -> list[Fraction]:
    """Σ u^-α of every multiset of at most n numbers from 1 to n, the empty one included.

    Args:
        n: Largest number, from 2 to 7.
        exponent: α.
    """
    sizes = range(n + 1)
    choices = (choice for size in sizes for choice in combinations_with_replacement(range(1, n + 1), size))
    return [sum((Fraction(1, u**exponent) for u in choice), Fraction(0)) for choice in choices]


@check_arguments
def degree_codes(graph: Graph) -> Int[np.ndarray, " nodes"]:
    """The classes of nodes with the same degree and the same multiset of neighbors' degrees: two rounds of color
    refinement.

    Args:
        graph: The graph.
    """
    return color_refinement(Graph(graph.indptr, graph.indices), 2)[-1]


@check_arguments
def top_degree_code(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """F(G) of Algorithm 1 (Lemma A.5): for each node the degrees, above the r-th largest of the graph, of its
    neighbors; r = ceil(3 log2 n).

    Args:
        graph: The graph.
    """
    degrees = graph.degrees
    rank = min(ceil(3 * log2(max(graph.nodes, 2))), graph.nodes)
    bar = int(np.sort(degrees)[::-1][rank - 1])
    rows = (degrees[graph.neighbors(node)] for node in range(graph.nodes))
    return tuple(sorted(tuple(sorted(int(d) for d in row if d > bar)) for row in rows))


@check_arguments
def log2_codes_and_classes(n: Annotated[int, Whole(2, 10**6)]) -> tuple[float, float]:
    """log2 of 2^(r log2 n + nr), at most as many values of F(G), and of 2^(n(n-1)/2) / n!, at least as many isomorphism
    classes.

    Args:
        n: Number of nodes, from 2 to 1,000,000.
    """
    rank = ceil(3 * log2(n))
    return rank * log2(n) + n * rank, n * (n - 1) / 2 - sum(log2(k) for k in range(1, n + 1))


@check_arguments
def switches(graph: Graph) -> Iterator[Switch]:
    """Pairs of edges that can be switched so that no node's degree, nor any neighbor's, changes.

    They keep `degree_codes`; if these are all different, the switched graph is not isomorphic to the first.

    Args:
        graph: The graph.
    """
    degrees = graph.degrees
    joined = {(int(i), int(j)) for i, j in zip(graph.rows, graph.indices, strict=True)}
    by_degrees: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, j in sorted(joined):
        if i != j:
            by_degrees.setdefault((int(degrees[i]), int(degrees[j])), []).append((i, j))
    for pairs in by_degrees.values():
        for number, (a, b) in enumerate(pairs):
            for a2, b2 in pairs[number + 1 :]:
                if len({a, b, a2, b2}) == 4 and (a, b2) not in joined and (a2, b) not in joined:
                    yield Switch(a, b, a2, b2)


@check_arguments
def switch_edges(graph: Graph, switch: Switch) -> Graph:
    """The graph after two edges are switched.

    Args:
        graph: The graph.
        switch: One of `switches(graph)`.
    """
    a, b, a2, b2 = switch
    gone = {frozenset((a, b)), frozenset((a2, b2))}
    kept = [pair for pair in graph.edges.tolist() if frozenset(pair) not in gone]
    return from_edges([*kept, (a, b2), (a2, b)], graph.nodes)
