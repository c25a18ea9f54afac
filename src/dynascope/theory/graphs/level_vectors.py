"""Full trees with features 0 and 1 by their level vectors, the numbers of zeros on each level.

One level vector is one class of every operator that depends on the structure alone; message passing distinguishes the
trees in it. "Simple structures in neural networks", Appendix A.8, Lemmas A.7 and A.8.
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Annotated, Any

import numpy as np

from dynascope.theory.domains import Whole, check_arguments
from dynascope.theory.graphs.tree_counts import full_trees

Children = Annotated[int, Whole(2, 6)]
Depth = Annotated[int, Whole(0, 3)]


@check_arguments
def trees_by_levels(children: Children, depth: Depth) -> Any:
    """The number of full m-ary trees with q_k zeros on level k, up to isomorphism.

    Multisets of m subtrees are built one level vector at a time: j of the N trees with one vector can be chosen in
    C(N + j - 1, j) ways, and their vectors add up.

    Args:
        children: Number of children m, from 2 to 6.
        depth: Depth K, from 0 to 3.
    """
    kind = np.int64 if full_trees(children, depth) < 2**62 else object
    counts = np.ones(2, kind)
    for level in range(1, depth + 1):
        shape = tuple(children**k + 1 for k in range(1, level + 1))
        chosen = [np.zeros(shape, kind) for _ in range(children + 1)]
        chosen[0][(0,) * level] = 1
        for vector in zip(*np.nonzero(counts), strict=True):
            chosen = _with_more(chosen, np.array(vector), int(counts[vector]))
        counts = np.stack([chosen[children]] * 2)  # the root itself is 1 or 0
    return counts


@check_arguments
def admissible_vectors(children: Children, depth: Depth, *, proper: bool = False) -> list[tuple[int, ...]]:
    """The level vectors of Lemma A.7: 2^k - 2^(k-2) <= q_k <= m^k / 2 for k from 2 on.

    Args:
        children: Number of children m, from 2 to 6.
        depth: Depth K, from 0 to 3.
        proper: Require 1 <= q_1 <= m - 1 too, which its proof needs. Default: False.
    """
    ranges = [range(2)]
    for k in range(1, depth + 1):
        if k == 1:
            ranges.append(range(1, children) if proper else range(children + 1))
        else:
            ranges.append(range(2**k - 2 ** (k - 2), children**k // 2 + 1))
    return list(product(*ranges))


@check_arguments
def fewest_trees(depth: Annotated[int, Whole(1, 8)]) -> int:
    """2^(2^(K-1) - 1): at least as many trees have an admissible level vector (Lemma A.7).

    Args:
        depth: Depth K, from 1 to 8.
    """
    return 2 ** (2 ** (depth - 1) - 1)


@check_arguments
def incomplete_choices(children: Children, depth: Annotated[int, Whole(2, 3)]) -> int:
    """The number of choices of Lemma A.8 that cannot be completed: 1 or 2 zeros under each path of the rarer half, and
    q_K zeros in all, with 1 to m w - 1 under a path with w nodes. The w are any positive numbers with the sum m^(K-1).

    Args:
        children: Number of children m, from 2 to 6.
        depth: Depth K, 2 or 3.
    """
    paths, nodes = 2 ** (depth - 1), children ** (depth - 1)
    half, missing = paths // 2, 0
    for cuts in combinations(range(1, nodes), paths - 1):
        sizes = sorted(np.diff([0, *cuts, nodes]).tolist())
        most = sum(children * size - 1 for size in sizes[half:])
        for chosen in product((1, 2), repeat=half):
            fits = all(zeros < children * size for zeros, size in zip(chosen, sizes, strict=False))
            for q in range(2**depth - 2 ** (depth - 2), children**depth // 2 + 1):
                missing += not (fits and half <= q - sum(chosen) <= most)
    return missing


def _with_more(chosen: list[Any], vector: np.ndarray, trees: int) -> list[Any]:
    """The ways to choose up to m subtrees, after those with this vector are allowed too."""
    most = len(chosen) - 1
    added = [part.copy() for part in chosen]
    for j in range(1, most + 1):
        ways, shift = comb(trees + j - 1, j), j * vector
        for size in range(most - j + 1):
            part = chosen[size]
            room = tuple(slice(0, max(0, length - s)) for length, s in zip(part.shape, shift, strict=True))
            target = tuple(slice(s, None) for s in shift)
            added[size + j][target] += ways * part[room]
    return added
