"""Numbers of counter-examples to statements of "Simple structures in neural networks", Chapter 2 and Appendix A, as
they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from dynascope.graphs import (
    adjacency,
    batch,
    cycle_twins,
    family_classes,
    from_edges,
    full_tree,
    graph_codes,
    normalized_adjacency,
    operator_classes,
    power_graph,
    powers,
    tree_twins,
    triangles,
    two_step_graph,
    walk_twins,
    walks,
)
from dynascope.theory.graphs import class_bounds, level_vectors, walk_gap

Tree = tuple[int, tuple[Any, ...]]
"""A feature, and the children in order."""


def power_graph_example() -> dict[str, float]:
    """Whether operators tell a hexagon from two triangles (1) or not (0), and the largest entry of
    min(A², 1) - (A² - I) on the two.
    """
    pair = batch(list(cycle_twins()))
    matrix = adjacency(pair.joined)
    rest = power_graph(pair.joined) - (matrix @ matrix - np.eye(pair.joined.nodes, dtype=int))
    found = {"remainder": float(np.abs(rest).max())}
    for name, made in (("printed", power_graph), ("triangles", triangles), ("two_steps", two_step_graph)):
        first, second = graph_codes(pair, family_classes(pair.joined, [made]))
        found[name] = float(first != second)
    return found


def equivariant_operators() -> dict[str, float]:
    """The number of entries of A that change if two leaves with different parents are swapped, and A(X∘AX) at the roots
    of the trees of Figure 2.3.
    """
    tree = full_tree(2, 2)
    order = np.arange(tree.nodes)
    order[[3, 5]] = [5, 3]
    moved = adjacency(tree.reorder(order)) - adjacency(tree)
    roots = []
    for each in tree_twins():
        x, matrix = each.features, adjacency(each)
        assert x is not None
        roots.append(float((matrix @ (x * (matrix @ x)))[0, 0]))
    return {"changed": float(np.abs(moved).sum()), "root_one": roots[0], "root_other": roots[1]}


def aggregation_construction() -> dict[str, float]:
    """The number of trees that the proof of Lemma A.6 constructs at m = 3, K = 3, the number of these that are
    aggregation trees, and the lemma's number.
    """
    trees = [tree for root in (0, 1) for tree in _construct(3, 3, root)]
    unrolled = sum(_unrolls(tree) for tree in trees)
    return {"constructed": float(len(set(trees))), "aggregation": float(unrolled), "claimed": float(2 ** (2**3 - 1))}


def printed_walk_formula() -> dict[str, float]:
    """The largest errors of (A.15) with the factor d_k, as printed, and with d_k^-β, on a graph of 8 nodes: lengths 1
    to 3, α = 0.3 and β = 0.6.
    """
    alpha, beta = 0.3, 0.6
    ring = [(i, (i + 1) % 8) for i in range(8)]
    graph = from_edges([*ring, (0, 3), (2, 6), (1, 4), (0, 5)], 8)
    x, degree = np.linspace(-1.0, 2.0, 8), graph.degrees.astype(float)
    exact = powers(normalized_adjacency(graph, alpha=alpha, beta=beta), x, 3)[:, :, 0]
    errors = {"printed": 0.0, "right": 0.0}
    for k, node in product((1, 2, 3), range(8)):
        sums = dict.fromkeys(errors, 0.0)
        for walk in walks(graph, node, k):
            inner, end = np.prod(degree[list(walk[1:-1])]) ** -(alpha + beta), walk[-1]
            sums["printed"] += inner * degree[end] * x[end]
            sums["right"] += inner * degree[end] ** -beta * x[end]
        for name, total in sums.items():
            errors[name] = max(errors[name], abs(degree[node] ** -alpha * total - exact[k, node]))
    return errors


def printed_class_bound() -> dict[str, float]:
    """The classes that one operator, D^-1/2 A D^-1/2, sees of rooted graphs with degrees up to 2 and two features, and
    the document's bound on them, at k = 1.
    """
    kinds = list(product((1, 2), (0, 1)))  # degree and feature of a neighbor
    graphs = []
    for size in range(3):
        for around in combinations_with_replacement(kinds, size):
            edges, features = [], [0]
            for degree, feature in around:
                edges.append((0, len(features)))
                features.append(feature)
                if degree == 2:
                    edges.append((len(features) - 1, len(features)))
                    features.append(0)
            graphs.append(from_edges(edges, len(features), features=np.eye(2, dtype=int)[features]))
    joined = batch(graphs)
    seen = operator_classes(joined.joined, 1, operator=normalized_adjacency, own=False)[-1][joined.offsets[:-1]]
    return {"classes": float(len(np.unique(seen))), "printed": float(class_bounds.printed_choices(2, 1))}


def printed_neighbor() -> dict[str, float]:
    """The first lengths up to 20 at which (A.32) fails, and at which the equality of the two graphs' walk counts fails,
    with node 7 joined to 13, as in (A.39), and to 14.
    """
    found = {}
    for name, end in (("printed", 13), ("right", 14)):
        pair = []
        for graph in walk_twins():
            kept = [edge for edge in graph.edges.tolist() if edge != [6, 13]]
            pair.append(from_edges([*kept, (6, end - 1)], 14))
        counts = [powers(adjacency(graph), np.ones(14, int), 20)[:, :, 0] for graph in pair]
        one = counts[0]
        sums = one[:, 4] + one[:, 6] == one[:, 3] + one[:, 9]
        same = (counts[0] == counts[1]).all(axis=1)
        found[f"{name}_sum"], found[f"{name}_walks"] = (_first_false(each) for each in (sums, same))
    return found


def level_vector_lemma() -> dict[str, float]:
    """The trees with q_1 = 0 at depth 1 and m = 3 that contain both features below the root, as (A.22) requires;
    admissible level vectors at m = 2, K = 2; the degree of an inner node of a full tree with m = 3."""
    both = [
        leaves for leaves in combinations_with_replacement((0, 1), 3) if leaves.count(0) == 0 and len({*leaves}) == 2
    ]
    inner = int(full_tree(3, 2).degrees.max())
    vectors = len(level_vectors.admissible_vectors(2, 2))
    return {"base_case": float(len(both)), "binary_vectors": float(vectors), "inner_degree": float(inner)}


def walk_count_construction() -> dict[str, float]:
    """The choices of q_k of Appendix A.9 at m = 3, k = 2 and x = (0, 0), and the least and the largest f_k; at m = 2
    the choices; and whether f_3 is A³1 at a root if there is one feature."""
    values = [
        walk_gap.walks_from_root(tree, (0, 0))
        for q in walk_gap.level_totals(3, 2)
        for tree in walk_gap.confused_trees(3, (0, 0), q)
    ]
    tree = full_tree(3, 3)
    alone = walk_gap.walks_from_root(tree.with_features(np.zeros(tree.nodes, int)), (0, 0, 0))
    return {
        "choices": float(len(walk_gap.level_totals(3, 2))),
        "least": float(min(values)),
        "most": float(max(values)),
        "binary_choices": float(len(walk_gap.level_totals(2, 2))),
        "one_feature": float(alone == powers(adjacency(tree), np.ones(tree.nodes, int), 3)[3, 0, 0]),
    }


def _first_false(flags: Any) -> float:
    found = np.flatnonzero(~np.asarray(flags, bool))
    return float(found[0]) if len(found) else np.inf


def _construct(m: int, depth: int, root: int) -> Iterator[Tree]:
    """All trees in which the nodes under one path of features have the same numbers of children 0 and 1, at least one
    of each."""
    paths: list[tuple[int, ...]] = [path for k in range(depth) for path in product((0, 1), repeat=k)]
    for choice in product(range(1, m), repeat=len(paths)):
        zeros = dict(zip(paths, choice, strict=True))
        yield _grow(m, depth, root, (), zeros)


def _grow(m: int, depth: int, feature: int, path: tuple[int, ...], zeros: dict[tuple[int, ...], int]) -> Tree:
    if len(path) == depth:
        return feature, ()
    count = (zeros[path], m - zeros[path])
    return feature, tuple(
        sorted(_grow(m, depth, child, (*path, child), zeros) for child in (0, 1) for _ in range(count[child]))
    )


def _unrolls(tree: Tree) -> bool:
    """Whether some child of every node repeats the node's parent with the whole subtree below it, as deep as the tree
    is."""

    def height(node: Tree) -> int:
        return 1 + height(node[1][0]) if node[1] else 0

    def cut(node: Tree, levels: int) -> Tree:
        return node[0], tuple(sorted(cut(child, levels - 1) for child in node[1])) if levels else ()

    def fits(node: Tree, parent: Tree) -> bool:
        if not node[1]:
            return True
        back = cut(parent, height(node) - 1)
        return back in node[1] and all(fits(child, node) for child in node[1])

    return all(fits(child, tree) for child in tree[1])
