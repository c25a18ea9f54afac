"""Trees that operators cannot distinguish although they differ in the number of walks through prescribed features.

"Simple structures in neural networks", Proposition 2.7 and Appendix A.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from dynascope.graphs import Graph, full_tree, walk_counts
from dynascope.theory.domains import Domain, Whole, check_arguments

Children = Annotated[int, Whole(2, 6)]
Bits = Annotated[Sequence[int], Domain("a list of zeros and ones", lambda x: (x == 0) | (x == 1))]


@check_arguments
def level_totals(children: Children, length: Annotated[int, Whole(1, 6)]) -> range:
    """The numbers q_k of zeros on the last level for which the construction works, m^(k-1) to (m - 1)m^(k-1).

    Args:
        children: Number of children m, from 2 to 6.
        length: Depth k, from 1 to 6.
    """
    return range(children ** (length - 1), (children - 1) * children ** (length - 1) + 1)


@check_arguments
def confused_trees(children: Children, sequence: Bits, zeros: int) -> list[Graph]:
    """The full m-ary trees of depth k with the same level vector: tree r, from 0 on, has r leaves with the feature x_k
    in its first branch. Features (nodes, 1), 0 at the root.

    The inner nodes have the features x_1, ..., x_k in the first branch, and the opposite ones in the others.

    Args:
        children: Number of children m, from 2 to 6.
        sequence: Features x_1, ..., x_k, zeros and ones.
        zeros: Number of zeros on the last level, in `level_totals(children, k)`.
    """
    depth = len(sequence)
    if depth > 6 or zeros not in level_totals(children, depth):
        raise ValueError(f"zeros must be one of level_totals, and sequence at most 6 long; got {zeros} and {depth}")
    tree, branch = full_tree(children, depth), children ** (depth - 1)
    first = [sum(children**level for level in range(k)) for k in range(depth + 2)]  # the first node of each level
    features = np.zeros(tree.nodes, np.int64)
    for k, x in enumerate(sequence[:-1], start=1):
        features[first[k] : first[k + 1]] = 1 - int(x)
        features[first[k] : first[k] + children ** (k - 1)] = int(x)
    wanted, leaves, trees = int(sequence[-1]), first[depth], []
    for r in range(branch + 1):
        inside = np.where(np.arange(branch) < r, wanted, 1 - wanted)
        missing = zeros - int(np.sum(inside == 0))
        outside = np.where(np.arange((children - 1) * branch) < missing, 0, 1)
        features[leaves : leaves + branch] = inside
        features[leaves + branch :] = outside
        trees.append(tree.with_features(features[:, None]))
    return trees


@check_arguments
def walks_from_root(tree: Graph, sequence: Bits) -> int:
    """f_k: the walks from node 0 through features x_1, ..., x_k, including those that turn back.

    Args:
        tree: A tree with features (nodes, 1).
        sequence: Features x_1, ..., x_k, zeros and ones.
    """
    assert tree.features is not None
    return int(walk_counts(tree, tree.features[:, 0].astype(np.int64), [int(x) for x in sequence], root=False)[0])
