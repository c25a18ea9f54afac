"""Graphs to look at: random ones, each from its seed, and regular patterns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dynascope import checks
from dynascope.graphs.batch import GraphBatch, batch
from dynascope.graphs.graph import Graph, check_graph, from_edges


def random_regular(degree: int, nodes: int, *, seed: int) -> Graph:
    """A random graph in which every node has the same degree.

    Args:
        degree: The degree.
        nodes: Number of nodes; degree times nodes must be even.
        seed: Seed of networkx, which names the same graph there.
    """
    checks.whole("degree", degree, at_least=0)
    checks.whole("nodes", nodes, at_least=degree + 1, at_most=2**24)
    if degree * nodes % 2:
        raise ValueError(f"degree times nodes must be even; got {degree} and {nodes}")
    return _networkx("random_regular_graph", degree, nodes, seed=_seed(seed))


def barabasi_albert(nodes: int, attached: int, *, seed: int) -> Graph:
    """A graph grown by preferential attachment.

    Args:
        nodes: Number of nodes.
        attached: Number of edges of every new node.
        seed: Seed of networkx, which names the same graph there.
    """
    checks.whole("attached", attached, at_least=1)
    checks.whole("nodes", nodes, at_least=attached + 1, at_most=2**24)
    return _networkx("barabasi_albert_graph", nodes, attached, seed=_seed(seed))


def erdos_renyi(nodes: int, probability: float, *, seed: int) -> Graph:
    """G(n, p): every pair of nodes is an edge with the same probability.

    Args:
        nodes: The number n of nodes.
        probability: p.
        seed: Seed of networkx, which names the same graph there.
    """
    checks.whole("nodes", nodes, at_least=1, at_most=2**24)
    checks.real("probability", probability, at_least=0, at_most=1)
    return _networkx("fast_gnp_random_graph", nodes, probability, seed=_seed(seed))


def random_graph(nodes: int, edges: int, *, seed: int) -> Graph:
    """Edges between random pairs of nodes, for millions of nodes.

    Args:
        nodes: Number of nodes.
        edges: Number of pairs drawn; loops and repeated pairs are left out.
        seed: Seed of the pairs.
    """
    checks.whole("nodes", nodes, at_least=2, at_most=2**31 - 1)
    checks.whole("edges", edges, at_least=0, at_most=2**29)
    pairs = np.random.default_rng(_seed(seed)).integers(0, nodes, (edges, 2), np.int32)
    made = from_edges(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), nodes)
    return Graph(made.indptr, made.indices)


def stochastic_block_model(
    nodes: int,
    within: float,
    across: float,
    *,
    seed: int,
    edges: Literal["bernoulli", "fixed-count"] = "bernoulli",
) -> Graph:
    """Two communities of equal size, with more or fewer edges within them than across. The labels are the communities:
    0 for the first half of the nodes.

    Args:
        nodes: Number of nodes, even.
        within: A pair in one community is an edge with probability `within / nodes`.
        across: A pair across is one with probability `across / nodes`.
        seed: Seed of the edges.
        edges: "bernoulli" for independent edges. "fixed-count" (the authors' way, which allows self-loops): a fixed
            number of random positions in each block of the matrix, those on or above the diagonal.
    """
    checks.whole("nodes", nodes, at_least=2, at_most=2**14)
    checks.one_of("edges", edges, ("bernoulli", "fixed-count"))
    if nodes % 2:
        raise ValueError(f"nodes must be even; got {nodes}")
    for name, rate in (("within", within), ("across", across)):
        checks.real(name, rate, at_least=0, at_most=nodes)
    rng, half = np.random.default_rng(_seed(seed)), nodes // 2
    label = np.repeat(np.array([0, 1], np.int32), half)
    if edges == "bernoulli":
        i, j = np.triu_indices(nodes, 1)
        chance = np.where(label[i] == label[j], within, across) / nodes
        chosen = rng.random(len(i)) < chance
        pairs = np.stack([i[chosen], j[chosen]], axis=1)
    else:
        parts = []
        for row, column, rate in ((0, 0, within), (1, 1, within), (0, 1, across)):
            cells = rng.choice(half * half, round(rate * half * half / nodes), replace=False)
            i, j = np.divmod(cells, half)
            parts.append(np.stack([i + row * half, j + column * half], axis=1))
        pairs = np.concatenate(parts)
        pairs = pairs[pairs[:, 0] <= pairs[:, 1]]
    return from_edges(pairs, nodes, labels=label)


def block_model_batch(
    graphs: int, nodes: int, within: float, across: float, *, seed: int, edges: str = "bernoulli"
) -> GraphBatch:
    """Graphs of the stochastic block model, independent and side by side.

    Args:
        graphs: Number of graphs.
        nodes: Number of nodes of each, even.
        within: A pair in one community is an edge with probability `within / nodes`.
        across: A pair across is one with probability `across / nodes`.
        seed: Seed of all of them.
        edges: "bernoulli" or "fixed-count"; see `stochastic_block_model`.
    """
    checks.whole("graphs", graphs, at_least=1, at_most=2**20)
    children = np.random.SeedSequence(_seed(seed)).generate_state(graphs)
    kind: Any = edges
    return batch([stochastic_block_model(nodes, within, across, seed=int(child), edges=kind) for child in children])


def caveman(cliques: int, size: int) -> Graph:
    """Cliques of equal size in a ring, joined by one edge each.

    Args:
        cliques: Number of cliques.
        size: Number of nodes of each.
    """
    checks.whole("cliques", cliques, at_least=1, at_most=2**16)
    checks.whole("size", size, at_least=2, at_most=2**10)
    return _networkx("connected_caveman_graph", cliques, size)


def cycle(nodes: int) -> Graph:
    """A ring.

    Args:
        nodes: Number of nodes, at least 3.
    """
    checks.whole("nodes", nodes, at_least=3, at_most=2**28)
    ring = np.arange(nodes)
    return from_edges(np.stack([ring, np.roll(ring, -1)], axis=1), nodes)


def disjoint_cycles(lengths: Sequence[int]) -> Graph:
    """Rings side by side.

    Args:
        lengths: Number of nodes of each, at least 3.
    """
    if not isinstance(lengths, Sequence) or isinstance(lengths, str) or not lengths:
        raise TypeError(f"lengths must be a list of ring lengths; got {checks.shown(lengths)}")
    return batch([cycle(checks.whole("each of lengths", length, at_least=3)) for length in lengths]).joined


def complete_bipartite(left: int, right: int) -> Graph:
    """Two sets of nodes, with every edge from one to the other.

    Args:
        left: Number of nodes of the first set.
        right: Number of nodes of the second.
    """
    checks.whole("left", left, at_least=1, at_most=2**12)
    checks.whole("right", right, at_least=1, at_most=2**12)
    i, j = np.divmod(np.arange(left * right), right)
    return from_edges(np.stack([i, left + j], axis=1), left + right)


def full_tree(children: int, depth: int) -> Graph:
    """The tree in which every node above the last level has the same number of children.

    Node 0 is the root; nodes are numbered level by level, so that the children of node i are `children * i + 1, ...,
    children * (i + 1)`.

    Args:
        children: Number of children.
        depth: The depth of the last level.
    """
    checks.whole("children", children, at_least=1, at_most=2**10)
    checks.whole("depth", depth, at_least=0, at_most=64)
    nodes = sum(children**level for level in range(depth + 1))
    if nodes > 2**24:
        raise ValueError(f"children and depth must give at most {2**24} nodes; got {nodes}")
    below = np.arange(1, nodes)
    return from_edges(np.stack([(below - 1) // children, below], axis=1), nodes)


def ball(degree: int, depth: int) -> Graph:
    """The tree around node 0 in which every node above the last level has the same degree.

    Args:
        degree: The degree: the root has that many children, every other node one fewer.
        depth: The depth of the last level.
    """
    checks.whole("degree", degree, at_least=2, at_most=2**10)
    checks.whole("depth", depth, at_least=0, at_most=64)
    edges, level, nodes = [], [0], 1
    for at in range(depth):
        children = degree if at == 0 else degree - 1
        if nodes + len(level) * children > 2**24:
            raise ValueError(f"degree and depth must give at most {2**24} nodes; got {degree} and {depth}")
        new = np.arange(nodes, nodes + len(level) * children)
        edges.append(np.stack([np.repeat(level, children), new], axis=1))
        level, nodes = new, nodes + len(new)
    return from_edges(np.concatenate(edges) if edges else [], nodes)


def parity_colors(graph: Graph) -> Graph:
    """The graph with two colors as features: (1, 0), blue, at even node numbers and (0, 1), red, at odd ones.

    Args:
        graph: The graph.
    """
    check_graph(graph)
    return graph.with_features(np.eye(2, dtype=np.int64)[np.arange(graph.nodes) % 2])


def _networkx(name: str, *sizes: float, **options: Any) -> Graph:
    import networkx as nx

    made = getattr(nx, name)(*sizes, **options)
    return from_edges(list(made.edges), made.number_of_nodes())  # by the numbers of its nodes, not by their order


def _seed(seed: Any) -> int:
    return checks.whole("seed", seed, at_least=0, at_most=2**63 - 1)
