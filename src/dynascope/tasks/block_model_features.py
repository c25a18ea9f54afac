"""Features of graph-augmented MLPs on many graphs at once: normalized powers of fixed operators.

The products with sparse matrices are sums of gathered rows. Nodes of `CHUNK` graphs are sorted by degree and cut into
blocks; the nodes of a block have the same number of places for neighbors, so almost none is empty (the jagged diagonal
format of Y. Saad, Krylov subspace methods on supercomputers, 1989).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.tasks.community_graphs import CommunityGraphs

Operator = Literal["A", "H", "A1"]
"""The adjacency A; the shifted Bethe Hessian H = κI - H(√c), with c the graph's own average degree; A1 = (D + I)^-1/2
(A + I) (D + I)^-1/2, the normalized adjacency with self-loops."""
CHUNK = 64
"""Graphs that are propagated together: their features stay in the cache."""
PLACES = (2, 3, 4, 6, 9)
"""Places for neighbors in the blocks; in the last block as many as the largest degree."""
VARIANCE_FLOOR = 1e-5


def propagated_features(
    graphs: CommunityGraphs, order: int, *, operators: tuple[Operator, ...] = ("A", "H", "A1"), kappa: float = 8.0
) -> Float[Array, "operators graphs nodes order_and_one"]:
    """x_0 = 1 and x_k = N(ω x_(k-1)) for k = 1, ..., `order`, at every node of every graph, for each operator ω.

    N subtracts the mean over the graph's nodes and divides by the standard deviation. So high powers do not overflow,
    and a part that is constant on a graph does not dominate the rest.

    Args:
        graphs: The graphs.
        order: The highest k.
        operators: Names of the operators.
        kappa: κ of the operator κI - H.
    """
    if not isinstance(graphs, CommunityGraphs):
        raise TypeError(f"graphs must be CommunityGraphs; got {checks.shown(graphs)}")
    checks.whole("order", order, at_least=1, at_most=10_000)
    if not isinstance(operators, tuple | list) or not operators:
        raise TypeError(f"operators must be a tuple of names; got {checks.shown(operators)}")
    for operator in operators:
        checks.one_of("each of operators", operator, get_args(Operator))
    checks.real("kappa", kappa)
    degrees, blocks, position = _jagged(graphs)
    arrays = jnp.asarray(degrees, float), [jnp.asarray(block) for block in blocks], jnp.asarray(position)
    return _propagated(arrays, jnp.asarray(kappa, float), order, tuple(operators), len(graphs.senders))


def _jagged(graphs: CommunityGraphs) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Degrees (chunks, CHUNK, nodes); for each block the neighbors of its nodes, (chunks, rows, places), numbered
    within the chunk; and the row of each node among all blocks, (chunks, CHUNK nodes)."""
    count, nodes = len(graphs.senders), graphs.nodes
    chunks, every = -(-count // CHUNK), CHUNK * nodes
    graph, entry = np.nonzero(graphs.receivers < nodes)
    node = graph * nodes + graphs.receivers[graph, entry]
    neighbor = (graph % CHUNK) * nodes + graphs.senders[graph, entry]
    degree = np.bincount(node, minlength=chunks * every)
    start = np.cumsum(degree) - degree
    by_chunk = degree.reshape(chunks, every)
    sorted_nodes = np.argsort(-by_chunk, axis=1, kind="stable")
    mean = round(len(node) / (count * nodes), 1)
    above = [min(every, _usual(by_chunk, mean, places)) for places in PLACES]
    edges = [0, *reversed(above), every]
    places = [max(PLACES[-1] + 1, -(-int(degree.max(initial=0)) // 8) * 8), *reversed(PLACES)]
    padded = np.append(neighbor, every).astype(np.int32)
    blocks = []
    for first, last, width in zip(edges[:-1], edges[1:], places, strict=True):
        here = sorted_nodes[:, first:last] + every * np.arange(chunks)[:, None]
        at = start[here][..., None] + np.arange(width)
        blocks.append(padded[np.where(np.arange(width) < degree[here][..., None], at, len(neighbor))])
    return by_chunk.reshape(chunks, CHUNK, nodes), blocks, np.argsort(sorted_nodes, axis=1).astype(np.int32)


def _usual(degrees: np.ndarray, mean: float, places: int) -> int:
    """The number of nodes of a chunk that may have more neighbors than that. It is compiled in, so it is a bound from a
    Poisson distribution, which seldom depends on the draw; it is larger if the degrees require it."""
    below = sum(math.exp(k * math.log(mean or 1e-9) - mean) / math.factorial(k) for k in range(places + 1))
    tail = degrees.shape[1] * max(0.0, 1 - below)
    return max(math.ceil(tail + 6 * math.sqrt(tail) + 8), int((degrees > places).sum(1).max()))


@partial(jax.jit, static_argnums=(2, 3, 4))
def _propagated(
    arrays: tuple[Array, list[Array], Array], kappa: Array, order: int, operators: tuple[str, ...], count: int
) -> Array:
    def chunk(arrays: tuple[Array, list[Array], Array]) -> Array:
        degree, blocks, position = arrays
        graphs, nodes = degree.shape
        mean_degree = degree.mean(1, keepdims=True)
        root = (degree + 1) ** -0.5
        none = jnp.zeros_like(degree)
        side = {"A": none + 1, "H": none + mean_degree**0.25, "A1": root}
        own = {"A": none, "H": kappa - mean_degree + 1 - degree, "A1": root**2}
        sides = jnp.stack([side[name] for name in operators], axis=-1)
        diagonal = jnp.stack([own[name] for name in operators], axis=-1)

        def step(x: Array, _: None) -> tuple[Array, Array]:
            scaled = jnp.concatenate([(sides * x).reshape(graphs * nodes, -1), jnp.zeros((1, len(operators)))])
            sums = [sum(scaled[block[:, k]] for k in range(block.shape[1])) for block in blocks]
            x = sides * jnp.concatenate(sums)[position].reshape(x.shape) + diagonal * x
            x = x - x.mean(1, keepdims=True)
            x = x / jnp.sqrt(jnp.mean(x**2, axis=1, keepdims=True) + VARIANCE_FLOOR)
            return x, x

        start = jnp.ones((graphs, nodes, len(operators)))
        _, rest = lax.scan(step, start, length=order)
        return jnp.concatenate([start[None], rest]).transpose(3, 1, 2, 0)

    found = jnp.moveaxis(lax.map(chunk, arrays), 0, 1)
    return found.reshape(len(operators), -1, *found.shape[-2:])[:, :count]
