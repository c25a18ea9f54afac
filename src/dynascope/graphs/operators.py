"""Fixed linear operators of graph-augmented networks: functions of the graph alone, such as powers of its adjacency
matrix.

Each returns something that multiplies node features, `operator @ x` with x of shape (nodes,) or (nodes, channels): a
sparse array of scipy, (nodes, nodes), in 64-bit integers if it counts and in floats if it averages. A division by the
degree of an isolated node gives 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dynascope import checks
from dynascope.graphs.graph import Graph, check_graph


def identity(graph: Graph) -> sp.csr_array:
    """I, which hands on a node's own features.

    Args:
        graph: The graph.
    """
    return _diagonal(graph, np.ones(check_graph(graph).nodes, np.int64))


def adjacency(graph: Graph) -> sp.csr_array:
    """A: the sum over neighbors.

    Args:
        graph: The graph.
    """
    ones = np.ones(len(check_graph(graph).indices), np.int64)
    return sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.nodes, graph.nodes))


def degree(graph: Graph) -> sp.csr_array:
    """D, the diagonal of degrees.

    Args:
        graph: The graph.
    """
    return _diagonal(graph, np.asarray(check_graph(graph).degrees, np.int64))


def normalized_adjacency(graph: Graph, *, alpha: float = 0.5, beta: float = 0.5) -> sp.csr_array:
    """D^-α A D^-β: symmetric at (1/2, 1/2), the mean over neighbors at (1, 0).

    Args:
        graph: The graph.
        alpha: α.
        beta: β.
    """
    checks.real("alpha", alpha)
    checks.real("beta", beta)
    degrees = check_graph(graph).degrees.astype(float)
    left, right = (_power(degrees, -float(exponent)) for exponent in (alpha, beta))
    values = left[graph.rows] * right[graph.indices]
    return sp.csr_array((values, graph.indices, graph.indptr), shape=(graph.nodes, graph.nodes))


def with_self_loops(graph: Graph, *, epsilon: float = 1.0) -> sp.csr_array:
    """(D + εI)^-1/2 (A + εI) (D + εI)^-1/2: the symmetric operator with a self-loop on every node.

    Args:
        graph: The graph.
        epsilon: The weight ε of the self-loops.
    """
    checks.real("epsilon", epsilon, above=0)
    scale = _diagonal(graph, (check_graph(graph).degrees + float(epsilon)) ** -0.5)
    return _csr(scale @ (adjacency(graph) + float(epsilon) * identity(graph)) @ scale)


def bethe_hessian(graph: Graph, *, r: float | None = None) -> sp.csr_array:
    """H(r) = (r² - 1)I - rA + D.

    Args:
        graph: The graph.
        r: r. Default: the square root of the average degree.
    """
    at = average_degree(graph) ** 0.5 if r is None else float(checks.real("r", r))
    return _csr((at**2 - 1) * identity(graph) - at * adjacency(graph) + degree(graph))


def shifted_bethe_hessian(graph: Graph, *, kappa: float = 8.0, r: float | None = None) -> sp.csr_array:
    """κI - H(r), whose leading eigenvectors are the communities.

    Args:
        graph: The graph.
        kappa: κ; the default fits an average degree of 3.
        r: r. Default: the square root of the average degree.
    """
    checks.real("kappa", kappa)
    return _csr(float(kappa) * identity(graph) - bethe_hessian(graph, r=r))


def power_graph(graph: Graph) -> sp.csr_array:
    """min(A², 1): nodes joined by a walk of two steps.

    Args:
        graph: The graph.
    """
    return _cap_at_one(adjacency(graph) @ adjacency(graph))


def two_step_graph(graph: Graph) -> sp.csr_array:
    """min(A + A², 1): nodes joined by a walk of one or two steps.

    Args:
        graph: The graph.
    """
    once = adjacency(graph)
    return _cap_at_one(once + once @ once)


def triangles(graph: Graph, *, averaged: bool = False) -> sp.csr_array:
    """A∘A²: each edge weighted by the number of triangles that it is part of.

    It tells a ring of 6 from two rings of 3, which color refinement does not.

    Args:
        graph: The graph.
        averaged: Divide by the row sums.
    """
    checks.flags(averaged=averaged)
    once = adjacency(graph)
    weighted = _csr(once * (once @ once))
    if not averaged:
        return weighted
    return _csr(_diagonal(graph, _power(np.asarray(weighted.sum(axis=1), float), -1.0)) @ weighted)


def pagerank(graph: Graph, *, restart: float = 0.1) -> LinearOperator:
    """a(I - (1 - a)AD^-1)^-1: personalized PageRank. The matrix is dense, so each product is a fixed-point iteration,
    to 1e-12 of the largest entry.

    Args:
        graph: The graph.
        restart: The restart probability a.
    """
    a = float(checks.real("restart", restart, above=0, at_most=1))
    step = normalized_adjacency(graph, alpha=0, beta=1)
    rounds = 1 if a == 1 else int(np.ceil(np.log(1e-13) / np.log(1 - a)))

    def product(x: Any) -> Any:
        start, total = np.asarray(x, float), np.asarray(x, float)
        for _ in range(rounds):
            total = start + (1 - a) * (step @ total)
        return a * total

    shape = (graph.nodes, graph.nodes)
    return LinearOperator(shape=shape, dtype=float, matvec=product, matmat=product)  # pyright: ignore[reportCallIssue]


def average_degree(graph: Graph) -> float:
    """The average degree.

    Args:
        graph: The graph.
    """
    return float(len(check_graph(graph).indices) / max(graph.nodes, 1))


def _power(values: np.ndarray, exponent: float) -> np.ndarray:
    """values^exponent, with 0 for a value of 0, so that isolated nodes give no division by zero."""
    safe = np.where(values > 0, values, 1.0)
    return np.where(values > 0, safe**exponent, 0.0)


def _diagonal(graph: Graph, values: np.ndarray) -> sp.csr_array:
    at = np.arange(graph.nodes + 1, dtype=np.int64)
    return sp.csr_array((values, at[:-1], at), shape=(graph.nodes, graph.nodes))


def _cap_at_one(matrix: Any) -> sp.csr_array:
    capped = _csr(matrix)
    capped.data = np.minimum(capped.data, 1)
    return capped


def _csr(matrix: Any) -> sp.csr_array:
    made = sp.csr_array(matrix)
    made.sort_indices()
    return made
