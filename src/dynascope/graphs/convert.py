"""Graphs of networkx, scipy and PyTorch Geometric, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dynascope import checks
from dynascope.graphs.graph import Graph, check_graph, from_edges
from dynascope.graphs.operators import adjacency

if TYPE_CHECKING:  # imported when it is needed: networkx takes a quarter of a second
    import networkx as nx


def from_networkx(graph: nx.Graph[Any], *, features: str | None = None, labels: str | None = None) -> Graph:
    """The graph of a networkx graph; directions and weights of edges are dropped.

    Args:
        graph: The networkx graph; its nodes are numbered in the order of `graph.nodes`.
        features: The node attribute that holds the features.
        labels: The node attribute that holds the labels.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise TypeError(f"graph must be a networkx graph; got {checks.shown(graph)}")
    number = {node: i for i, node in enumerate(graph.nodes)}
    pairs = np.array([(number[i], number[j]) for i, j in graph.edges()], np.int64).reshape(-1, 2)
    found = from_edges(pairs, len(number))
    for name, attribute in (("features", features), ("labels", labels)):
        if attribute is not None:
            if not isinstance(attribute, str):
                raise TypeError(f"{name} must be the name of a node attribute; got {checks.shown(attribute)}")
            found = getattr(found, f"with_{name}")(_attribute(name, attribute, graph.nodes(data=True)))
    return found


def to_networkx(graph: Graph) -> nx.Graph[int]:
    """The graph for networkx, with the node attributes "features" and "labels" if there are any.

    Args:
        graph: The graph.
    """
    import networkx as nx

    made: nx.Graph[int] = nx.Graph()
    made.add_nodes_from(range(check_graph(graph).nodes))
    made.add_edges_from(graph.edges.tolist())
    for name in ("features", "labels"):
        if (values := getattr(graph, name)) is not None:
            for node, value in enumerate(values.tolist()):
                made.nodes[node][name] = value
    return made


def from_scipy(matrix: Any, *, features: Any = None, labels: Any = None) -> Graph:
    """The graph of an adjacency matrix.

    Args:
        matrix: A sparse matrix, (nodes, nodes), with a nonzero entry at every edge, in one direction or both.
        features: Features of the nodes, (nodes, channels) or (nodes,).
        labels: Labels of the nodes, (nodes,).
    """
    if not sp.issparse(matrix) or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(f"matrix must be a square sparse matrix of scipy; got {checks.shown(matrix)}")
    entries = sp.coo_array(matrix)
    entries.eliminate_zeros()
    pairs = np.stack([entries.row, entries.col], axis=1).astype(np.int64)
    return from_edges(pairs, matrix.shape[0], features=features, labels=labels)


def to_scipy(graph: Graph) -> sp.csr_array:
    """The adjacency matrix of a graph: zeros and ones, (nodes, nodes), in 64-bit integers.

    Args:
        graph: The graph.
    """
    return adjacency(graph)


def from_pyg(data: Any) -> Graph:
    """The graph of PyTorch Geometric data.

    Args:
        data: A `torch_geometric.data.Data`: its `edge_index`, and `x` and `y` if they belong to nodes.
    """
    index = getattr(data, "edge_index", None)
    if index is None or np.ndim(index) != 2 or len(index) != 2:
        raise TypeError(f"data must have an edge_index of shape (2, entries), as in PyG; got {checks.shown(data)}")
    graph = from_edges(np.asarray(index).T, getattr(data, "num_nodes", None))
    for name, values in (("features", getattr(data, "x", None)), ("labels", getattr(data, "y", None))):
        if values is not None and np.ndim(values) and len(values) == graph.nodes:
            graph = getattr(graph, f"with_{name}")(np.asarray(values))
    return graph


def to_pyg(graph: Graph) -> Any:
    """The graph as a `torch_geometric.data.Data` of PyTorch Geometric, which must be installed.

    Args:
        graph: The graph.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]

    parts = {"x": check_graph(graph).features, "y": graph.labels}
    made = {name: torch.from_numpy(np.array(values)) for name, values in parts.items() if values is not None}
    index = torch.from_numpy(np.stack([graph.rows, graph.indices]).astype(np.int64))
    return Data(edge_index=index, num_nodes=graph.nodes, **made)


def _attribute(name: str, attribute: str, nodes: Iterable[tuple[Any, dict[str, Any]]]) -> np.ndarray:
    values = []
    for node, data in nodes:
        if attribute not in data:
            raise ValueError(f"{name} must be an attribute of every node; node {node} has no {attribute!r}")
        values.append(data[attribute])
    return np.asarray(values)
