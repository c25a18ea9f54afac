"""The pairs of graphs that separate, or fail to separate, message passing from fixed operators.

"Simple structures in neural networks", Chapter 2 and Appendix A. Node numbers are the document's less one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dynascope.graphs.generators import complete_bipartite, cycle, disjoint_cycles, full_tree
from dynascope.graphs.graph import Graph, from_edges


class Pair(NamedTuple):
    """Two graphs that are not isomorphic, or two rooted ones whose roots are the nodes 0."""

    one: Graph
    """The first graph."""
    other: Graph
    """The second."""


def walk_twins() -> Pair:
    """Two graphs with the same number of walks of every length from node to node, yet not isomorphic (Figures 2.1 and
    A.1). They have 14 nodes and 16 edges."""
    one = {1: (3, 5, 7, 9), 2: (4, 6, 8, 10), 3: (11, 12), 4: (13, 14), 5: (13,), 6: (11,), 7: (14,), 8: (12,)}
    other = {1: (5, 6, 7, 8), 2: (3, 4, 9, 10), 3: (11, 12), 4: (13, 14), 5: (13,), 6: (11,), 7: (14,), 8: (12,)}
    return Pair(_of_lists(one), _of_lists(other))


def regular_twins() -> Pair:
    """Two regular graphs of equal size with different degrees: a ring of 6 nodes, and every edge from 3 nodes to 3
    others."""
    return Pair(cycle(6), complete_bipartite(3, 3))


def cycle_twins() -> Pair:
    """Two graphs that color refinement cannot tell apart: a ring of 6 nodes and two rings of 3."""
    return Pair(cycle(6), disjoint_cycles([3, 3]))


def same_tree_twins() -> Pair:
    """Two graphs whose nodes all have the same aggregation trees, for every depth (Figure 2.2): rings of 3 and of 6."""
    return Pair(cycle(3), cycle(6))


def tree_twins() -> Pair:
    """Two full binary trees of depth 2 with features 0 and 1 and equally many zeros on every level; one has a walk from
    its root through two ones, the other does not (Figure 2.3)."""
    tree = full_tree(2, 2)
    one, other = (0, 1, 0, 1, 0, 0, 0), (0, 1, 0, 0, 0, 1, 0)
    return Pair(*(tree.with_features(np.array(features)[:, None]) for features in (one, other)))


def _of_lists(neighbors: Mapping[int, Sequence[int]]) -> Graph:
    return from_edges([(i - 1, j - 1) for i, those in neighbors.items() for j in those], 14)
