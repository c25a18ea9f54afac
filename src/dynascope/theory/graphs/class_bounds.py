"""Bounds on the number of classes of rooted graphs, as base-10 logarithms: doubly exponential in the depth for message
passing, poly-exponential for powers of a normalized adjacency matrix.

"Simple structures in neural networks", Propositions 2.3 and 2.4, Corollary 2.5, Appendices A.6 and A.7.
"""

from __future__ import annotations

from math import comb, log10
from typing import Annotated

from dynascope.theory.domains import Whole, check_arguments

Depth = Annotated[int, Whole(1, 40)]
Degree = Annotated[int, Whole(2, 16)]


@check_arguments
def log10_message_passing(degree: Degree, depth: Depth) -> float:
    """log10 of (m - 1)^(2^K - 1), at least as many classes (Lemma A.6); also a lower bound on the VC dimension.

    Args:
        degree: Largest degree m.
        depth: Depth K.
    """
    return (2**depth - 1) * log10(degree - 1)


@check_arguments
def walk_types(degree: Degree, length: Depth, features: int = 2) -> int:
    """The types of walks: |X| m C(k + m - 2, m - 1), by the degrees on the way as a multiset, the degree and the
    feature at the end.

    Args:
        degree: Largest degree m.
        length: Length k of the walks.
        features: Number of features |X|. Default: 2.
    """
    return features * degree * comb(length + degree - 2, degree - 1)


@check_arguments
def walk_types_bound(degree: Degree, length: Depth, features: int = 2) -> int:
    """The document's bound on the types of walks, |X| m (k + m - 2)^(m - 1).

    Args:
        degree: Largest degree m.
        length: Length k of the walks.
        features: Number of features |X|. Default: 2.
    """
    return features * degree * (length + degree - 2) ** (degree - 1)


@check_arguments
def log10_operators(degree: Degree, depth: Depth, features: int = 2, exact_types: bool = False) -> float:
    """log10 of ∏ C(m^k + N_k, N_k), k = 1, ..., K, at most as many classes, since N_k counts sum to at most m^k.

    The factor for the features of the node itself is left out.

    Args:
        degree: Largest degree m.
        depth: Depth K.
        features: Number of features |X|. Default: 2.
        exact_types: Take `walk_types` for N_k instead of the document's bound. Default: False.
    """
    types = walk_types if exact_types else walk_types_bound
    return sum(_log10_choices(degree**k, types(degree, k, features)) for k in range(1, depth + 1))


@check_arguments
def overtaking_depth(degree: Annotated[int, Whole(3, 8)], features: int = 2, exact_types: bool = False) -> int:
    """The least depth at which the lower bound for message passing exceeds the upper bound for operators.

    Args:
        degree: Largest degree m.
        features: Number of features |X|. Default: 2.
        exact_types: Take `walk_types` for N_k instead of the document's bound. Default: False.
    """
    depth, total = 0, 0.0
    types = walk_types if exact_types else walk_types_bound
    while depth == 0 or log10_message_passing(degree, depth) <= total:
        depth += 1
        total += _log10_choices(degree**depth, types(degree, depth, features))
    return depth


@check_arguments
def printed_choices(degree: Degree, length: Depth, features: int = 2) -> int:
    """The document's number of counts for one operator, C(m^k + N - 1, N): it counts sums below m^k and leaves out
    those equal to it. N is `walk_types_bound`.

    Args:
        degree: Largest degree m.
        length: Length k of the walks.
        features: Number of features |X|. Default: 2.
    """
    types = walk_types_bound(degree, length, features)
    return comb(degree**length + types - 1, types)


def _log10_choices(total: int, kinds: int) -> float:
    return log10(comb(total + kinds, kinds))
