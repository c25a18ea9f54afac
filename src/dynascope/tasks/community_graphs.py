"""Community detection: graphs of the stochastic block model, and scores of a partition.

The two communities have no names, so a loss and a score are the best over all ways to name them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Integer

from dynascope import checks
from dynascope.tasks.supervised import cross_entropy

MOST_COMMUNITIES = 6
"""The largest number of communities: with more there are too many ways to name them."""


class CommunityGraphs(NamedTuple):
    """Graphs with equally many nodes, the first half of which is one community.

    Entries of the adjacency matrices are sorted by receiver; padding after the last has the number of nodes, an invalid
    index, at both ends.
    """

    senders: Integer[np.ndarray, "graphs entries"]
    """The column of each entry."""
    receivers: Integer[np.ndarray, "graphs entries"]
    """The row of each entry."""
    nodes: int
    """Number of nodes of each graph."""

    @property
    def labels(self) -> Int[np.ndarray, " nodes"]:
        """The community of each node, the same in all graphs."""
        return np.repeat(np.array([0, 1], np.int32), self.nodes // 2)


def block_model_graphs(graphs: int, nodes: int, within: float, across: float, *, seed: int) -> CommunityGraphs:
    """Graphs of the stochastic block model with two communities, independent and made all at once.

    Args:
        graphs: Number of graphs.
        nodes: Number of nodes of each.
        within: A pair in one community is an edge with probability `within / nodes`.
        across: A pair across is one with probability `across / nodes`.
        seed: Seed of all of them.
    """
    checks.whole("graphs", graphs, at_least=1, at_most=2**20)
    checks.whole("nodes", nodes, at_least=2, at_most=2**12)
    if nodes % 2:
        raise ValueError(f"nodes must be even; got {nodes}")
    rng = np.random.default_rng(checks.whole("seed", seed, at_least=0, at_most=2**63 - 1))
    upper = np.stack(np.triu_indices(nodes, 1))
    together = (upper[0] < nodes // 2) == (upper[1] < nodes // 2)
    found = []
    for name, rate, pairs in (("within", within, upper[:, together]), ("across", across, upper[:, ~together])):
        checks.real(name, rate, at_least=0, at_most=nodes)
        graph, pair = np.divmod(_successes(rng, graphs * pairs.shape[1], rate / nodes), pairs.shape[1])
        found.append(np.stack([graph, *pairs[:, pair]]))
    graph, i, j = np.concatenate(found, axis=1)
    graph, sender, receiver = np.tile(graph, 2), np.concatenate([i, j]), np.concatenate([j, i])
    order = np.lexsort((sender, receiver, graph))
    count = np.bincount(graph, minlength=graphs)
    mean = nodes * (within + across) / 2
    usual = math.ceil(mean + 6 * math.sqrt(2 * mean) + 8)
    wanted = max(usual, count.max(initial=0))
    kind = np.min_scalar_type(nodes)
    ends = np.full((2, graphs, wanted), nodes, kind)
    place = np.arange(len(order)) - (np.cumsum(count) - count)[graph[order]]
    ends[0, graph[order], place], ends[1, graph[order], place] = sender[order], receiver[order]
    return CommunityGraphs(ends[0], ends[1], nodes)


def _successes(rng: np.random.Generator, trials: int, probability: float) -> np.ndarray:
    """The numbers of the successful ones among independent trials, by the lengths of the gaps between them."""
    if probability <= 0:
        return np.zeros(0, np.int64)
    found, last = [], -1
    while last < trials:
        count = int(trials * probability + 6 * math.sqrt(trials * probability) + 16)
        found.append(last + np.cumsum(rng.geometric(probability, count)))
        last = int(found[-1][-1])
    every = np.concatenate(found)
    return every[every < trials]


def adjacency_of(
    senders: Integer[Array, " entries"], receivers: Integer[Array, " entries"], nodes: int
) -> Float[Array, "n n"]:
    """The adjacency matrix of one graph."""
    whole = jnp.zeros((nodes + 1, nodes + 1)).at[receivers.astype(int), senders.astype(int)].set(1.0)
    return whole[:nodes, :nodes]


def unnamed_cross_entropy(
    logits: Float[Array, "graphs nodes k"], labels: Int[Array, "graphs nodes"]
) -> Float[Array, ""]:
    """The cross-entropy of each graph under the best of all k! ways to name its communities, averaged over graphs.

    Args:
        logits: Logits of the communities, (graphs, nodes, k).
        labels: The communities, (graphs, nodes).
    """
    checks.array("logits", logits, ndim=3, lists=False)
    if logits.shape[2] > MOST_COMMUNITIES:
        raise ValueError(f"logits must have at most {MOST_COMMUNITIES} communities; got {logits.shape[2]}")
    _check_labels("labels", labels, logits.shape[:2], logits.shape[2])

    def graph(logits: Array, labels: Array) -> Array:
        orders = itertools.permutations(range(logits.shape[1]))
        return jnp.min(jnp.stack([cross_entropy(logits, jnp.asarray(order, labels.dtype)[labels]) for order in orders]))

    return jnp.mean(jax.vmap(graph)(logits, labels))


def overlap(
    found: Int[Array, "*graphs nodes"], labels: Int[Array, "*graphs nodes"], communities: int = 2
) -> Float[Array, "*graphs"]:
    """(accuracy - 1/k) / (1 - 1/k) for k communities, under the best of all ways to name them. 1 is perfect; one
    community for all nodes gets 0.

    Args:
        found: The predicted communities, (..., nodes).
        labels: The communities, (..., nodes).
        communities: k.
    """
    checks.whole("communities", communities, at_least=2, at_most=MOST_COMMUNITIES)
    checks.array("labels", labels, min_ndim=1, lists=False)
    for name, given in (("found", found), ("labels", labels)):
        _check_labels(name, given, labels.shape, communities)
    named = [jnp.asarray(order, found.dtype)[found] for order in itertools.permutations(range(communities))]
    accuracy = jnp.stack([jnp.mean(each == labels, axis=-1) for each in named]).max(0)
    return (accuracy - 1 / communities) / (1 - 1 / communities)


def _check_labels(name: str, labels: Any, shape: tuple[int, ...], communities: int) -> None:
    checks.array(name, labels, min_ndim=1, lists=False)
    allowed = f"integers from 0 to {communities - 1} of shape {tuple(shape)}"
    if labels.shape != tuple(shape) or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(f"{name} must be {allowed}; got {checks.shown(labels)}")
    if not isinstance(labels, Tracer) and labels.size:
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= communities:
            raise ValueError(f"{name} must be {allowed}; got values from {low} to {high}")
