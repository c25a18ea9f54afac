"""Hand-set weights with which a graph isomorphism network counts walks through blue nodes exactly.

A proof by example that message passing can compute a function that no graph-augmented MLP of the same depth can
("Simple structures in neural networks", Proposition 2.7 and Section 2.6.2). All numbers are integers, so that 64-bit
floats compute them exactly.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.graphs import Graph, adjacency
from dynascope.theory.domains import Whole, check_arguments


class Perceptron(NamedTuple):
    """Two linear maps, each `W h + b`, with a ReLU after the first."""

    w1: Float[np.ndarray, "hidden inputs"]
    """First matrix. Shape (hidden, inputs)."""
    b1: Float[np.ndarray, " hidden"]
    """First bias. Shape (hidden,)."""
    w2: Float[np.ndarray, "outputs hidden"]
    """Second matrix. Shape (outputs, hidden)."""
    b2: Float[np.ndarray, " outputs"]
    """Second bias. Shape (outputs,)."""


class ExactGIN(NamedTuple):
    """Layers h_i <- ReLU(MLP((1 + ε) h_i + Σ_j h_j)); the head reads the input and the outputs of all layers, one after
    the other."""

    epsilons: tuple[float, ...]
    """ε of each layer."""
    layers: tuple[Perceptron, ...]
    """MLP of each layer."""
    head: Perceptron
    """MLP that reads the input and all layers."""


@check_arguments
def exact_gin(largest_degree: Annotated[int, Whole(1, 1000)], edges: Annotated[int, Whole(2, 3)]) -> ExactGIN:
    """A network whose output is the number of walks through blue nodes only, from blue ones; its input (nodes, 1) is 1
    at blue nodes and 0 at others.

    With δ larger than every degree, s = δb + Ab encodes both whether a node is blue and how many blue neighbors it has;
    a ReLU with a large M turns the other nodes off.

    Args:
        largest_degree: Largest degree of the graphs, from 1 to 1000.
        edges: Number of edges of the walks, 2 or 3, and depth of the network.
    """
    delta = largest_degree + 1
    off = largest_degree**edges + delta**2 + delta
    first = _layer([[1], [1]], [1 - delta, -delta], [[1, -1], [0, 1]], [0, 0])  # b, and c = b Ab
    if edges == 2:
        second = _layer([[1, 0], [0, 1]], [0, 0], [[0, 1]], [0])  # Ac
        # x | b, c | Ac
        head = _layer([[0, off, 0, 1]], [-off], [[1]], [0])
        return ExactGIN((delta - 1, -1), (first, second), head)
    second = _layer(
        [[1, 0], [1, 0], [-delta, 1], [delta, -1]],
        [1 - delta, -delta, delta**2, -(delta**2)],
        [[1, -1, 0, 0], [off, -off, 1, -1]],
        [0, -off],
    )  # b, and c' = b Ac
    third = _layer([[1, 0], [0, 1]], [0, 0], [[0, 1]], [0])  # Ac'
    # x | b, c | b, c' | Ac'
    head = _layer([[0, off, 0, 0, 0, 1]], [-off], [[1]], [0])
    return ExactGIN((delta - 1, delta - 1, -1), (first, second, third), head)


@check_arguments
def apply_gin(network: ExactGIN, graph: Graph, x: Float[np.ndarray, "nodes inputs"]) -> Float[np.ndarray, " nodes"]:
    """The output of the network at every node of a graph.

    Args:
        network: The network.
        graph: The graph.
        x: Features of the nodes. Shape (nodes, inputs).
    """
    if len(x) != graph.nodes or x.shape[1] != network.layers[0].w1.shape[1]:
        raise ValueError(f"x must have a row for each node of graph, as the network takes it; got shape {x.shape}")
    matrix = adjacency(graph).astype(x.dtype)
    seen, h = [x], x
    for epsilon, layer in zip(network.epsilons, network.layers, strict=True):
        h = np.maximum(_perceptron(layer, (1 + x.dtype.type(epsilon)) * h + matrix @ h), 0)
        seen.append(h)
    return _perceptron(network.head, np.concatenate(seen, axis=1))[:, 0]


def _perceptron(part: Perceptron, h: np.ndarray) -> np.ndarray:
    w1, b1, w2, b2 = (each.astype(h.dtype) for each in part)
    return np.maximum(h @ w1.T + b1, 0) @ w2.T + b2


def _layer(w1: list[list[int]], b1: list[int], w2: list[list[int]], b2: list[int]) -> Perceptron:
    return Perceptron(*(np.array(each, float) for each in (w1, b1, w2, b2)))
