"""Exact numbers of trees, and of the classes of trees that fixed operators distinguish, as Python integers.

A message-passing network of depth K distinguishes nodes by their aggregation trees of depth K, up to isomorphism. An
operator that depends on the graph's structure alone distinguishes only the numbers of nodes of each feature on every
level. "Simple structures in neural networks", Appendices A.6 and A.8.
"""

from __future__ import annotations

from math import comb, prod
from typing import Annotated

from dynascope.theory.domains import Whole, check_arguments

Depth = Annotated[int, Whole(0, 8)]
Degree = Annotated[int, Whole(2, 64)]


@check_arguments
def full_trees(children: Degree, depth: Depth, features: int = 2) -> int:
    """The number of trees in which every node above the last level has m children, up to isomorphism: N_0 = c and N_k =
    c ms(N_(k-1), m), where ms(N, k) = C(N + k - 1, k) counts multisets.

    Args:
        children: Number of children m, from 2 to 64.
        depth: Depth K, from 0 to 8.
        features: Number of features c. Default: 2.
    """
    count = features
    for _ in range(depth):
        count = features * _multisets(count, children)
    return count


@check_arguments
def aggregation_trees(degree: Degree, depth: Depth, features: int = 2) -> int:
    """The number of aggregation trees of nodes in graphs whose degrees are all m, up to isomorphism: R_K = c
    ms(B_(K-1), m) with B_0 = c, B_k = c ms(B_(k-1), m - 1).

    One child repeats its parent's parent with its whole subtree, so m - 1 children are free.

    Args:
        degree: Degree m of every node, from 2 to 64.
        depth: Depth K, from 0 to 8.
        features: Number of features c. Default: 2.
    """
    if depth == 0:
        return features
    branch = features
    for _ in range(depth - 1):
        branch = features * _multisets(branch, degree - 1)
    return features * _multisets(branch, degree)


@check_arguments
def trees_repeating_features(degree: Degree, depth: Annotated[int, Whole(1, 6)], features: int = 2) -> int:
    """The number of trees in which some child of every node repeats the feature of the node's parent, the condition
    used in the proof of Lemma A.6. It is necessary for an aggregation tree and, from depth 3 on, not sufficient.

    Args:
        degree: Degree m of every node, from 2 to 64.
        depth: Depth K, from 1 to 6.
        features: Number of features c. Default: 2.
    """
    below = {(x, p): 1 for x in range(features) for p in range(features)}
    for _ in range(depth - 1):
        total = [sum(below[y, x] for y in range(features)) for x in range(features)]
        below = {
            (x, p): _multisets(total[x], degree) - _multisets(total[x] - below[p, x], degree)
            for x in range(features)
            for p in range(features)
        }
    return sum(_multisets(sum(below[y, x] for y in range(features)), degree) for x in range(features))


@check_arguments
def operator_classes_of_trees(children: Degree, depth: Depth) -> int:
    """The number of classes of full trees with two features that operators distinguish: ∏ (m^k + 1), the level counts.

    Args:
        children: Number of children m, from 2 to 64.
        depth: Depth K, from 0 to 8.
    """
    return prod(children**k + 1 for k in range(depth + 1))


@check_arguments
def operator_classes_of_balls(degree: Degree, depth: Depth) -> int:
    """The number of classes of balls with two features that operators distinguish, 2 ∏ (m(m - 1)^(k-1) + 1).

    Args:
        degree: Degree m of every node, from 2 to 64.
        depth: Depth K, from 0 to 8.
    """
    return 2 * prod(degree * (degree - 1) ** (k - 1) + 1 for k in range(1, depth + 1))


def _multisets(kinds: int, size: int) -> int:
    """The number of multisets of `size` elements of `kinds` kinds, C(kinds + size - 1, size)."""
    return comb(kinds + size - 1, size) if kinds or not size else 0
